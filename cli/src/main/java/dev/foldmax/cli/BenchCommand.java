package dev.foldmax.cli;

import dev.foldmax.Availability;
import dev.foldmax.Backend;
import dev.foldmax.io.AtomicFile;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** How fast this machine is, and how near to its own limits. */
@Command(
    name = "bench",
    sortOptions = false,
    description = {
      "Measures this machine, and its GPU if there is one, in about a minute each: first its ceilings"
          + " (multiply-adds, memory), then softmax, prefill and decoding, each beside the ceiling"
          + " that bounds it.",
      "",
      "Random numbers, resident in memory; medians of warm repeats; nothing else should run"
          + " meanwhile. The comparison with other libraries is docs/performance.md's.",
      ""
    },
    footer = {
      "",
      "Examples:",
      "  foldmax bench",
      "  foldmax bench --backend cpu --threads 1 --seconds 20",
      "  foldmax bench --out /tmp        writes bench.json, bench.svg and bench.png there"
    })
final class BenchCommand implements Callable<Integer> {
  /** What {@code --backend} takes. */
  enum Name {
    ALL,
    CPU,
    CUDA
  }

  private static final double LEAST_SECONDS = 1;
  private static final double MOST_SECONDS = 3600;

  @Spec private CommandSpec spec;

  @Option(
      names = "--backend",
      paramLabel = "NAME",
      converter = Choice.OfBenchBackend.class,
      completionCandidates = Choice.OfBenchBackend.class,
      description = "cpu, cuda, or all that there are, which is the default.")
  private Name backend = Name.ALL;

  @Option(
      names = "--threads",
      paramLabel = "N",
      description = "Threads of the CPU backend; all cores without it.")
  private @Nullable Integer threads;

  @Option(
      names = "--seconds",
      paramLabel = "SECONDS",
      description = "About how long to measure each backend, 1 to 3600; 60 without it.")
  private double seconds = 60;

  @Option(
      names = "--out",
      paramLabel = "FOLDER",
      description = "Writes bench.json, and a picture as bench.svg and bench.png.")
  private @Nullable Path out;

  @Mixin private CommonOptions common;

  @Override
  public Integer call() throws IOException {
    validate();
    Report report = new Report("foldmax bench, " + Main.Version.current());
    report.field("foldmax", Main.Version.current());
    report.field("jdk", System.getProperty("java.runtime.version"));
    report.field("os", System.getProperty("os.name") + ", " + System.getProperty("os.arch"));
    report.field("seconds", seconds);
    List<BenchResult> all = new ArrayList<>();
    List<Object> json = new ArrayList<>();
    for (String name : backends()) {
      try (Backend opened = open(name)) {
        List<BenchResult> results = measure(opened);
        report.line(name, opened.description());
        results.forEach(result -> report.line("  " + result.work(), result.describe()));
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("backend", name);
        fields.put("description", opened.description());
        fields.put("results", results.stream().map(BenchResult::json).toList());
        json.add(fields);
        all.addAll(results);
      }
    }
    report.field("backends", json);
    report.print(spec.commandLine().getOut(), common.json);
    if (out != null) {
      byte[] bytes = (report.json() + "\n").getBytes(StandardCharsets.UTF_8);
      AtomicFile.write(out.resolve("bench.json"), bytes);
      draw(out, all);
    }
    return 0;
  }

  private static void draw(Path folder, List<BenchResult> results) throws IOException {
    System.setProperty("java.awt.headless", "true"); // drawn into memory, whatever the display
    try {
      new BenchPicture("Foldmax " + Main.Version.current(), results).write(folder);
    } catch (LinkageError | InternalError e) {
      throw new Failure(
          "bench.svg, bench.png: this system has no fonts to draw with; install fontconfig and a"
              + " font (bench.json is written)",
          e);
    }
  }

  private void validate() {
    if (!(seconds >= LEAST_SECONDS && seconds <= MOST_SECONDS)) {
      throw new ParameterException(
          spec.commandLine(), "--seconds: expected 1 to 3600, got " + Quantity.number(seconds));
    }
    if (threads != null && (threads < 1 || backend == Name.CUDA)) {
      throw new ParameterException(
          spec.commandLine(),
          threads < 1
              ? "--threads: expected at least 1, got " + threads
              : "--threads is for the CPU backend and conflicts with --backend cuda");
    }
    if (out != null && !Files.isDirectory(out)) {
      throw new ParameterException(spec.commandLine(), "--out: expected a folder, got " + out);
    }
  }

  private List<String> backends() {
    return switch (backend) {
      case CPU -> List.of("cpu");
      case CUDA -> List.of("cuda");
      case ALL ->
          Backend.availabilities().entrySet().stream()
              .filter(entry -> entry.getValue() instanceof Availability.Available)
              .map(Map.Entry::getKey)
              .filter(name -> !name.equals("reference"))
              .toList();
    };
  }

  private Backend open(String name) {
    if (name.equals("cuda")) {
      return Backend.cuda(0);
    }
    return Backend.cpu(threads != null ? threads : Runtime.getRuntime().availableProcessors());
  }

  private List<BenchResult> measure(Backend opened) {
    boolean isCpu = opened.name().equals("cpu");
    int parallelism = threads != null ? threads : Runtime.getRuntime().availableProcessors();
    try (Progress progress =
        Progress.start(
            "measuring " + opened.name(),
            Progress.Work.UNCOUNTED,
            Progress.Form.AUTO,
            spec.commandLine().getErr())) {
      return isCpu
          ? new Bench(opened, BenchSizes.CPU, seconds, progress::reach).onCpu(parallelism)
          : new Bench(opened, BenchSizes.GPU, seconds, progress::reach).onDevice();
    }
  }
}
