package dev.foldmax.benchmarks;

import java.util.List;

/** Merging partial results by vectors, row by row. */
final class NaiveMerge {
  private final MergeCase shape;
  private final NaivePool pool;
  private final List<float[]> partials; // each (rows, dim)
  private final List<float[]> lses; // each (rows)
  private final float[][] weights; // (workers)(partials)

  NaiveMerge(MergeCase shape, NaivePool pool, List<float[]> partials, List<float[]> lses) {
    this.shape = shape;
    this.pool = pool;
    this.partials = partials;
    this.lses = lses;
    this.weights = new float[pool.threads()][shape.partials()];
  }

  /** Writes the result into {@code out}, (rows, dim). */
  void merge(float[] out) {
    pool.runRanges(
        shape.rows(),
        (begin, end, worker) -> {
          for (int r = begin; r < end; r++) {
            mergeRow(r, weights[worker], out);
          }
        });
  }

  private void mergeRow(int row, float[] rowWeights, float[] out) {
    float max = Float.NEGATIVE_INFINITY;
    for (float[] lse : lses) {
      max = Math.max(max, lse[row]);
    }
    float sum = 0;
    for (int i = 0; i < rowWeights.length; i++) {
      rowWeights[i] = (float) Math.exp(lses.get(i)[row] - max);
      sum += rowWeights[i];
    }
    int dim = shape.dim();
    int begin = row * dim;
    NaiveVectors.affine(
        partials.getFirst(), begin, begin + dim, rowWeights[0] / sum, 0, out, begin);
    for (int i = 1; i < rowWeights.length; i++) {
      NaiveVectors.axpy(rowWeights[i] / sum, partials.get(i), begin, out, begin, dim);
    }
  }
}
