package dev.foldmax.examples.minilm;

/** Layer normalisation: each row to mean 0 and variance 1, then times a weight, plus a bias. */
final class LayerNorm {
  /** BERT's, added to the variance. */
  private static final double EPSILON = 1e-12;

  private final float[] weight; // (hidden)
  private final float[] bias; // (hidden)

  /**
   * Makes a layer.
   *
   * @param weight (hidden)
   * @param bias (hidden)
   */
  LayerNorm(float[] weight, float[] bias) {
    this.weight = weight;
    this.bias = bias;
  }

  /**
   * Reads a layer of the model.
   *
   * @param part such as {@code /encoder/layer.0/output/LayerNorm}
   */
  static LayerNorm of(OnnxModel model, String part) {
    return new LayerNorm(model.parameter(part, "weight"), model.parameter(part, "bias"));
  }

  /**
   * Normalises each row in place.
   *
   * @param x (rows, hidden)
   * @return x
   */
  float[] apply(float[] x) {
    int hidden = weight.length;
    for (int row = 0; row < x.length; row += hidden) {
      double sum = 0;
      for (int j = 0; j < hidden; j++) {
        sum += x[row + j];
      }
      double mean = sum / hidden;
      double squares = 0;
      for (int j = 0; j < hidden; j++) {
        double centred = x[row + j] - mean;
        squares += centred * centred;
      }
      double factor = 1 / Math.sqrt(squares / hidden + EPSILON);
      for (int j = 0; j < hidden; j++) {
        x[row + j] = (float) ((x[row + j] - mean) * factor * weight[j] + bias[j]);
      }
    }
    return x;
  }

  /**
   * Adds the residual, then normalises each row, both in place.
   *
   * @param x (rows, hidden)
   * @param residual (rows, hidden)
   * @return x
   */
  float[] applyToSum(float[] x, float[] residual) {
    for (int i = 0; i < x.length; i++) {
      x[i] += residual[i];
    }
    return apply(x);
  }
}
