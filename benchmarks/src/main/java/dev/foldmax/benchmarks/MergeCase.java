package dev.foldmax.benchmarks;

/**
 * Partial results of attention over disjoint keys to merge, in float32.
 *
 * @param partials how many
 * @param rows of each
 * @param dim of each row
 */
public record MergeCase(int partials, int rows, int dim) implements Case {
  @Override
  public Class<?> benchmark() {
    return MergeBenchmark.class;
  }

  @Override
  public String label() {
    return partials + " partials, " + rows + " x " + dim + " f32";
  }

  /** What a merge reads and writes. */
  double bytes() {
    return Float.BYTES * ((partials + 1.0) * rows * dim + (double) partials * rows);
  }
}
