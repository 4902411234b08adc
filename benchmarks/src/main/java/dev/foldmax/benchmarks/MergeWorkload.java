package dev.foldmax.benchmarks;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.util.ArrayList;
import java.util.List;

/** Partial results of attention over disjoint keys, ready to be merged in either way. */
final class MergeWorkload implements AutoCloseable {
  private final int rows;
  private final int dim;
  private final Backend backend;
  private final NaivePool pool;
  private final List<float[]> partials = new ArrayList<>(); // each (rows, dim)
  private final List<float[]> lses = new ArrayList<>(); // each (rows)
  private final List<Tensor> partialTensors = new ArrayList<>();
  private final List<Tensor> lseTensors = new ArrayList<>();
  private final Tensor out;
  private final float[] naiveOut; // (rows, dim)
  private final float[][] weights; // (workers)(partials)

  MergeWorkload(int count, int rows, int dim, int threads) {
    this.rows = rows;
    this.dim = dim;
    this.backend = Backend.cpu(threads);
    this.pool = new NaivePool(threads);
    for (int i = 0; i < count; i++) {
      float[] partial = RandomArrays.floats(i, rows * dim);
      float[] lse = RandomArrays.floats(1000 + i, rows);
      partials.add(partial);
      lses.add(lse);
      partialTensors.add(Tensor.of(partial, rows, dim));
      lseTensors.add(Tensor.of(lse, rows));
    }
    this.out = Tensor.allocate(DType.F32, rows, dim);
    this.naiveOut = new float[rows * dim];
    this.weights = new float[threads][count];
  }

  /** What a merge reads and writes. */
  static double bytes(int count, int rows, int dim) {
    return Float.BYTES * ((count + 1.0) * rows * dim + (double) count * rows);
  }

  /** Computes it by the CPU backend, into the same tensor at each call. */
  Tensor foldmax() {
    backend.merge(partialTensors, lseTensors, out, null);
    return out;
  }

  /** Computes it by vectors row by row, into the same tensor at each call. */
  Tensor naive() {
    pool.runRanges(
        rows,
        (begin, end, worker) -> {
          for (int r = begin; r < end; r++) {
            mergeRow(r, weights[worker]);
          }
        });
    return Tensor.of(naiveOut, rows, dim);
  }

  private void mergeRow(int row, float[] rowWeights) {
    float max = Float.NEGATIVE_INFINITY;
    for (float[] lse : lses) {
      max = Math.max(max, lse[row]);
    }
    float sum = 0;
    for (int i = 0; i < rowWeights.length; i++) {
      rowWeights[i] = (float) Math.exp(lses.get(i)[row] - max);
      sum += rowWeights[i];
    }
    int begin = row * dim;
    NaiveVectors.affine(
        partials.getFirst(), begin, begin + dim, rowWeights[0] / sum, 0, naiveOut, begin);
    for (int i = 1; i < rowWeights.length; i++) {
      NaiveVectors.axpy(rowWeights[i] / sum, partials.get(i), begin, naiveOut, begin, dim);
    }
  }

  /** Computes it by the reference, into a new float64 tensor. */
  Tensor reference() {
    Tensor exact = Tensor.allocate(DType.F64, rows, dim);
    try (Backend reference = Backend.reference()) {
      reference.merge(partialTensors, lseTensors, exact, null);
    }
    return exact;
  }

  @Override
  public void close() {
    backend.close();
    pool.close();
  }
}
