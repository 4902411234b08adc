package dev.foldmax.examples.minilm;

import dev.foldmax.Backend;

/** One of the encoder's layers: attention, then feed-forward, each added to its input. */
record EncoderLayer(
    SelfAttention attention, LayerNorm attentionNorm, FeedForward feedForward, LayerNorm norm) {
  /** Reads a layer of the model, counted from 0. */
  static EncoderLayer of(OnnxModel model, int index) {
    String part = "/encoder/layer." + index;
    return new EncoderLayer(
        SelfAttention.of(model, part + "/attention"),
        LayerNorm.of(model, part + "/attention/output/LayerNorm"),
        FeedForward.of(model, part),
        LayerNorm.of(model, part + "/output/LayerNorm"));
  }

  /**
   * Applies the layer.
   *
   * @param x (batch, length, hidden)
   * @return (batch, length, hidden)
   */
  float[] apply(float[] x, TokenBatch tokens, Backend backend) {
    float[] attended = attentionNorm.applyToSum(attention.apply(x, tokens, backend), x);
    return norm.applyToSum(feedForward.apply(attended), attended);
  }
}
