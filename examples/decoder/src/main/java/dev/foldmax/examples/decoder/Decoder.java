package dev.foldmax.examples.decoder;

import dev.foldmax.Backend;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;

/** The model: embeddings, layers, and the logits of the next token. */
final class Decoder {
  private final ModelShape shape;
  private final float[] embeddings; // (vocabulary, hidden)
  private final List<DecoderLayer> layers;
  private final RmsNorm norm;
  private final Linear head;

  /** A model whose weights the seed decides. */
  Decoder(ModelShape shape, long seed) {
    Weights weights = new Weights(seed);
    this.shape = shape;
    embeddings = weights.gaussian(shape.vocabulary() * shape.hidden(), 1);
    layers =
        IntStream.range(0, shape.layers()).mapToObj(i -> DecoderLayer.of(shape, weights)).toList();
    norm = weights.norm(shape.hidden());
    head = weights.linear(shape.hidden(), shape.vocabulary());
  }

  ModelShape shape() {
    return shape;
  }

  /**
   * Takes in tokens: a prompt or a part of it, drafts, or the token that came last. Their keys and
   * values are in the cache afterwards.
   *
   * @return the logits of what follows each of them, (tokens, vocabulary)
   */
  float[] step(int[] tokens, KvCache cache, Backend backend) {
    int hidden = shape.hidden();
    float[] x = new float[tokens.length * hidden];
    for (int i = 0; i < tokens.length; i++) {
      System.arraycopy(embeddings, tokens[i] * hidden, x, i * hidden, hidden);
    }
    for (int layer = 0; layer < layers.size(); layer++) {
      layers.get(layer).apply(x, layer, cache, backend);
    }
    cache.advance(tokens.length);
    return head.apply(norm.apply(x));
  }

  /** Takes in a prompt, so many tokens at a time, and returns the logits of what follows it. */
  float[] prefill(int[] prompt, int chunk, KvCache cache, Backend backend) {
    float[] logits = {};
    for (int begin = 0; begin < prompt.length; begin += chunk) {
      int end = Math.min(begin + chunk, prompt.length);
      logits = step(Arrays.copyOfRange(prompt, begin, end), cache, backend);
    }
    return Arrays.copyOfRange(logits, logits.length - shape.vocabulary(), logits.length);
  }
}
