package dev.foldmax.examples.minilm;

/**
 * How close the encoder comes to the original model.
 *
 * @param stateDifference the largest difference between components of real tokens' hidden states
 * @param vectorDifference the largest difference between components of sentences' vectors
 * @param cosine the smallest cosine between a sentence's vector and the original's
 */
record Comparison(double stateDifference, double vectorDifference, double cosine) {
  /**
   * Compares hidden states, and the vectors that they pool to.
   *
   * @param states (batch, length, hidden)
   * @param original those of the original model, (batch, length, hidden)
   */
  static Comparison of(float[] states, float[] original, TokenBatch tokens) {
    SentenceVectors vectors = SentenceVectors.pool(states, tokens);
    SentenceVectors originalVectors = SentenceVectors.pool(original, tokens);
    double stateDifference = 0;
    double cosine = 1;
    for (int b = 0; b < tokens.batch(); b++) {
      int begin = b * tokens.length() * Encoder.HIDDEN;
      int end = begin + tokens.lengths()[b] * Encoder.HIDDEN;
      stateDifference = Math.max(stateDifference, largestDifference(states, original, begin, end));
      cosine = Math.min(cosine, vectors.cosine(b, originalVectors, b));
    }
    return new Comparison(
        stateDifference,
        largestDifference(
            vectors.values(), originalVectors.values(), 0, tokens.batch() * Encoder.HIDDEN),
        cosine);
  }

  /** The largest absolute difference from begin, inclusive, to end; NaN where there is one. */
  private static double largestDifference(float[] a, float[] b, int begin, int end) {
    double largest = 0;
    for (int i = begin; i < end; i++) {
      largest = Math.max(largest, Math.abs((double) a[i] - b[i]));
    }
    return largest;
  }
}
