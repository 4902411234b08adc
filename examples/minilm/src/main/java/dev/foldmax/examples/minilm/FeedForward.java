package dev.foldmax.examples.minilm;

/** Two linear layers with a GELU between them, applied to each token by itself. */
record FeedForward(Linear expand, Linear contract) {
  /**
   * Reads the feed-forward part of one layer of the model.
   *
   * @param part such as {@code /encoder/layer.0}
   */
  static FeedForward of(OnnxModel model, String part) {
    return new FeedForward(
        Linear.of(model, part + "/intermediate/dense"), Linear.of(model, part + "/output/dense"));
  }

  /**
   * Applies both layers.
   *
   * @param x (batch, length, hidden)
   * @return (batch, length, hidden)
   */
  float[] apply(float[] x) {
    float[] wide = Gelu.apply(expand.apply(x)); // (batch, length, 4 * hidden)
    return contract.apply(wide);
  }
}
