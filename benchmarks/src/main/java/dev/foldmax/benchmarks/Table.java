package dev.foldmax.benchmarks;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.ZoneId;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.openjdk.jmh.runner.RunnerException;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Measures the lines of {@link Catalogue} and writes {@code performance.md} and its JSON. */
@Command(
    name = "Table",
    mixinStandardHelpOptions = true,
    description = "Measures Foldmax beside a naive version and writes performance.md and .json.")
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

  @Override
  public Integer call() throws IOException, RunnerException {
    if (threads.stream().anyMatch(t -> t < 1) || (rounds != null && rounds < 1)) {
      throw new ParameterException(
          spec.commandLine(), "--threads and --rounds: expected at least 1");
    }
    List<Line> lines =
        Catalogue.lines(threads).stream()
            .filter(line -> only.matcher(line.toString()).find())
            .toList();
    if (lines.isEmpty()) {
      throw new ParameterException(spec.commandLine(), "--only: no line has " + only);
    }
    if (list) {
      lines.forEach(line -> spec.commandLine().getOut().println(line));
      return 0;
    }
    Schedule schedule = quick ? Schedule.QUICK : Schedule.FULL;
    if (rounds != null) {
      schedule = schedule.rounds(rounds);
    }
    Run run =
        new Run(
            Machine.here(),
            LocalDate.now(ZoneId.systemDefault()),
            String.join(" ", spec.commandLine().getParseResult().originalArgs()),
            schedule);
    Files.createDirectories(out); // fails now rather than after an hour
    Measurements measurements = new Rounds(schedule, System.err).measure(lines);
    Files.writeString(out.resolve("performance.md"), MarkdownReport.write(run, measurements));
    Files.writeString(out.resolve("performance.json"), JsonReport.write(run, measurements));
    spec.commandLine().getOut().println("wrote performance.md and performance.json into " + out);
    return 0;
  }
}
