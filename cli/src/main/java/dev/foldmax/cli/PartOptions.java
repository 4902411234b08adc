package dev.foldmax.cli;

import java.nio.file.Path;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import picocli.CommandLine.TypeConversionException;

/** Which part of the keys to attend to, and what becomes of it. */
final class PartOptions {
  static final String PARTIAL = "--partial";

  @Spec(Spec.Target.MIXEE)
  private CommandSpec spec;

  @Option(
      names = "--keys",
      paramLabel = "A..B",
      converter = RangeConverter.class,
      description =
          "Attends to the keys A to B - 1 alone, for foldmax merge; A.. is to the last, ..B from the"
              + " first. Positions and masks are those of the whole. Cuts at multiples of 1536 keep"
              + " the bits of a single run.")
  private @Nullable Range keys;

  @Option(
      names = "--total-keys",
      paramLabel = "N",
      description =
          "How many keys the whole has, where k and v hold nothing but those of --keys; bias and"
              + " mask are of all N.")
  private @Nullable Long totalKeys;

  @Option(
      names = PARTIAL,
      paramLabel = "FILE",
      description =
          "Writes the states of --keys, unfinished: a .safetensors file for foldmax merge.")
  private @Nullable Path partial;

  @Option(
      names = "--finished",
      description =
          "Writes to --out and --lse what --keys alone give, as other systems do. Sinks are counted"
              + " in the part with the first key.")
  private boolean finished;

  /**
   * What {@code --keys} takes.
   *
   * @param end one past the last key, or {@link #TO_THE_LAST}
   */
  record Range(long begin, long end) {
    static final long TO_THE_LAST = Long.MAX_VALUE;

    @Override
    public String toString() {
      return begin + ".." + (end == TO_THE_LAST ? "" : end);
    }
  }

  /** Reads {@code 4096..8192}, {@code 4096..} and {@code ..4096}. */
  static final class RangeConverter implements ITypeConverter<Range> {
    @Override
    public Range convert(String value) {
      int dots = value.indexOf("..");
      try {
        if (dots >= 0 && value.length() > 2) {
          String begin = value.substring(0, dots);
          String end = value.substring(dots + 2);
          Range range =
              new Range(
                  begin.isEmpty() ? 0 : Long.parseLong(begin),
                  end.isEmpty() ? Range.TO_THE_LAST : Long.parseLong(end));
          if (range.begin() >= 0 && range.end() > range.begin()) {
            return range;
          }
        }
      } catch (NumberFormatException e) {
        throw wrong(value);
      }
      throw wrong(value);
    }

    private static TypeConversionException wrong(String value) {
      return new TypeConversionException(
          "expected a range of keys such as 4096..8192, 4096.. or ..4096, got '" + value + "'");
    }
  }

  /** Whether a part of the keys is asked for, not a whole attention. */
  boolean isAsked() {
    return keys != null;
  }

  /** Refuses options that contradict each other or lack one another. */
  void validate(@Nullable Path out, @Nullable Path lse, boolean check) {
    if (keys == null) {
      if (partial != null || finished || totalKeys != null) {
        String option = partial != null ? PARTIAL : finished ? "--finished" : "--total-keys";
        throw wrong(option + " needs --keys, which says what this part is over");
      }
      return;
    }
    if (check) {
      throw wrong("--check needs all keys and conflicts with --keys");
    }
    if ((partial == null) != finished) {
      throw wrong(
          "--keys needs one of --partial FILE, for the states of these keys, and --finished, for"
              + " their own output");
    }
    if (partial != null && (out != null || lse != null)) {
      throw wrong(
          (out != null ? "--out" : "--lse")
              + " conflicts with --partial, whose states are no result yet; foldmax merge makes it");
    }
    boolean both = lse != null || (out != null && InputFiles.isSafeTensors(out));
    if (finished && (out == null || !both)) {
      throw wrong(
          "--finished needs --out with a .safetensors file, or --out and --lse: output and"
              + " logsumexp merge together");
    }
    long least = keys.end() == Range.TO_THE_LAST ? keys.begin() + 1 : keys.end();
    if (totalKeys != null && totalKeys < least) {
      throw wrong(
          "--total-keys: expected at least the keys of --keys " + keys + ", got " + totalKeys);
    }
  }

  private ParameterException wrong(String message) {
    return new ParameterException(spec.commandLine(), message);
  }

  /** How many keys the whole has; null for as many as k has. */
  @Nullable Long totalKeys() {
    return totalKeys;
  }

  /** Where the states go, or null if the part is to be finished. */
  @Nullable Path partial() {
    return partial;
  }

  /** The keys asked for, of so many. */
  Range keys(long total) {
    if (keys == null) {
      return new Range(0, total);
    }
    long end = keys.end() == Range.TO_THE_LAST ? total : keys.end();
    if (keys.begin() >= end || end > total) {
      throw new Failure("--keys: expected a range within 0.." + total + ", got " + keys);
    }
    return new Range(keys.begin(), end);
  }
}
