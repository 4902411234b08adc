package dev.foldmax.cli;

import java.util.List;
import java.util.function.Function;
import picocli.CommandLine;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.MissingParameterException;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.OverwrittenOptionException;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.TypeConversionException;
import picocli.CommandLine.UnmatchedArgumentException;

/** What is wrong with a command line: the option, what is expected there and what was found. */
final class UsageMessage {
  private UsageMessage() {}

  /** Lets values that are no numbers be refused in words that are not of Java's types. */
  static void convertWith(CommandLine line) {
    line.registerConverter(
            Integer.class,
            converter(Integer::valueOf, "a whole number of at most " + Integer.MAX_VALUE))
        .registerConverter(Long.class, converter(Long::valueOf, "a whole number"))
        .registerConverter(Double.class, converter(Double::valueOf, "a number"))
        .registerConverter(double.class, converter(Double::valueOf, "a number"));
  }

  private static <T> ITypeConverter<T> converter(Function<String, T> parse, String expected) {
    return value -> {
      try {
        return parse.apply(value);
      } catch (NumberFormatException e) {
        throw new TypeConversionException("expected " + expected + ", got '" + value + "'");
      }
    };
  }

  /** One line, without the command's name. */
  static String of(ParameterException exception) {
    ArgSpec argument = exception.getArgSpec();
    return switch (exception) {
      case UnmatchedArgumentException unmatched -> unmatched(unmatched);
      case OverwrittenOptionException twice -> name(twice.getOverwritten()) + " is given twice";
      case MissingParameterException missing when !missing.getMissing().isEmpty() ->
          missing(missing.getMissing().getFirst());
      default -> {
        if (argument != null && exception.getCause() instanceof TypeConversionException cause) {
          // Only flags, which picocli converts by itself, take nothing.
          String problem =
              argument.arity().max() == 0
                  ? "expected no value, got '" + exception.getValue() + "'"
                  : cause.getMessage();
          yield name(argument) + ": " + problem;
        }
        yield Failure.message(exception);
      }
    };
  }

  private static String missing(ArgSpec argument) {
    return argument.isOption()
        ? name(argument) + ": expected a value, " + argument.paramLabel() + ", after it"
        : "expected a file, " + argument.paramLabel() + ", got none";
  }

  private static String name(ArgSpec argument) {
    return argument instanceof OptionSpec option ? option.longestName() : argument.paramLabel();
  }

  private static String unmatched(UnmatchedArgumentException exception) {
    CommandSpec command = exception.getCommandLine().getCommandSpec();
    String argument = "'" + exception.getUnmatched().getFirst() + "'";
    String text;
    if (exception.isUnknownOption()) {
      text = "there is no option " + argument;
    } else if (!command.subcommands().isEmpty()) {
      text = "there is no command " + argument;
    } else if (command.positionalParameters().isEmpty()) {
      text = "expected no file, got " + argument;
    } else {
      text =
          "expected one file, got "
              + argument
              + " too"
              + (argument.endsWith(".npy'") && command.optionsMap().containsKey("--q")
                  ? "; .npy files go to --q, --k and --v"
                  : "")
              + AttentionOptions.causalHint(exception.getCommandLine());
    }
    List<String> suggestions = exception.getSuggestions();
    // The nearest comes first; those behind it are far.
    return suggestions.isEmpty() ? text : text + "; did you mean " + suggestions.getFirst();
  }
}
