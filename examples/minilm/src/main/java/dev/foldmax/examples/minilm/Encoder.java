package dev.foldmax.examples.minilm;

import dev.foldmax.Backend;
import java.util.List;
import java.util.stream.IntStream;

/** The whole of all-MiniLM-L6-v2: the embeddings and six layers. */
record Encoder(Embeddings embeddings, List<EncoderLayer> layers) {
  /** How many numbers stand for each token. */
  static final int HIDDEN = 384;

  private static final int LAYERS = 6;

  /** Reads the encoder's weights. */
  static Encoder of(OnnxModel model) {
    return new Encoder(
        Embeddings.of(model),
        IntStream.range(0, LAYERS).mapToObj(layer -> EncoderLayer.of(model, layer)).toList());
  }

  /**
   * The hidden state of each token, padding included: (batch, length, hidden).
   *
   * @param backend where the attention is computed
   */
  float[] encode(TokenBatch tokens, Backend backend) {
    float[] x = embeddings.apply(tokens); // (batch, length, hidden)
    for (EncoderLayer layer : layers) {
      x = layer.apply(x, tokens, backend);
    }
    return x;
  }
}
