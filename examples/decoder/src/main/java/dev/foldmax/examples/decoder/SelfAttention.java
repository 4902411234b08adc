package dev.foldmax.examples.decoder;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Tensor;

/** Causal self-attention over a cache, with fewer key heads than query heads. */
record SelfAttention(
    Linear query, Linear key, Linear value, Linear output, Rotary rotary, ModelShape shape) {
  static SelfAttention of(ModelShape shape, Weights weights) {
    int width = shape.heads() * shape.dim();
    return new SelfAttention(
        weights.linear(shape.hidden(), width),
        weights.linear(shape.hidden(), shape.rowSize()),
        weights.linear(shape.hidden(), shape.rowSize()),
        weights.linear(width, shape.hidden()),
        new Rotary(shape.dim()),
        shape);
  }

  /**
   * Attends, after it has put the tokens' own keys and values into the cache. The same call serves
   * a prompt, a part of one, drafts to be checked, and a single token: the last query stands at the
   * last key, and each sees the keys up to its own.
   *
   * @param x (tokens, hidden)
   * @return (tokens, hidden)
   */
  float[] apply(float[] x, int layer, KvCache cache, Backend backend) {
    int tokens = x.length / shape.hidden();
    float[] q = query.apply(x); // (tokens, heads, dim)
    float[] k = key.apply(x); // (tokens, key heads, dim)
    float[] v = value.apply(x);
    rotary.turn(q, shape.heads(), cache.length());
    rotary.turn(k, shape.keyHeads(), cache.length());
    roundToHalf(k);
    roundToHalf(v);
    KeyValues keyValues = cache.write(layer, rows(k, tokens), rows(v, tokens));

    float[] context = new float[q.length]; // (tokens, heads, dim)
    backend.attend(heads(q, tokens), keyValues, attention(layer), heads(context, tokens), null);
    return output.apply(context);
  }

  private Attention attention(int layer) {
    Mask mask = Mask.causal();
    if (shape.isSliding(layer)) {
      mask = mask.and(Mask.window(shape.window() - 1, 0));
    }
    return Attention.standard().mask(mask);
  }

  /** (tokens, heads, dim) as (batch, heads, tokens, dim): a view. */
  private Tensor heads(float[] x, int tokens) {
    return Tensor.of(x, 1, tokens, shape.heads(), shape.dim()).permute(0, 2, 1, 3);
  }

  private Tensor rows(float[] x, int tokens) {
    return Tensor.of(x, tokens, shape.keyHeads(), shape.dim());
  }

  private static void roundToHalf(float[] x) {
    for (int i = 0; i < x.length; i++) {
      x[i] = Float.float16ToFloat(Float.floatToFloat16(x[i]));
    }
  }
}
