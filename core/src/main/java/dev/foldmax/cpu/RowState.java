package dev.foldmax.cpu;

/**
 * The state (m, l) of a row or of part of it: a number not far from the largest element, as a rule
 * the one {@link #near} the first ones, and the sum of exponentials relative to it. Kept in
 * float64; NaN in the sum says that the row is NaN.
 */
final class RowState {
  /** A power of 2 well below the range of {@link NearExponential}. */
  private static final double STEP = 32;

  private static final double EXP_HALF_STEP = Math.exp(STEP / 2);

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

  /**
   * The multiple of 32 next to a number. To subtract it from an element is exact, as a rule: an
   * element's bits and those of a near power of 2 go into the difference.
   */
  static double near(double x) {
    return Math.rint(x / STEP) * STEP;
  }

  /**
   * Whether all exponentials relative to {@link #near} are accurate that have this sum. Below 0 the
   * difference is not exact for small numbers, which lie far above then.
   */
  static boolean isAccurate(double near, double ofExponentials) {
    return near >= 0 || ofExponentials < EXP_HALF_STEP;
  }

  /**
   * What to subtract before the exponentials of a result; 0 for a row of nothing. It is not above
   * {@link #logSumExp}, so that no weight that is a normal number is lost as too small, and so
   * close below that no exponential is too large. And it has so few bits that to subtract it from
   * an element is exact, as a rule: 0 where that serves, else a multiple of 32 or, below 0, a power
   * of 2.
   */
  double floor() {
    if (sum == 0) {
      return 0;
    }
    double lse = logSumExp();
    double step = lse < 0 ? Math.min(STEP, Math.scalb(1.0, Math.getExponent(lse))) : STEP;
    return Math.floor(lse / step) * step;
  }

  /** {@link #floor} or, where that is no float32, the float32 next below {@link #logSumExp}. */
  float floatFloor() {
    double floor = floor();
    if ((float) floor == floor) {
      return (float) floor;
    }
    double lse = logSumExp();
    float next = (float) lse;
    return next > lse ? Math.nextDown(next) : next;
  }

  /** What to subtract before the exponential: m, or 0 if all elements are -inf. */
  static double shift(double max) {
    return max == Double.NEGATIVE_INFINITY ? 0 : max;
  }

  /** The factor that makes weights of exponentials of what lies above a number. */
  double scale(double floor) {
    return sum == 0 ? 0 : Math.exp(floor - max) / sum;
  }

  /** m + ln(l): -inf for a row of nothing. */
  double logSumExp() {
    return max + Math.log(sum);
  }

  /** What rounding took from {@link #logSumExp}; 0 if that is not finite. */
  double lostOfLogSumExp() {
    double log = Math.log(sum);
    double lse = max + log;
    double ofLog = lse - max;
    double lost = (max - (lse - ofLog)) + (log - ofLog);
    return Double.isNaN(lost) ? 0 : lost;
  }
}
