package dev.foldmax.spark;

/**
 * The five lines of {@link dev.foldmax.SoftmaxState} for one row at a time, over columns of
 * float64: what the code calls that Spark generates for {@code log_sum_exp} and {@code softmax_avg}
 * over numbers. It is public for that code alone.
 *
 * <p>A state is (m, l, o), each a column of the aggregation buffer. The maximum m is NaN until a
 * row has come, so that a group without rows is told from one whose scores are all -inf; afterwards
 * it never is, for a score of NaN is left to the sum l. Each function sees the state as it was
 * before the row.
 */
public final class SoftmaxFold {
  /** The maximum of a state that no row has reached. */
  static final double NO_ROW = Double.NaN;

  private SoftmaxFold() {}

  /**
   * The maximum after a row.
   *
   * @param counts false for a row that SQL ignores, whose score is then -inf
   */
  public static double maximum(double m, double score, boolean counts) {
    if (score <= m || !counts) {
      return m;
    }
    double before = Double.isNaN(m) ? Double.NEGATIVE_INFINITY : m;
    return score > before ? score : before;
  }

  /**
   * The one exponential that a row costs: its weight, or, if it raises the maximum, the correction
   * of what came before it.
   */
  public static double exponential(double m, double score) {
    return Exponential.of(-Math.abs(score - m));
  }

  /**
   * The sum of weights after a row.
   *
   * @param exponential that of the row
   */
  public static double sum(double m, double l, double score, double exponential) {
    if (score == Double.NEGATIVE_INFINITY) {
      return l; // also at a maximum of -inf, where the exponential is NaN
    }
    if (score <= m) {
      return l + exponential;
    }
    if (score < Double.POSITIVE_INFINITY) {
      return (l == 0 ? 0 : l * exponential) + 1;
    }
    return Double.NaN; // the score is NaN or +inf
  }

  /**
   * The weighted sum of values after a row.
   *
   * @param l the sum of weights before it
   * @param exponential that of the row
   */
  public static double weightedSum(
      double m, double l, double o, double score, double exponential, double value) {
    if (score == Double.NEGATIVE_INFINITY) {
      return o; // its weight is 0, but 0 times a NaN or an infinity is not
    }
    if (score <= m) {
      return o + exponential * value;
    }
    return l == 0 ? value : o * exponential + value; // without weight the exponential may be NaN
  }

  /** The maximum of two states merged. */
  public static double mergedMaximum(double m, double otherM) {
    if (Double.isNaN(m)) {
      return otherM;
    }
    return otherM > m ? otherM : m;
  }

  /**
   * The sum of weights, or of weighted values, of two states merged. A state without weight changes
   * no bit of the other.
   *
   * @param sum l or o
   */
  public static double mergedSum(
      double m, double l, double sum, double otherM, double otherL, double otherSum) {
    if (otherL == 0) {
      return sum;
    }
    if (l == 0) {
      return otherSum;
    }
    double merged = Math.max(m, otherM);
    return sum * correction(m, merged) + otherSum * correction(otherM, merged);
  }

  /** exp(from - to), and 1 where the maximum stays, be it infinite. */
  private static double correction(double from, double to) {
    return from == to ? 1 : Exponential.of(from - to);
  }

  /** The natural logarithm of the sum of exponentials; -inf without weight. */
  public static double logSumExp(double m, double l) {
    return l == 0 ? Double.NEGATIVE_INFINITY : m + Math.log(l);
  }

  /** The softmax-weighted mean; 0 without weight. */
  public static double mean(double l, double o) {
    return l == 0 ? 0 : o / l;
  }
}
