package dev.foldmax.cli;

import dev.foldmax.Tensor;
import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;

/** Numbers with their units, to be read by people. */
final class Quantity {
  private Quantity() {}

  /** Such as {@code 1.92 ms}. */
  static String seconds(double seconds) {
    if (seconds < 1e-3) {
      return significant(seconds * 1e6) + " us";
    }
    return seconds < 1 ? significant(seconds * 1e3) + " ms" : significant(seconds) + " s";
  }

  /** Such as {@code 7.75 GiB}. */
  static String bytes(long bytes) {
    if (bytes < 1L << 20) {
      return significant(bytes / 0x1p10) + " KiB";
    }
    return bytes < 1L << 30
        ? significant(bytes / 0x1p20) + " MiB"
        : significant(bytes / 0x1p30) + " GiB";
  }

  /** Three significant digits, never fewer than the integer part has. */
  static String significant(double number) {
    double size = Math.abs(number);
    if (size > 0 && size < 0.1) {
      return String.format(Locale.ROOT, "%.2e", number);
    }
    int decimals = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
    return String.format(Locale.ROOT, "%." + decimals + "f", number);
  }

  /** Such as {@code 1.2e-07}. */
  static String error(double error) {
    return error == 0 ? "0" : String.format(Locale.ROOT, "%.1e", error);
  }

  /** Such as {@code 12 %}. */
  static String percent(double share) {
    if (!Double.isFinite(share)) {
      return Double.toString(share);
    }
    return share > 0 && share < 0.005 ? "under 1 %" : Math.round(share * 100) + " %";
  }

  /** A number of any size to three significant digits, such as {@code 1.20e-07}. */
  static String rounded(double number) {
    if (!Double.isFinite(number) || number == 0) {
      return number(number);
    }
    double size = Math.abs(number);
    String format = size >= 100 && size < 1e6 ? "%.0f" : "%.3g";
    return String.format(Locale.ROOT, format, number);
  }

  /** The shortest decimal, without {@code .0}. */
  static String number(double number) {
    String text = Double.toString(number);
    return text.endsWith(".0") ? text.substring(0, text.length() - 2) : text;
  }

  /** Such as {@code (1, 12, 128, 64)}. */
  static String shape(long... shape) {
    return Arrays.stream(shape)
        .mapToObj(Long::toString)
        .collect(Collectors.joining(", ", "(", ")"));
  }

  /** Such as {@code F32 (1, 12, 128, 64)}. */
  static String tensor(Tensor tensor) {
    return tensor.dtype() + " " + shape(tensor.shape());
  }
}
