package dev.foldmax.examples.minilm;

/**
 * The Gaussian error linear unit (Hendrycks and Gimpel, arXiv 1606.08415) in its exact form, x
 * times the normal distribution's cumulative probability of x.
 */
final class Gelu {
  private static final double SQRT_2 = Math.sqrt(2);
  private static final double TWO_OVER_SQRT_PI = 2 / Math.sqrt(Math.PI);

  /** From here on erf(x) is within 2^-25 of 1, so it rounds to 1 in float32. */
  private static final double ERF_IS_ONE = 4;

  private Gelu() {}

  /** Replaces each element in place, and returns the same array. */
  static float[] apply(float[] x) {
    for (int i = 0; i < x.length; i++) {
      x[i] = (float) (0.5 * x[i] * (1 + erf(x[i] / SQRT_2)));
    }
    return x;
  }

  /**
   * The error function, right to float32: erf(x) = 2/sqrt(pi) exp(-x^2) (x + 2x^3/3 + 4x^5/(3*5) +
   * ...), all of whose terms have one sign (Abramowitz and Stegun 7.1.6).
   */
  static double erf(double x) {
    if (Math.abs(x) >= ERF_IS_ONE) {
      return Math.signum(x);
    }
    double term = x;
    double sum = x;
    for (int n = 3; Math.abs(term) > 1e-10 * Math.abs(sum); n += 2) {
      term *= 2 * x * x / n;
      sum += term;
    }
    return TWO_OVER_SQRT_PI * Math.exp(-x * x) * sum;
  }
}
