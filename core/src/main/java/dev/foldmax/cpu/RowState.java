package dev.foldmax.cpu;

/**
 * The state (m, l) of a row or of part of it: the largest element, and the sum of exponentials
 * relative to it. Kept in float64; NaN in the sum says that the row is NaN.
 */
final class RowState {
  private double max = Double.NEGATIVE_INFINITY;
  private double sum;

  void clear() {
    max = Double.NEGATIVE_INFINITY;
    sum = 0;
  }

  /** Adds disjoint elements, themselves a state. To an empty state this adds them exactly. */
  void add(double otherMax, double otherSum) {
    if (otherMax > max) {
      sum = sum == 0 ? otherSum : sum * Math.exp(max - otherMax) + otherSum;
      max = otherMax;
    } else if (otherMax == max) {
      sum += otherSum;
    } else {
      sum += otherSum * Math.exp(otherMax - max);
    }
  }

  double max() {
    return max;
  }

  double sum() {
    return sum;
  }

  /** What to subtract before the exponential: the largest element, or 0 if all are -inf. */
  static double shift(double max) {
    return max == Double.NEGATIVE_INFINITY ? 0 : max;
  }

  /** 1 / l; 0 for a row of nothing. */
  double inverse() {
    return sum == 0 ? 0 : 1 / sum;
  }

  /** ln(l); 0 for a row of nothing, whose logarithms are -inf already. */
  double log() {
    return sum == 0 ? 0 : Math.log(sum);
  }

  /** m + ln(l): -inf for a row of nothing. */
  double logSumExp() {
    return max + Math.log(sum);
  }
}
