package dev.foldmax.cpu;

import dev.foldmax.Sampling;
import java.util.Arrays;

/**
 * What topP keeps of a whole row: found in constant memory: the row is read again and again, each
 * time summing the weights of those elements that may hold the boundary into bins, in descending
 * order, until the bin of the boundary holds one value only. First the bins are of equal width in
 * the score, then of equal width in {@link Selection#key}, so that three or four readings usually
 * do.
 */
final class Nucleus {
  private static final int BIN_BITS = 11;

  private static final int BINS = 1 << BIN_BITS;

  /** Bins a unit of score; the last bin takes all scores below -32. */
  private static final double BINS_PER_UNIT = 64;

  private final double[] sums = new double[BINS];
  private final double[] scores = new double[RowPass.BLOCK];
  private final double[] weights = new double[RowPass.BLOCK];
  private final double[] rest = new double[Species.F64.length()];
  private final double[] runSums = new double[DoubleRows.SUMS];

  private double max;
  private double temperature;

  /** The weights of all elements before the bins, and what they have to come to. */
  private double reached;

  private double target;

  private double value;
  private long index;

  /** The smallest element that is kept. */
  double value() {
    return value;
  }

  /** Of the elements equal to {@link #value}, those up to this index are kept. */
  long index() {
    return index;
  }

  /**
   * Finds the boundary.
   *
   * @param rowMax the row's largest element, finite
   * @return false if the row has a NaN
   */
  boolean find(RowPass pass, Elements x, long row, long n, double rowMax, Sampling sampling) {
    max = rowMax;
    temperature = sampling.temperature();
    value = Double.NEGATIVE_INFINITY;
    index = Long.MAX_VALUE;
    sumByScore(pass, x, row, n);
    double total = 0;
    for (double sum : sums) {
      total += sum;
    }
    if (Double.isNaN(total)) {
      return false;
    }
    reached = 0;
    target = sampling.topP() * total;
    int scoreBin = findBin();
    if (scoreBin < 0) {
      return true;
    }
    long high = Selection.key(edge(0.01 - scoreBin, Double.POSITIVE_INFINITY));
    long low =
        scoreBin == BINS - 1
            ? Selection.key(-Double.MAX_VALUE)
            : Selection.key(edge(-1.01 - scoreBin, Double.NEGATIVE_INFINITY));
    while (low < high) {
      int shift = Math.max(0, Long.SIZE - Long.numberOfLeadingZeros(high - low) - BIN_BITS);
      sumByKey(pass, x, row, n, scoreBin, low, high, shift);
      int bin = findBin();
      if (bin < 0) {
        return true;
      }
      high -= (long) bin << shift;
      low = Math.max(low, high - (1L << shift) + 1);
    }
    value = Selection.element(low);
    index = findIndex(pass, x, row, n);
    return true;
  }

  /** An element whose score is the given number of bins, a little further away from the others. */
  private double edge(double bins, double direction) {
    return Math.nextAfter(max + bins / BINS_PER_UNIT * temperature, direction);
  }

  private static int scoreBin(double score) {
    return (int) Math.min(BINS - 1, -score * BINS_PER_UNIT);
  }

  private void sumByScore(RowPass pass, Elements x, long row, long n) {
    Arrays.fill(sums, 0);
    for (long begin = 0; begin < n; begin += RowPass.BLOCK) {
      pass.reach(begin, n);
      pass.open(x, row, begin, (int) Math.min(RowPass.BLOCK, n - begin));
      pass.scores(max, temperature, scores);
      DoubleRows.exponentials(scores, 0, weights, 0, pass.length(), 0, rest, runSums);
      for (int i = 0; i < pass.length(); i++) {
        sums[scoreBin(scores[i])] += weights[i];
      }
    }
  }

  /** Sums the elements of a bin of scores by their keys, which lie between low and high. */
  private void sumByKey(
      RowPass pass, Elements x, long row, long n, int scoreBin, long low, long high, int shift) {
    Arrays.fill(sums, 0);
    for (long begin = 0; begin < n; begin += RowPass.BLOCK) {
      pass.reach(begin, n);
      pass.open(x, row, begin, (int) Math.min(RowPass.BLOCK, n - begin));
      pass.scores(max, temperature, scores);
      for (int i = 0; i < pass.length(); i++) {
        if (scoreBin(scores[i]) == scoreBin) {
          long key = Selection.key(pass.element(i));
          if (key >= low && key <= high) {
            sums[(int) ((high - key) >>> shift)] += Math.exp(scores[i]);
          }
        }
      }
    }
  }

  /**
   * The bin that takes the sum to the target, or, where rounding keeps it below, the last that is
   * not empty; adds those before it to what is reached.
   *
   * @return -1 if all are empty
   */
  private int findBin() {
    int last = -1;
    for (int bin = 0; bin < BINS; bin++) {
      if (sums[bin] > 0) {
        last = bin;
        if (reached + sums[bin] >= target) {
          return bin;
        }
        reached += sums[bin];
      }
    }
    if (last >= 0) {
      reached -= sums[last];
    }
    return last;
  }

  /** The index of the last of the equal elements at the boundary that is kept. */
  private long findIndex(RowPass pass, Elements x, long row, long n) {
    double weight = Math.exp((value - max) / temperature);
    for (long begin = 0; begin < n; begin += RowPass.BLOCK) {
      pass.reach(begin, n);
      pass.open(x, row, begin, (int) Math.min(RowPass.BLOCK, n - begin));
      for (int i = 0; i < pass.length(); i++) {
        if (pass.element(i) == value) {
          reached += weight;
          if (reached >= target) {
            return begin + i;
          }
        }
      }
    }
    return Long.MAX_VALUE;
  }
}
