package dev.foldmax.contract;

import java.util.Arrays;

/** What an attention gave: for each sequence, head and query, the output and the logsumexp. */
final class Outcome {
  /** (sequence, query head, query, Dv), flat; sequences may differ in their number of queries. */
  final double[] out;

  /** (sequence, query head, query), flat. */
  final double[] lse;

  Outcome(double[] out, double[] lse) {
    this.out = out;
    this.lse = lse;
  }

  /** The output of a row, by its number in {@link #lse}. */
  double[] row(int row) {
    int dim = lse.length == 0 ? 0 : out.length / lse.length;
    return Arrays.copyOfRange(out, row * dim, (row + 1) * dim);
  }

  /** Some rows, by their numbers. */
  Outcome rows(int from, int to) {
    int dim = lse.length == 0 ? 0 : out.length / lse.length;
    return new Outcome(
        Arrays.copyOfRange(out, from * dim, to * dim), Arrays.copyOfRange(lse, from, to));
  }

  /** The same bits, where every NaN counts as the same. */
  boolean hasBitsOf(Outcome other) {
    return Arrays.equals(out, other.out) && Arrays.equals(lse, other.lse);
  }

  /** Where the bits differ first, for a message. */
  String differenceFrom(Outcome other) {
    if (lse.length != other.lse.length) {
      return lse.length + " rows and " + other.lse.length;
    }
    int at = Arrays.mismatch(out, other.out);
    if (at >= 0) {
      int dim = out.length / lse.length;
      return "row %d, component %d: %s and %s"
          .formatted(at / dim, at % dim, out[at], other.out[at]);
    }
    at = Arrays.mismatch(lse, other.lse);
    return at < 0 ? "none" : "lse of row %d: %s and %s".formatted(at, lse[at], other.lse[at]);
  }
}
