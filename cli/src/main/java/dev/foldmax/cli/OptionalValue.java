package dev.foldmax.cli;

import java.util.Map;
import java.util.Stack;
import picocli.CommandLine.IParameterPreprocessor;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;

/**
 * For options whose value is optional: takes a value only after {@code =}, so that a file may
 * follow the bare option. Left to itself, picocli would take that file for the value.
 */
final class OptionalValue implements IParameterPreprocessor {
  @Override
  @SuppressWarnings("JdkObsolete") // picocli's signature
  public boolean preprocess(
      Stack<String> args, CommandSpec command, ArgSpec option, Map<String, Object> info) {
    if (!"=".equals(info.get("separator"))) {
      args.push(((OptionSpec) option).fallbackValue());
    }
    return false;
  }
}
