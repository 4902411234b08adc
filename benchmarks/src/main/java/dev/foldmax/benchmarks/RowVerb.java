package dev.foldmax.benchmarks;

/** What is done with each row of logits. */
public enum RowVerb {
  /** Softmax. */
  SOFTMAX("softmax"),
  /** The logarithm of the softmax. */
  LOG_SOFTMAX("logSoftmax"),
  /** The logarithm of the sum of exponentials. */
  LOG_SUM_EXP("logSumExp"),
  /** The {@link RowCase#K} largest with their probabilities. */
  TOP_K("topK " + RowCase.K),
  /** One draw from the softmax. */
  SAMPLE("sample");

  private final String label;

  RowVerb(String label) {
    this.label = label;
  }

  /** As the tables name it. */
  String label() {
    return label;
  }

  /** Whether the output has the size of the input. */
  boolean isMap() {
    return this == SOFTMAX || this == LOG_SOFTMAX;
  }
}
