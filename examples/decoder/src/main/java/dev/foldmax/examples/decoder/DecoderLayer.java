package dev.foldmax.examples.decoder;

import dev.foldmax.Backend;

/** Attention and feed-forward, each added to what it was given, normalised. */
record DecoderLayer(
    RmsNorm attentionNorm,
    SelfAttention attention,
    RmsNorm feedForwardNorm,
    FeedForward feedForward) {
  static DecoderLayer of(ModelShape shape, Weights weights) {
    return new DecoderLayer(
        weights.norm(shape.hidden()),
        SelfAttention.of(shape, weights),
        weights.norm(shape.hidden()),
        FeedForward.of(shape, weights));
  }

  /** Changes the rows of x, (tokens, hidden), in place. */
  void apply(float[] x, int layer, KvCache cache, Backend backend) {
    add(x, attention.apply(attentionNorm.apply(x), layer, cache, backend));
    add(x, feedForward.apply(feedForwardNorm.apply(x)));
  }

  private static void add(float[] x, float[] change) {
    for (int i = 0; i < x.length; i++) {
      x[i] += change[i];
    }
  }
}
