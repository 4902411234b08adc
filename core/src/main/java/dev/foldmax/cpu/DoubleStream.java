package dev.foldmax.cpu;

import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * The leaf loops of {@link DoubleAttention}: {@link FloatStream} in float64, line for line but for
 * the sums of lanes. The Vector API has a class for each element type and C2 makes vector code only
 * of loops that name one, so the two cannot be written as one.
 */
final class DoubleStream {
  private static final VectorSpecies<Double> F = Species.F64;

  /** Lanes of a vector. */
  static final int V = F.length();

  /** Rows that share a pass over the keys. */
  static final int ROWS = 4;

  /** Lanes of the accumulators of the largest loop. */
  static final int LANES = 2 * ROWS * V;

  private DoubleStream() {}

  private static DoubleVector load(double[] a, int i) {
    return DoubleVector.fromArray(F, a, i);
  }

  private static DoubleVector all(double x) {
    return DoubleVector.broadcast(F, x);
  }

  /**
   * The sum of a vector's lanes, stored from {@code at}: halves are added until one is left. In
   * scalar code: rotations of as many vectors as meet here are too much for C2, which would box
   * them.
   */
  private static double sum(double[] lanes, int at) {
    for (int half = V / 2; half > 0; half /= 2) {
      for (int i = at; i < at + half; i++) {
        lanes[i] += lanes[i + half];
      }
    }
    return lanes[at];
  }

  /**
   * Dot products of one query with {@code n} keys.
   *
   * @param k keys, rows {@code stride} apart from {@code k0}
   * @param dims a multiple of V
   * @param lanes room for LANES numbers
   */
  static void scoresOfOne(
      double[] q,
      int q0,
      double[] k,
      int k0,
      int stride,
      int dims,
      double[] s,
      int s0,
      int n,
      double[] lanes) {
    int j = 0;
    for (; j + 4 <= n; j += 4) {
      int row0 = k0 + j * stride;
      int row1 = row0 + stride;
      int row2 = row1 + stride;
      int row3 = row2 + stride;
      DoubleVector a = all(0);
      DoubleVector b = a;
      DoubleVector c = a;
      DoubleVector e = a;
      for (int d = 0; d < dims; d += V) {
        DoubleVector x = load(q, q0 + d);
        a = x.fma(load(k, row0 + d), a);
        b = x.fma(load(k, row1 + d), b);
        c = x.fma(load(k, row2 + d), c);
        e = x.fma(load(k, row3 + d), e);
      }
      a.intoArray(lanes, 0);
      b.intoArray(lanes, V);
      c.intoArray(lanes, 2 * V);
      e.intoArray(lanes, 3 * V);
      storeSums(lanes, 0, s, s0 + j, 1);
    }
    for (; j < n; j++) {
      int row = k0 + j * stride;
      DoubleVector a = all(0);
      for (int d = 0; d < dims; d += V) {
        a = load(q, q0 + d).fma(load(k, row + d), a);
      }
      a.intoArray(lanes, 0);
      s[s0 + j] = sum(lanes, 0);
    }
  }

  /** As {@link #scoresOfOne}, for four queries {@code dims} apart; their scores lie apart too. */
  static void scoresOfFour(
      double[] q,
      int q0,
      double[] k,
      int k0,
      int stride,
      int dims,
      double[] s,
      int s0,
      int scoreStride,
      int n,
      double[] lanes) {
    int q1 = q0 + dims;
    int q2 = q1 + dims;
    int q3 = q2 + dims;
    int j = 0;
    for (; j + 2 <= n; j += 2) {
      int row = k0 + j * stride;
      int next = row + stride;
      DoubleVector a0 = all(0);
      DoubleVector a1 = a0;
      DoubleVector b0 = a0;
      DoubleVector b1 = a0;
      DoubleVector c0 = a0;
      DoubleVector c1 = a0;
      DoubleVector e0 = a0;
      DoubleVector e1 = a0;
      for (int d = 0; d < dims; d += V) {
        DoubleVector x = load(k, row + d);
        DoubleVector y = load(k, next + d);
        DoubleVector t = load(q, q0 + d);
        a0 = t.fma(x, a0);
        a1 = t.fma(y, a1);
        t = load(q, q1 + d);
        b0 = t.fma(x, b0);
        b1 = t.fma(y, b1);
        t = load(q, q2 + d);
        c0 = t.fma(x, c0);
        c1 = t.fma(y, c1);
        t = load(q, q3 + d);
        e0 = t.fma(x, e0);
        e1 = t.fma(y, e1);
      }
      a0.intoArray(lanes, 0);
      b0.intoArray(lanes, V);
      c0.intoArray(lanes, 2 * V);
      e0.intoArray(lanes, 3 * V);
      a1.intoArray(lanes, 4 * V);
      b1.intoArray(lanes, 5 * V);
      c1.intoArray(lanes, 6 * V);
      e1.intoArray(lanes, 7 * V);
      storeSums(lanes, 0, s, s0 + j, scoreStride);
      storeSums(lanes, 4 * V, s, s0 + j + 1, scoreStride);
    }
    if (j < n) {
      int row = k0 + j * stride;
      DoubleVector a = all(0);
      DoubleVector b = a;
      DoubleVector c = a;
      DoubleVector e = a;
      for (int d = 0; d < dims; d += V) {
        DoubleVector x = load(k, row + d);
        a = x.fma(load(q, q0 + d), a);
        b = x.fma(load(q, q1 + d), b);
        c = x.fma(load(q, q2 + d), c);
        e = x.fma(load(q, q3 + d), e);
      }
      a.intoArray(lanes, 0);
      b.intoArray(lanes, V);
      c.intoArray(lanes, 2 * V);
      e.intoArray(lanes, 3 * V);
      storeSums(lanes, 0, s, s0 + j, scoreStride);
    }
  }

  /** Stores the sums of four vectors' lanes {@code stride} apart. */
  private static void storeSums(double[] lanes, int from, double[] s, int at, int stride) {
    for (int r = 0; r < ROWS; r++) {
      s[at + r * stride] = sum(lanes, from + r * V);
    }
  }

  /** The largest of {@code n} scores, a multiple of V; anything if one of them is NaN. */
  static double max(double[] s, int s0, int n) {
    DoubleVector max = all(Double.NEGATIVE_INFINITY);
    for (int j = 0; j < n; j += V) {
      DoubleVector x = load(s, s0 + j);
      max = x.blend(max, x.compare(VectorOperators.LE, max));
    }
    return max.reduceLanes(VectorOperators.MAX);
  }

  /**
   * Turns {@code n} scores, a multiple of V, into weights in place.
   *
   * @param max the row's maximum; finite, or +inf
   * @return their sum
   */
  static double weigh(
      double[] s,
      int s0,
      int n,
      double max,
      double factor,
      double factorLow,
      double least,
      double[] lanes) {
    DoubleVector m = all(max);
    DoubleVector sum = all(0);
    for (int j = 0; j < n; j += V) {
      DoubleVector p = Exponential.pow2(load(s, s0 + j).sub(m), factor, factorLow, least);
      p.intoArray(s, s0 + j);
      sum = p.add(sum);
    }
    sum.intoArray(lanes, 0);
    return sum(lanes, 0);
  }

  /** O = O * c. */
  static void correct(double[] o, int o0, int dims, double c) {
    for (int d = 0; d < dims; d += V) {
      load(o, o0 + d).mul(c).intoArray(o, o0 + d);
    }
  }

  /**
   * Adds {@code n} weighted values to one output.
   *
   * @param v values, rows {@code stride} apart from {@code v0}
   * @param dims a multiple of V
   */
  static void valuesOfOne(
      double[] v, int v0, int stride, int dims, double[] p, int p0, int n, double[] o, int o0) {
    int d = 0;
    for (; d + 4 * V <= dims; d += 4 * V) {
      DoubleVector a = load(o, o0 + d);
      DoubleVector b = load(o, o0 + d + V);
      DoubleVector c = load(o, o0 + d + 2 * V);
      DoubleVector e = load(o, o0 + d + 3 * V);
      for (int j = 0; j < n; j++) {
        int row = v0 + j * stride + d;
        DoubleVector weight = all(p[p0 + j]);
        a = weight.fma(load(v, row), a);
        b = weight.fma(load(v, row + V), b);
        c = weight.fma(load(v, row + 2 * V), c);
        e = weight.fma(load(v, row + 3 * V), e);
      }
      a.intoArray(o, o0 + d);
      b.intoArray(o, o0 + d + V);
      c.intoArray(o, o0 + d + 2 * V);
      e.intoArray(o, o0 + d + 3 * V);
    }
    for (; d < dims; d += V) {
      DoubleVector a = load(o, o0 + d);
      for (int j = 0; j < n; j++) {
        a = all(p[p0 + j]).fma(load(v, v0 + j * stride + d), a);
      }
      a.intoArray(o, o0 + d);
    }
  }

  /** As {@link #valuesOfOne}, for four outputs {@code dims} apart with weights apart. */
  static void valuesOfFour(
      double[] v,
      int v0,
      int stride,
      int dims,
      double[] p,
      int p0,
      int weightStride,
      int n,
      double[] o,
      int o0) {
    int o1 = o0 + dims;
    int o2 = o1 + dims;
    int o3 = o2 + dims;
    int p1 = p0 + weightStride;
    int p2 = p1 + weightStride;
    int p3 = p2 + weightStride;
    int d = 0;
    for (; d + 2 * V <= dims; d += 2 * V) {
      DoubleVector a0 = load(o, o0 + d);
      DoubleVector b0 = load(o, o0 + d + V);
      DoubleVector a1 = load(o, o1 + d);
      DoubleVector b1 = load(o, o1 + d + V);
      DoubleVector a2 = load(o, o2 + d);
      DoubleVector b2 = load(o, o2 + d + V);
      DoubleVector a3 = load(o, o3 + d);
      DoubleVector b3 = load(o, o3 + d + V);
      for (int j = 0; j < n; j++) {
        int row = v0 + j * stride + d;
        DoubleVector x = load(v, row);
        DoubleVector y = load(v, row + V);
        DoubleVector weight = all(p[p0 + j]);
        a0 = weight.fma(x, a0);
        b0 = weight.fma(y, b0);
        weight = all(p[p1 + j]);
        a1 = weight.fma(x, a1);
        b1 = weight.fma(y, b1);
        weight = all(p[p2 + j]);
        a2 = weight.fma(x, a2);
        b2 = weight.fma(y, b2);
        weight = all(p[p3 + j]);
        a3 = weight.fma(x, a3);
        b3 = weight.fma(y, b3);
      }
      a0.intoArray(o, o0 + d);
      b0.intoArray(o, o0 + d + V);
      a1.intoArray(o, o1 + d);
      b1.intoArray(o, o1 + d + V);
      a2.intoArray(o, o2 + d);
      b2.intoArray(o, o2 + d + V);
      a3.intoArray(o, o3 + d);
      b3.intoArray(o, o3 + d + V);
    }
    if (d < dims) {
      DoubleVector a0 = load(o, o0 + d);
      DoubleVector a1 = load(o, o1 + d);
      DoubleVector a2 = load(o, o2 + d);
      DoubleVector a3 = load(o, o3 + d);
      for (int j = 0; j < n; j++) {
        DoubleVector x = load(v, v0 + j * stride + d);
        a0 = x.fma(all(p[p0 + j]), a0);
        a1 = x.fma(all(p[p1 + j]), a1);
        a2 = x.fma(all(p[p2 + j]), a2);
        a3 = x.fma(all(p[p3 + j]), a3);
      }
      a0.intoArray(o, o0 + d);
      a1.intoArray(o, o1 + d);
      a2.intoArray(o, o2 + d);
      a3.intoArray(o, o3 + d);
    }
  }

  /** {@code later = later * c2 + earlier * c1}, for O of merged states. */
  static void mergeOutputs(
      double[] earlier, int e0, double c1, double[] later, int l0, double c2, int dims) {
    for (int d = 0; d < dims; d += V) {
      load(later, l0 + d).mul(c2).add(load(earlier, e0 + d).mul(c1)).intoArray(later, l0 + d);
    }
  }
}
