package dev.foldmax.benchmarks;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.function.Function;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.openjdk.jmh.runner.RunnerException;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Measures the lines of {@link Catalogue} and writes {@code performance.md} and its JSON. */
@Command(
    name = "Table",
    mixinStandardHelpOptions = true,
    description = "Measures Foldmax beside others and writes performance.md and performance.json.")
public final class Table implements Callable<Integer> {
  @Spec private CommandSpec spec;

  @Option(
      names = "--quick",
      description = "one round of short iterations: shows that everything runs, not how fast")
  private boolean quick;

  @Option(names = "--rounds", paramLabel = "N", description = "how many rounds")
  private @Nullable Integer rounds;

  @Option(
      names = "--threads",
      split = ",",
      paramLabel = "N",
      description = "numbers of threads, such as 1,2; default: 1 and all cores")
  private List<Integer> threads =
      Stream.of(1, Runtime.getRuntime().availableProcessors()).distinct().toList();

  @Option(
      names = "--only",
      paramLabel = "REGEX",
      description = "the lines whose name, such as 'Decode, H 32/8 Lq 1', it finds")
  private Pattern only = Pattern.compile("");

  @Option(
      names = "--set",
      paramLabel = "SET",
      description =
          "all, or bars: what the table of bars needs, on a short schedule (default:"
              + " ${DEFAULT-VALUE})")
  private LineSet set = LineSet.all;

  @Option(
      names = "--against",
      split = ",",
      paramLabel = "WHO",
      description = "naive, pytorch, onnx_runtime or none; default: all that the set needs")
  private @Nullable List<String> against;

  @Mixin private PeerOptions peers;

  @Option(
      names = "--avx2",
      description = "keep the JVM and PyTorch to AVX2 on a machine with AVX-512")
  private boolean avx2;

  @Option(
      names = "--jvm",
      paramLabel = "OPTION",
      description = "an option of the JVMs that measure, such as --jvm=-XX:+UseParallelGC")
  private List<String> jvm = List.of();

  @Option(
      names = "--first-calls",
      paramLabel = "N",
      description = "how many fresh JVMs to time to a first result (default: ${DEFAULT-VALUE})")
  private int firstCalls = 5;

  @Option(names = "--list", description = "print the lines' names and measure nothing")
  private boolean list;

  @Option(
      names = "--out",
      paramLabel = "FOLDER",
      description = "where to write (default: ${DEFAULT-VALUE})")
  private Path out = Path.of("benchmarks", "target");

  private Table() {}

  /** Runs the command; see {@code --help}. */
  public static void main(String[] args) {
    System.exit(new CommandLine(new Table()).execute(args));
  }

  /** Which lines. */
  private enum LineSet {
    all,
    bars
  }

  @Override
  public Integer call() throws IOException, RunnerException {
    if (threads.stream().anyMatch(t -> t < 1) || (rounds != null && rounds < 1)) {
      throw new ParameterException(
          spec.commandLine(), "--threads and --rounds: expected at least 1");
    }
    peers.validate();
    List<Bar> bars = Bars.of(threads);
    List<Line> lines =
        Catalogue.lines(threads).stream()
            .filter(line -> set == LineSet.all || isNeeded(line, bars))
            .filter(line -> only.matcher(line.toString()).find())
            .toList();
    if (lines.isEmpty()) {
      throw new ParameterException(spec.commandLine(), "--only: no line has " + only);
    }
    if (list) {
      lines.forEach(line -> spec.commandLine().getOut().println(line));
      return 0;
    }
    Schedule schedule = schedule();
    List<String> options = options();
    Run run =
        new Run(
            Machine.here(),
            LocalDate.now(ZoneId.systemDefault()),
            peers.isEmpty() ? "benchmarks" : "benchmarks,peers",
            arguments(),
            schedule,
            bars);
    Files.createDirectories(out); // fails now rather than after an hour
    Measurements measurements =
        new Rounds(schedule, contenders(bars), options, System.err)
            .measure(lines)
            .with(FirstCall.measure(firstCalls, options));
    Files.writeString(out.resolve("performance.md"), MarkdownReport.write(run, measurements));
    Files.writeString(out.resolve("performance.json"), JsonReport.write(run, measurements));
    spec.commandLine().getOut().println("wrote performance.md and performance.json into " + out);
    return 0;
  }

  /** As given, but for the folders: where they lie is this machine's affair. */
  private String arguments() {
    List<String> given = new ArrayList<>(spec.commandLine().getParseResult().originalArgs());
    int option = given.indexOf(PeerOptions.NAME);
    if (option >= 0) {
      given.subList(option, option + 2).clear();
    }
    return String.join(" ", given);
  }

  private static boolean isNeeded(Line line, List<Bar> bars) {
    return bars.stream().anyMatch(bar -> bar.needs(line.shape(), line.threads()));
  }

  private Schedule schedule() {
    Schedule schedule =
        quick ? Schedule.QUICK : set == LineSet.bars ? Schedule.SHORT : Schedule.FULL;
    return rounds == null ? schedule : schedule.rounds(rounds);
  }

  /** The options of the JVMs that measure. */
  private List<String> options() {
    List<String> options = new ArrayList<>(jvm);
    options.addAll(peers.jvmOptions());
    if (avx2) {
      options.addAll(Rounds.avx2());
    }
    return options;
  }

  /** Who is measured in a line. */
  private Function<Line, List<Contender>> contenders(List<Bar> bars) {
    List<Contender> present = PeerLibraries.in(peers.folders()).contenders();
    return line -> present.stream().filter(c -> isWanted(c, line, bars)).toList();
  }

  private boolean isWanted(Contender contender, Line line, List<Bar> bars) {
    if (contender == Contender.FOLDMAX) {
      return true;
    }
    if (against != null) {
      return against.contains(contender.name().toLowerCase(Locale.ROOT));
    }
    return set == LineSet.all
        || bars.stream().anyMatch(bar -> bar.needs(line.shape(), line.threads(), contender));
  }
}
