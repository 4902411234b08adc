package dev.foldmax.examples.decoder;

/** SwiGLU (Shazeer, arXiv 2002.05202): (swish(x W) * x V) U. */
record FeedForward(Linear gate, Linear up, Linear down) {
  static FeedForward of(ModelShape shape, Weights weights) {
    return new FeedForward(
        weights.linear(shape.hidden(), shape.inner()),
        weights.linear(shape.hidden(), shape.inner()),
        weights.linear(shape.inner(), shape.hidden()));
  }

  /**
   * Applies the layer to each row.
   *
   * @param x (rows, hidden)
   * @return (rows, hidden)
   */
  float[] apply(float[] x) {
    float[] gates = gate.apply(x);
    float[] inner = up.apply(x);
    for (int i = 0; i < inner.length; i++) {
      inner[i] *= (float) (gates[i] / (1 + Math.exp(-gates[i])));
    }
    return down.apply(inner);
  }
}
