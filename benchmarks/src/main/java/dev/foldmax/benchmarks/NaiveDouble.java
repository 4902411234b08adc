package dev.foldmax.benchmarks;

import java.util.Arrays;
import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/** {@link NaiveAttention} in float64, for full and causal attention over heap arrays. */
final class NaiveDouble {
  private static final VectorSpecies<Double> F64 = DoubleVector.SPECIES_PREFERRED;
  private static final int V = F64.length();

  private final AttentionCase shape;
  private final NaivePool pool;
  private final double[] q; // (heads, queries, dim)
  private final double[] keys; // (keyHeads, keys, dim)
  private final double[] values; // (keyHeads, keys, dim)
  private final double[][] scores; // (workers)(keys)

  NaiveDouble(AttentionCase shape, NaivePool pool, double[] q, double[] keys, double[] values) {
    this.shape = shape;
    this.pool = pool;
    this.q = q;
    this.keys = keys;
    this.values = values;
    this.scores = new double[pool.threads()][shape.keys()];
  }

  /** Writes the result into {@code out}, (heads, queries, dim). */
  void attend(double[] out) {
    int queries = shape.queries();
    pool.run(
        shape.heads() * queries,
        (row, worker) -> attendRow(row / queries, row % queries, out, scores[worker]));
  }

  private void attendRow(int head, int i, double[] out, double[] p) {
    int dim = shape.dim();
    int query = (head * shape.queries() + i) * dim;
    int first = head / (shape.heads() / shape.keyHeads()) * shape.keys();
    int n = shape.end(i);
    for (int j = 0; j < n; j++) {
      p[j] = dot(q, query, keys, (first + j) * dim, dim) * shape.scale();
    }
    double inverse = 1 / exponentials(p, n, max(p, n));
    Arrays.fill(out, query, query + dim, 0);
    for (int j = 0; j < n; j++) {
      axpy(p[j] * inverse, values, (first + j) * dim, out, query, dim);
    }
  }

  private static double dot(double[] a, int aBegin, double[] b, int bBegin, int n) {
    DoubleVector s0 = DoubleVector.zero(F64);
    DoubleVector s1 = DoubleVector.zero(F64);
    DoubleVector s2 = DoubleVector.zero(F64);
    DoubleVector s3 = DoubleVector.zero(F64);
    int i = 0;
    for (; i <= n - 4 * V; i += 4 * V) {
      int ai = aBegin + i;
      int bi = bBegin + i;
      s0 = DoubleVector.fromArray(F64, a, ai).fma(DoubleVector.fromArray(F64, b, bi), s0);
      s1 = DoubleVector.fromArray(F64, a, ai + V).fma(DoubleVector.fromArray(F64, b, bi + V), s1);
      s2 =
          DoubleVector.fromArray(F64, a, ai + 2 * V)
              .fma(DoubleVector.fromArray(F64, b, bi + 2 * V), s2);
      s3 =
          DoubleVector.fromArray(F64, a, ai + 3 * V)
              .fma(DoubleVector.fromArray(F64, b, bi + 3 * V), s3);
    }
    double sum = s0.add(s1).add(s2.add(s3)).reduceLanes(VectorOperators.ADD);
    for (; i < n; i++) {
      sum = Math.fma(a[aBegin + i], b[bBegin + i], sum);
    }
    return sum;
  }

  private static double max(double[] x, int n) {
    DoubleVector m = DoubleVector.broadcast(F64, Double.NEGATIVE_INFINITY);
    int i = 0;
    for (; i <= n - V; i += V) {
      m = m.max(DoubleVector.fromArray(F64, x, i));
    }
    double max = m.reduceLanes(VectorOperators.MAX);
    for (; i < n; i++) {
      max = Math.max(max, x[i]);
    }
    return max;
  }

  /** Replaces x by {@code exp(x - max)} and returns the sum. */
  private static double exponentials(double[] x, int n, double max) {
    DoubleVector s = DoubleVector.zero(F64);
    int i = 0;
    for (; i <= n - V; i += V) {
      DoubleVector e = DoubleVector.fromArray(F64, x, i).sub(max).lanewise(VectorOperators.EXP);
      e.intoArray(x, i);
      s = s.add(e);
    }
    if (i < n) {
      VectorMask<Double> mask = F64.indexInRange(i, n);
      DoubleVector e =
          DoubleVector.fromArray(F64, x, i, mask).sub(max).lanewise(VectorOperators.EXP);
      e.intoArray(x, i, mask);
      s = s.add(e, mask);
    }
    return s.reduceLanes(VectorOperators.ADD);
  }

  private static void axpy(double a, double[] x, int xBegin, double[] y, int yBegin, int n) {
    DoubleVector factor = DoubleVector.broadcast(F64, a);
    int i = 0;
    for (; i <= n - V; i += V) {
      DoubleVector.fromArray(F64, x, xBegin + i)
          .fma(factor, DoubleVector.fromArray(F64, y, yBegin + i))
          .intoArray(y, yBegin + i);
    }
    for (; i < n; i++) {
      y[yBegin + i] = Math.fma(a, x[xBegin + i], y[yBegin + i]);
    }
  }
}
