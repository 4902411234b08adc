package dev.foldmax.benchmarks;

import dev.foldmax.DType;
import java.util.Locale;

/**
 * Rows of logits to measure.
 *
 * @param rows how many
 * @param columns of each row
 * @param dtype floating; of the input and of an output of the same size
 * @param verb what is done with them
 */
public record RowCase(int rows, int columns, DType dtype, RowVerb verb) implements Case {
  /** How many {@link RowVerb#TOP_K} takes. */
  static final int K = 8;

  /** The seed of {@link RowVerb#SAMPLE}. */
  static final long SEED = 42;

  @Override
  public Class<?> benchmark() {
    return RowBenchmark.class;
  }

  @Override
  public String label() {
    return verb.label()
        + " "
        + rows
        + " x "
        + columns
        + " "
        + dtype.name().toLowerCase(Locale.ROOT);
  }

  /** Bytes of the input once, and of the output once where it has the input's size. */
  double bytes() {
    return (verb.isMap() ? 2.0 : 1.0) * rows * columns * dtype.bytes();
  }
}
