package dev.foldmax.examples.decoder;

/** A matrix: y = x W. */
final class Linear {
  private final float[] weight; // (in, out)
  private final int out;

  /**
   * Makes a layer.
   *
   * @param weight (in, out), row-major
   */
  Linear(float[] weight, int out) {
    this.weight = weight;
    this.out = out;
  }

  /**
   * Applies the matrix to each row. A row's result does not depend on the others.
   *
   * @param x (rows, in)
   * @return (rows, out)
   */
  float[] apply(float[] x) {
    int in = weight.length / out;
    float[] y = new float[x.length / in * out];
    for (int row = 0; row < x.length / in; row++) {
      for (int i = 0; i < in; i++) { // along rows of the matrix, which the JIT turns into vectors
        float factor = x[row * in + i];
        for (int j = 0; j < out; j++) {
          y[row * out + j] += factor * weight[i * out + j];
        }
      }
    }
    return y;
  }
}
