package dev.foldmax.examples.minilm;

/**
 * What goes into the first layer: a vector for the word, one for its position and one for its
 * segment, added and normalised.
 */
final class Embeddings {
  private final float[] words; // (vocabulary, hidden)
  private final float[] positions; // (longest sentence, hidden)
  private final float[] segments; // (2, hidden)
  private final LayerNorm norm;

  private Embeddings(OnnxModel model) {
    words = model.parameter("/embeddings/word_embeddings", "weight");
    positions = model.parameter("/embeddings/position_embeddings", "weight");
    segments = model.parameter("/embeddings/token_type_embeddings", "weight");
    norm = LayerNorm.of(model, "/embeddings/LayerNorm");
  }

  /** Reads the embeddings of the model. */
  static Embeddings of(OnnxModel model) {
    return new Embeddings(model);
  }

  /** Looks up each token, padding included: (batch, length, hidden). */
  float[] apply(TokenBatch tokens) {
    int hidden = Encoder.HIDDEN;
    float[] x = new float[tokens.ids().length * hidden]; // (batch, length, hidden)
    for (int i = 0; i < tokens.ids().length; i++) {
      int word = Math.toIntExact(tokens.ids()[i]) * hidden;
      int position = i % tokens.length() * hidden;
      // A sentence by itself lies in the first segment: row 0.
      for (int j = 0; j < hidden; j++) {
        x[i * hidden + j] = words[word + j] + segments[j] + positions[position + j];
      }
    }
    return norm.apply(x);
  }
}
