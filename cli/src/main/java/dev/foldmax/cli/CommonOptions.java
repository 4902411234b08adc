package dev.foldmax.cli;

import picocli.CommandLine.Option;

/** What every command has. */
final class CommonOptions {
  static final String VERBOSE = "--verbose";

  @Option(
      names = {"-h", "--help"},
      usageHelp = true,
      description = "Show this help and exit.")
  @SuppressWarnings("UnusedVariable") // picocli acts on the annotation
  private boolean help;

  @Option(
      names = "--json",
      description = "Print one JSON object. Numbers that JSON lacks are strings: \"NaN\".")
  boolean json;

  @Option(names = VERBOSE, description = "Say more, and show the stack trace of an error.")
  boolean verbose;
}
