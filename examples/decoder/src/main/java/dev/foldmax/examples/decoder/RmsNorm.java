package dev.foldmax.examples.decoder;

/**
 * Divides a row by the root of the mean of its squares, then multiplies by learnt factors (Zhang
 * and Sennrich, arXiv 1910.07467).
 */
final class RmsNorm {
  private static final double EPSILON = 1e-6;

  private final float[] factors; // (size)

  /** Makes a layer from its factors, one for each number of a row. */
  RmsNorm(float[] factors) {
    this.factors = factors;
  }

  /**
   * Normalises each row.
   *
   * @param x (rows, size)
   * @return (rows, size)
   */
  float[] apply(float[] x) {
    int size = factors.length;
    float[] y = new float[x.length];
    for (int row = 0; row < x.length; row += size) {
      double squares = 0;
      for (int i = 0; i < size; i++) {
        squares += (double) x[row + i] * x[row + i];
      }
      float inverse = (float) (1 / Math.sqrt(squares / size + EPSILON));
      for (int i = 0; i < size; i++) {
        y[row + i] = x[row + i] * inverse * factors[i];
      }
    }
    return y;
  }
}
