package dev.foldmax.benchmarks;

/** How the sequences of a batch lie in memory. */
public enum Layout {
  /** Each in a range of its own, queries too. */
  DENSE("dense"),
  /** One after the other, queries too. */
  RAGGED("ragged"),
  /** Keys and values in pages of {@link AttentionCase#PAGE} rows, dealt out at random. */
  PAGED("paged");

  private final String label;

  Layout(String label) {
    this.label = label;
  }

  /** As the tables name it. */
  String label() {
    return label;
  }
}
