package dev.foldmax.cli;

import java.util.Locale;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/**
 * Which row to look at.
 *
 * @param number from 0, or from the end where it is negative
 * @param mostRises the row whose maximum rises most often, in place of a number
 */
record RowChoice(long number, boolean mostRises) {
  private static final String MOST_RISES = "most-rises";

  /** The last row. */
  static final RowChoice LAST = new RowChoice(-1, false);

  /** Reads {@code 17}, {@code -1} and {@code most-rises}. */
  static final class Converter implements ITypeConverter<RowChoice> {
    @Override
    public RowChoice convert(String value) {
      if (value.equals(MOST_RISES)) {
        return new RowChoice(0, true);
      }
      try {
        return new RowChoice(Long.parseLong(value), false);
      } catch (NumberFormatException e) {
        throw new TypeConversionException(
            "expected a number or " + MOST_RISES + ", got '" + value + "'");
      }
    }
  }

  /**
   * A number from 0.
   *
   * @param what is counted, for the message, such as {@code query}
   * @param count how many there are
   * @throws Failure if there is no such row
   */
  static long resolve(String what, long number, long count) {
    long resolved = number < 0 ? number + count : number;
    if (resolved < 0 || resolved >= count) {
      throw new Failure(
          String.format(
              Locale.ROOT,
              "--%s: there %s %d, so expected %d to %d, got %d",
              what,
              count == 1 ? "is" : "are",
              count,
              -count,
              count - 1,
              number));
    }
    return resolved;
  }
}
