package dev.foldmax.examples.minilm;

import java.util.stream.IntStream;

/** A fully connected layer: y = x W + b. */
final class Linear {
  /** How many rows of the weight one pass over a row of the result takes in. */
  private static final int UNROLL = 4;

  private final float[] weight; // (in, out)
  private final float[] bias; // (out)

  /**
   * Makes a layer.
   *
   * @param weight (in, out), row-major
   * @param bias (out)
   */
  Linear(float[] weight, float[] bias) {
    if (bias.length == 0 || weight.length % (UNROLL * bias.length) != 0) {
      throw new IllegalArgumentException(
          "weight: expected (in, out) with in a multiple of "
              + UNROLL
              + " and out = "
              + bias.length
              + ", got "
              + weight.length
              + " elements");
    }
    this.weight = weight;
    this.bias = bias;
  }

  /**
   * Reads a layer of the model. The export named its bias but not its weight, which is the second
   * input of the matrix multiplication.
   *
   * @param part such as {@code /encoder/layer.0/output/dense}
   */
  static Linear of(OnnxModel model, String part) {
    float[] weight = model.weight(model.input(part + "/MatMul", 1)); // (in, out)
    return new Linear(weight, model.parameter(part, "bias"));
  }

  /**
   * Applies the layer to each row.
   *
   * @param x (rows, in)
   * @return (rows, out)
   */
  float[] apply(float[] x) {
    int in = weight.length / bias.length;
    int rows = x.length / in;
    float[] y = new float[rows * bias.length]; // (rows, out)
    IntStream.range(0, rows).parallel().forEach(row -> applyToRow(x, row * in, y, row));
    return y;
  }

  /**
   * The inner loop runs along rows of the weight, which lie in memory as it needs them, so the JIT
   * makes vector instructions of it; four at a time, because each pass also loads and stores y.
   */
  private void applyToRow(float[] x, int xRow, float[] y, int row) {
    int out = bias.length;
    int in = weight.length / out;
    int yRow = row * out;
    System.arraycopy(bias, 0, y, yRow, out);
    for (int i = 0; i < in; i += UNROLL) {
      float x0 = x[xRow + i];
      float x1 = x[xRow + i + 1];
      float x2 = x[xRow + i + 2];
      float x3 = x[xRow + i + 3];
      int w0 = i * out;
      int w1 = w0 + out;
      int w2 = w1 + out;
      int w3 = w2 + out;
      for (int j = 0; j < out; j++) {
        y[yRow + j] +=
            x0 * weight[w0 + j] + x1 * weight[w1 + j] + x2 * weight[w2 + j] + x3 * weight[w3 + j];
      }
    }
  }
}
