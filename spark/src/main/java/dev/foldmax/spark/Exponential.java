package dev.foldmax.spark;

/**
 * The exponential of numbers that are not positive, within 1 ulp of {@link Math#exp} (measured over
 * 2 million arguments).
 *
 * <p>{@code e^x = 2^(k / 128) e^r} with |r| at most ln(2) / 256: a table of powers, and five terms
 * of the series (Tang, ACM TOMS 15, 1989). The JIT compiler inlines it into the loop over rows,
 * where {@code Math.exp} is a call: {@code log_sum_exp} over a Parquet column takes 1.1 to 1.25
 * times the time of {@code avg} with this, 1.4 times with {@code Math.exp} (medians of three runs).
 */
final class Exponential {
  private static final int STEPS = 128;
  private static final double[] POWERS = powers();
  private static final double STEPS_PER_E = STEPS / Math.log(2);

  /** Adding it rounds to a whole number, which then lies in the lowest bits. */
  private static final double SHIFT = 0x1.8p52;

  // ln(2) / 128 in two parts; the first has so few bits that a product with k is exact.
  private static final double STEP_HIGH = 0x1.62e42fefa0000p-8;
  private static final double STEP_LOW = 0x1.cf79abc9e3b39p-47;

  /** Below it, the result may be subnormal. */
  private static final double LEAST = -708;

  private Exponential() {}

  private static double[] powers() {
    double[] powers = new double[STEPS];
    for (int i = 0; i < STEPS; i++) {
      powers[i] = StrictMath.pow(2, (double) i / STEPS);
    }
    return powers;
  }

  /** {@code e^x} for x at most 0; 0 for -inf, NaN for NaN. */
  static double of(double x) {
    if (!(x > LEAST)) {
      return Math.exp(x);
    }
    double shifted = x * STEPS_PER_E + SHIFT;
    double k = shifted - SHIFT;
    double r = (x - k * STEP_HIGH) - k * STEP_LOW;
    double series = r + r * r * (1.0 / 2 + r * (1.0 / 6) + r * r * (1.0 / 24 + r * (1.0 / 120)));
    int index = (int) Double.doubleToRawLongBits(shifted); // k, as a whole number
    long exponent = (long) (index >> 7) << 52;
    double power =
        Double.longBitsToDouble(Double.doubleToRawLongBits(POWERS[index & (STEPS - 1)]) + exponent);
    return power + power * series;
  }
}
