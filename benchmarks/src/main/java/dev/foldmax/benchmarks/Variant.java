package dev.foldmax.benchmarks;

/** What an attention does with its scores beside the softmax. */
public enum Variant {
  /** Nothing. */
  FULL("full"),
  /** Nothing, and decoding gives the bits of prefill also where it does not by default. */
  PREFILLED("full, bits of prefill"),
  /** A causal mask, bottom-right. */
  CAUSAL("causal"),
  /** A causal window of {@link AttentionCase#WINDOW} keys. */
  WINDOW("window " + AttentionCase.WINDOW),
  /** A boolean mask that hides one key in eight at random. */
  BOOLEAN("boolean mask"),
  /** An additive bias of its own for each head. */
  BIAS("bias"),
  /** A soft cap. */
  SOFT_CAP("soft cap"),
  /** ALiBi. */
  ALIBI("ALiBi");

  private final String label;

  Variant(String label) {
    this.label = label;
  }

  /** As the tables name it. */
  String label() {
    return label;
  }
}
