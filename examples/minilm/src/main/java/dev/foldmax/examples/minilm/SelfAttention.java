package dev.foldmax.examples.minilm;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;

/** Multi-head self-attention: every token of a sentence looks at all of that sentence's tokens. */
record SelfAttention(Linear query, Linear key, Linear value, Linear output) {
  /** How many heads share the hidden dimension, each with 32 of its 384 components. */
  static final int HEADS = 12;

  /**
   * Reads the attention of one layer of the model.
   *
   * @param part such as {@code /encoder/layer.0/attention}
   */
  static SelfAttention of(OnnxModel model, String part) {
    return new SelfAttention(
        Linear.of(model, part + "/self/query"),
        Linear.of(model, part + "/self/key"),
        Linear.of(model, part + "/self/value"),
        Linear.of(model, part + "/output/dense"));
  }

  /**
   * Attends.
   *
   * @param x (batch, length, hidden)
   * @return (batch, length, hidden)
   */
  float[] apply(float[] x, TokenBatch tokens, Backend backend) {
    Tensor q = heads(query.apply(x), tokens);
    Tensor k = heads(key.apply(x), tokens);
    Tensor v = heads(value.apply(x), tokens);
    float[] context = new float[x.length]; // (batch, length, hidden)

    // The default scale is the model's, 1/sqrt(dim). Padding is hidden by each sentence's length.
    Tensor lengths = Tensor.of(tokens.lengths(), tokens.batch());
    backend.attend(
        q,
        KeyValues.dense(k, v).lengths(lengths),
        Attention.standard(),
        heads(context, tokens),
        null);

    return output.apply(context);
  }

  /** A view of (batch, length, hidden) as (batch, heads, length, dim): nothing is copied. */
  private static Tensor heads(float[] x, TokenBatch tokens) {
    int dim = x.length / (tokens.batch() * tokens.length() * HEADS);
    return Tensor.of(x, tokens.batch(), tokens.length(), HEADS, dim).permute(0, 2, 1, 3);
  }
}
