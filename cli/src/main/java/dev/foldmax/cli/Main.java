package dev.foldmax.cli;

import java.io.PrintWriter;
import java.lang.module.ModuleDescriptor;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import picocli.AutoComplete;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.ExecutionException;
import picocli.CommandLine.IVersionProvider;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.ParseResult;
import picocli.CommandLine.Spec;

/** The {@code foldmax} command. Does nothing by itself: subcommands do the work. */
@Command(
    name = "foldmax",
    description = "Online softmax and exact attention.",
    mixinStandardHelpOptions = true,
    versionProvider = Main.Version.class,
    footer = {
      "",
      "Examples:",
      "  foldmax attend sample.safetensors --check",
      "  foldmax softmax logits.npy --out p.npy",
      "  foldmax explain sample.safetensors --html page.html",
      "  foldmax info",
      "",
      "foldmax COMMAND --help shows more of them."
    },
    exitCodeListHeading = "%nExit codes:%n",
    exitCodeList = {"0:done", "1:the job, or its --check, failed", "2:the command line is wrong"})
public final class Main implements Runnable {
  private static final int USAGE_WIDTH = 100;
  private static final int STOP_SECONDS = 5;

  /** The commands by name, in the order of the help. */
  private static final Map<String, Supplier<Object>> COMMANDS = new LinkedHashMap<>();

  static {
    COMMANDS.put("attend", AttendCommand::new);
    COMMANDS.put("merge", MergeCommand::new);
    COMMANDS.put("softmax", SoftmaxCommand::new);
    COMMANDS.put("explain", ExplainCommand::new);
    COMMANDS.put("bench", BenchCommand::new);
    COMMANDS.put("info", InfoCommand::new);
  }

  private static final Set<String> VERSION = Set.of("-V", "--version");

  @Spec private CommandSpec spec;

  private Main() {}

  /** Runs the command line and ends the process with its exit status. */
  public static void main(String[] args) {
    Thread main = Thread.currentThread();
    CountDownLatch ended = new CountDownLatch(1);
    Thread atExit = new Thread(() -> stop(main, ended), "stop");
    Runtime.getRuntime().addShutdownHook(atExit);
    int status;
    try {
      status = commandLine(args).execute(args);
    } finally {
      ended.countDown();
    }
    System.exit(status);
  }

  /** At Ctrl-C: lets the job stop and take back a file that it has half written. */
  private static void stop(Thread main, CountDownLatch ended) {
    if (ended.getCount() == 0) {
      return;
    }
    main.interrupt();
    try {
      if (!ended.await(STOP_SECONDS, TimeUnit.SECONDS)) {
        Results.discardAll(); // it waits for the disk
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /**
   * A command line, ready to execute the given arguments; it writes to its own out and err. It has
   * the command that these name, for picocli takes a noticeable part of a start to read the
   * annotations of each; without one, it has all.
   */
  static CommandLine commandLine(String... args) {
    CommandLine line = new CommandLine(new Main());
    line.getCommandSpec()
        .usageMessage()
        .synopsisSubcommandLabel("(" + String.join(" | ", COMMANDS.keySet()) + ")");
    Supplier<Object> named = args.length == 0 ? null : COMMANDS.get(args[0]);
    boolean isVersion = args.length > 0 && VERSION.contains(args[0]);
    if (named != null) {
      line.addSubcommand(named.get());
    } else if (!isVersion) {
      COMMANDS.values().forEach(command -> line.addSubcommand(command.get()));
      line.addSubcommand(new AutoComplete.GenerateCompletion());
    }
    UsageMessage.convertWith(line);
    return line.setUsageHelpWidth(USAGE_WIDTH)
        .setExpandAtFiles(false)
        .setExecutionStrategy(Main::run)
        .setParameterExceptionHandler((exception, words) -> usageError(exception))
        .setExecutionExceptionHandler((exception, command, parsed) -> failure(exception, command));
  }

  @Override
  public void run() {
    List<String> names = List.copyOf(COMMANDS.keySet());
    int last = names.size() - 1;
    throw new ParameterException(
        spec.commandLine(),
        "missing a command: "
            + String.join(", ", names.subList(0, last))
            + " or "
            + names.get(last));
  }

  /** Runs a command; an error of the JVM, such as a heap too small, is a failure like others. */
  private static int run(ParseResult parsed) {
    try {
      int status = new CommandLine.RunLast().execute(parsed);
      CommandLine command = parsed.asCommandLineList().getLast();
      // A stream of the JVM's own keeps its errors from the writer that picocli puts before it.
      if (command.getOut().checkError() || System.out.checkError()) {
        Failure failure = new Failure("standard output: cannot be written");
        throw new ExecutionException(command, failure.getMessage(), failure);
      }
      return status;
    } catch (OutOfMemoryError | InternalError error) {
      Failure failure = new Failure(Failure.message(error), error);
      CommandLine command = parsed.asCommandLineList().getLast();
      throw new ExecutionException(command, failure.getMessage(), failure);
    }
  }

  private static int usageError(ParameterException exception) {
    CommandLine command = exception.getCommandLine();
    CommandSpec spec = command.getCommandSpec();
    // A value may hold anything, such as commands to a terminal.
    String message = Failure.printable(UsageMessage.of(exception));
    String help = " (see " + spec.qualifiedName() + " --help)";
    return report(exception, command, message + help, spec.exitCodeOnInvalidInput());
  }

  private static int failure(Throwable exception, CommandLine command) {
    return report(
        exception,
        command,
        Failure.message(exception),
        command.getCommandSpec().exitCodeOnExecutionException());
  }

  private static int report(Throwable exception, CommandLine command, String message, int status) {
    PrintWriter err = command.getErr();
    err.println(command.getCommandSpec().qualifiedName() + ": " + message);
    if (isVerbose(command)) {
      exception.printStackTrace(err);
    }
    err.flush();
    return status;
  }

  /** Asks the arguments themselves, since those of a wrong command line are not all parsed. */
  private static boolean isVerbose(CommandLine command) {
    return command.getParseResult() != null
        && command.getParseResult().originalArgs().contains(CommonOptions.VERBOSE);
  }

  /** Takes the version from the module, where the build has put it. */
  static final class Version implements IVersionProvider {
    @Override
    public String[] getVersion() {
      return new String[] {"foldmax " + current()};
    }

    static String current() {
      ModuleDescriptor module = Main.class.getModule().getDescriptor();
      return Optional.ofNullable(module)
          .flatMap(ModuleDescriptor::rawVersion)
          .orElse("(unreleased)");
    }
  }
}
