package dev.foldmax.benchmarks;

import dev.foldmax.DType;

/**
 * Rows of logits to measure.
 *
 * @param rows how many
 * @param columns of each row
 * @param dtype F32 or BF16, of the input and of an output of the same size
 * @param verb what is done with them
 */
record RowCase(int rows, int columns, DType dtype, RowVerb verb) {
  /** How many {@link RowVerb#TOP_K} takes. */
  static final int K = 8;

  /** The seed of {@link RowVerb#SAMPLE}. */
  static final long SEED = 42;

  /** Bytes of the input once, and of the output once where it has the input's size. */
  double bytes() {
    return (verb.isMap() ? 2.0 : 1.0) * rows * columns * dtype.bytes();
  }
}
