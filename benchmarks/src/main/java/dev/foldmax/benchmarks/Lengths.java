package dev.foldmax.benchmarks;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** Measures time and memory against length, and draws them. */
@Command(
    name = "Lengths",
    mixinStandardHelpOptions = true,
    description =
        "Measures causal attention at growing lengths, each in a process of its own, and writes"
            + " lengths-cpu.json with a table and two plots; or draws what was measured elsewhere.")
public final class Lengths implements Callable<Integer> {
  private static final double MIB = 1 << 20;

  /** Below this, processes differ by as much for other reasons. */
  private static final double LEAST_MIB = 1;

  @Option(
      names = "--lengths",
      split = ",",
      paramLabel = "L",
      description = "default: ${DEFAULT-VALUE}")
  private List<Integer> lengths = List.of(512, 1024, 2048, 4096, 8192, 16384, 32768);

  @Mixin private PeerOptions peers;

  @Option(
      names = "--draw",
      paramLabel = "FILE",
      description = "measures nothing: draws a .json file of this or of gpu/lengths.py")
  private @Nullable Path draw;

  @Option(
      names = "--out",
      paramLabel = "FOLDER",
      description = "where to write (default: ${DEFAULT-VALUE})")
  private Path out = Path.of("benchmarks", "target");

  private Lengths() {}

  /** Runs the command; see {@code --help}. */
  public static void main(String[] args) {
    System.exit(commandLine().execute(args));
  }

  /** The command, ready to execute arguments. */
  static CommandLine commandLine() {
    System.setProperty("java.awt.headless", "true"); // drawn into memory, whatever the display
    return new CommandLine(new Lengths());
  }

  @Override
  public Integer call() throws IOException {
    peers.validate();
    Files.createDirectories(out);
    String name = "lengths-cpu";
    LengthSeries series;
    if (draw != null) {
      name = draw.getFileName().toString().replaceFirst("\\.json$", "");
      series = LengthSeries.fromJson(Files.readString(draw));
    } else {
      series = measure();
      Files.writeString(out.resolve(name + ".json"), series.toJson());
    }
    Files.writeString(
        out.resolve(name + "-time.svg"),
        LengthPlot.draw(series, "milliseconds", 1e-3, point -> 1e3 * point.seconds()));
    Files.writeString(
        out.resolve(name + "-memory.svg"),
        LengthPlot.draw(series, "MiB of memory", LEAST_MIB, point -> point.bytes() / MIB));
    Files.writeString(out.resolve(name + ".md"), page(name, series));
    return 0;
  }

  private LengthSeries measure() throws IOException {
    int threads = Runtime.getRuntime().availableProcessors();
    Map<String, List<LengthSeries.Point>> all = new LinkedHashMap<>();
    for (Contender contender : PeerLibraries.in(peers.folders()).contenders()) {
      List<LengthSeries.Point> points = new ArrayList<>();
      for (int length : new TreeSet<>(lengths)) {
        LengthSeries.Point point = measure(contender, length, threads);
        if (point == null) {
          System.err.println(contender.label() + " fails at " + length);
          break;
        }
        System.err.printf(
            Locale.ROOT,
            "%s, L %d: %.3f ms, %.1f MiB%n",
            contender.label(),
            length,
            1e3 * point.seconds(),
            point.bytes() / MIB);
        points.add(point);
      }
      all.put(contender.label(), points);
    }
    Machine here = Machine.here();
    return new LengthSeries(
        "causal attention, H 1 D " + LengthPoint.DIM + " f32, threads " + threads,
        here.cpu() + ", " + here.backend() + ", " + LocalDate.now(ZoneId.systemDefault()),
        "./mvnw -q -Dfoldmax.quick -pl benchmarks -am -Pbenchmarks,peers process-classes"
            + " -Dbenchmarks.main=Lengths -Dbenchmarks.args='--out docs/plots'",
        all);
  }

  /** A contender at a length; null if it fails, as for want of memory. */
  private LengthSeries.@Nullable Point measure(Contender contender, int length, int threads)
      throws IOException {
    List<String> options = new ArrayList<>(peers.jvmOptions());
    options.add("-Xmx1g"); // so that garbage is collected and memory is what is needed
    Process process =
        FreshJvm.of(
                LengthPoint.class,
                options,
                contender.name(),
                Integer.toString(length),
                Integer.toString(threads))
            .redirectError(ProcessBuilder.Redirect.DISCARD)
            .start();
    try (BufferedReader output = process.inputReader()) {
      String line = output.readLine();
      if (line == null) {
        return null;
      }
      String[] numbers = line.split(" ", -1);
      return new LengthSeries.Point(
          length, Double.parseDouble(numbers[0]), Long.parseLong(numbers[1]));
    }
  }

  private static String page(String name, LengthSeries series) {
    StringBuilder page = new StringBuilder();
    page.append("# Time and memory against length\n\n");
    page.append(series.work()).append(". Machine: ").append(series.machine()).append(".\n\n");
    page.append("    ").append(series.command()).append("\n\n");
    page.append(
        "Memory is what is held beyond inputs and outputs. On a CPU, that of a JVM includes");
    page.append(" its compiler's, some 200 MiB, and the naive version holds a row of scores a");
    page.append(" thread.\n\n");
    page.append("![time](").append(name).append("-time.svg)\n\n");
    page.append("![memory](").append(name).append("-memory.svg)\n\n");
    page.append("| length |");
    series.points().keySet().forEach(who -> page.append(' ').append(who).append(" |"));
    page.append("\n|---:|").append("---:|".repeat(series.points().size())).append('\n');
    TreeSet<Integer> all = new TreeSet<>();
    series.points().values().forEach(points -> points.forEach(point -> all.add(point.length())));
    for (int length : all) {
      page.append("| ").append(length).append(" |");
      for (List<LengthSeries.Point> points : series.points().values()) {
        page.append(
            points.stream()
                .filter(point -> point.length() == length)
                .map(Lengths::cell)
                .findFirst()
                .orElse(" |"));
      }
      page.append('\n');
    }
    return page.toString();
  }

  private static String cell(LengthSeries.Point point) {
    double millis = 1e3 * point.seconds();
    String time = String.format(Locale.ROOT, millis < 100 ? "%.3g" : "%.0f", millis);
    return String.format(Locale.ROOT, " %s ms, %.0f MiB |", time, point.bytes() / MIB);
  }
}
