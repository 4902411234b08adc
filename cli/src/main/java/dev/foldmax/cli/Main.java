package dev.foldmax.cli;

import java.lang.module.ModuleDescriptor;
import java.util.Optional;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.IVersionProvider;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The {@code foldmax} command. Does nothing by itself: subcommands do the work. */
@Command(
    name = "foldmax",
    description = "Online softmax and exact attention.",
    mixinStandardHelpOptions = true,
    versionProvider = Main.Version.class)
public final class Main implements Runnable {
  @Spec private CommandSpec spec;

  private Main() {}

  /** Runs the command line and ends the process with its exit status. */
  public static void main(String[] args) {
    System.exit(new CommandLine(new Main()).execute(args));
  }

  @Override
  public void run() {
    throw new ParameterException(spec.commandLine(), "Missing a command.");
  }

  /** Takes the version from the module, where the build has put it. */
  static final class Version implements IVersionProvider {
    @Override
    public String[] getVersion() {
      ModuleDescriptor module = Main.class.getModule().getDescriptor();
      String version =
          Optional.ofNullable(module).flatMap(ModuleDescriptor::rawVersion).orElse("(unreleased)");
      return new String[] {"foldmax " + version};
    }
  }
}
