package dev.foldmax.examples.minilm;

/** What the model is for: one vector for each sentence, close to those of similar sentences. */
final class SentenceVectors {
  private final int batch;
  private final float[] values; // (batch, hidden)

  private SentenceVectors(int batch, float[] values) {
    this.batch = batch;
    this.values = values;
  }

  /**
   * The mean over each sentence's real tokens, scaled to length 1.
   *
   * @param states (batch, length, hidden)
   */
  static SentenceVectors pool(float[] states, TokenBatch tokens) {
    int hidden = states.length / tokens.ids().length;
    float[] values = new float[tokens.batch() * hidden]; // (batch, hidden)
    for (int b = 0; b < tokens.batch(); b++) {
      double[] sum = new double[hidden]; // (hidden)
      for (int i = 0; i < tokens.lengths()[b]; i++) {
        int token = (b * tokens.length() + i) * hidden;
        for (int j = 0; j < hidden; j++) {
          sum[j] += states[token + j];
        }
      }
      // The sum is as good as the mean here: they differ in length alone.
      double squares = 0;
      for (double component : sum) {
        squares += component * component;
      }
      for (int j = 0; j < hidden; j++) {
        values[b * hidden + j] = (float) (sum[j] / Math.sqrt(squares));
      }
    }
    return new SentenceVectors(tokens.batch(), values);
  }

  /** How many sentences there are. */
  int batch() {
    return batch;
  }

  /** The vectors, (batch, hidden); not a copy. */
  float[] values() {
    return values;
  }

  /** The cosine of the angle between a sentence's vector and one of another set's, -1 to 1. */
  double cosine(int sentence, SentenceVectors other, int otherSentence) {
    int hidden = values.length / batch;
    double dot = 0;
    double squares = 0;
    double otherSquares = 0;
    for (int j = 0; j < hidden; j++) {
      double a = values[sentence * hidden + j];
      double b = other.values[otherSentence * hidden + j];
      dot += a * b;
      squares += a * a;
      otherSquares += b * b;
    }
    return dot / Math.sqrt(squares * otherSquares);
  }
}
