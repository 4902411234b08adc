package dev.foldmax.cpu;

import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShuffle;
import jdk.incubator.vector.VectorSpecies;

/**
 * The leaf loops of {@link DoubleAttention}: {@link FloatStream} in float64, line for line. The
 * Vector API has a class for each element type and C2 makes vector code only of loops that name
 * one, so the two cannot be written as one.
 */
final class DoubleStream {
  private static final VectorSpecies<Double> F = Species.F64;

  /** Lanes of a vector. */
  static final int V = F.length();

  /** Dimensions are padded with zeros to a multiple of two vectors. */
  static final int STEP = 2 * V;

  /** Rows that share a pass over the keys. */
  static final int ROWS = 4;

  private static final VectorShuffle<Double> BY_4 = rotation(4);
  private static final VectorShuffle<Double> BY_2 = rotation(2);
  private static final VectorShuffle<Double> BY_1 = rotation(1);

  private DoubleStream() {}

  private static VectorShuffle<Double> rotation(int lanes) {
    return VectorShuffle.iota(F, lanes % V, 1, true);
  }

  private static DoubleVector load(double[] a, int i) {
    return DoubleVector.fromArray(F, a, i);
  }

  private static DoubleVector all(double x) {
    return DoubleVector.broadcast(F, x);
  }

  /**
   * The sum of all lanes: halves are added until one is left. Rotating all lanes changes no bit of
   * it, so it does not matter in which lane a tile's first key stands.
   */
  private static double sum(DoubleVector even, DoubleVector odd) {
    DoubleVector x = even.add(odd);
    if (V >= 8) {
      x = x.add(x.rearrange(BY_4));
    }
    if (V >= 4) {
      x = x.add(x.rearrange(BY_2));
    }
    return x.add(x.rearrange(BY_1)).lane(0);
  }

  /**
   * Dot products of one query with {@code n} keys.
   *
   * @param k keys, rows {@code stride} apart from {@code k0}
   * @param dims a multiple of STEP
   */
  static void scoresOfOne(
      double[] q, int q0, double[] k, int k0, int stride, int dims, double[] s, int s0, int n) {
    for (int j = 0; j < n; j++) {
      int row = k0 + j * stride;
      DoubleVector even = all(0);
      DoubleVector odd = even;
      for (int d = 0; d < dims; d += STEP) {
        even = load(k, row + d).fma(load(q, q0 + d), even);
        odd = load(k, row + d + V).fma(load(q, q0 + d + V), odd);
      }
      s[s0 + j] = sum(even, odd);
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
      int n) {
    int q1 = q0 + dims;
    int q2 = q1 + dims;
    int q3 = q2 + dims;
    for (int j = 0; j < n; j++) {
      int row = k0 + j * stride;
      DoubleVector even0 = all(0);
      DoubleVector even1 = even0;
      DoubleVector even2 = even0;
      DoubleVector even3 = even0;
      DoubleVector odd0 = even0;
      DoubleVector odd1 = even0;
      DoubleVector odd2 = even0;
      DoubleVector odd3 = even0;
      for (int d = 0; d < dims; d += STEP) {
        DoubleVector x = load(k, row + d);
        DoubleVector y = load(k, row + d + V);
        even0 = x.fma(load(q, q0 + d), even0);
        odd0 = y.fma(load(q, q0 + d + V), odd0);
        even1 = x.fma(load(q, q1 + d), even1);
        odd1 = y.fma(load(q, q1 + d + V), odd1);
        even2 = x.fma(load(q, q2 + d), even2);
        odd2 = y.fma(load(q, q2 + d + V), odd2);
        even3 = x.fma(load(q, q3 + d), even3);
        odd3 = y.fma(load(q, q3 + d + V), odd3);
      }
      int at = s0 + j;
      s[at] = sum(even0, odd0);
      s[at + scoreStride] = sum(even1, odd1);
      s[at + 2 * scoreStride] = sum(even2, odd2);
      s[at + 3 * scoreStride] = sum(even3, odd3);
    }
  }

  /** The largest of {@code n} scores, a multiple of V, that are not NaN; or -inf. */
  static double max(double[] s, int s0, int n) {
    DoubleVector max = all(Double.NEGATIVE_INFINITY);
    for (int j = 0; j < n; j += V) {
      DoubleVector x = load(s, s0 + j);
      max = max.blend(x, x.compare(VectorOperators.GT, max));
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
      double[] s, int s0, int n, double max, double factor, double factorLow, double least) {
    DoubleVector m = all(max);
    DoubleVector sum = all(0);
    for (int j = 0; j < n; j += V) {
      DoubleVector p = Exponential.pow2(load(s, s0 + j).sub(m), factor, factorLow, least);
      p.intoArray(s, s0 + j);
      sum = sum.add(p);
    }
    return sum(sum, all(0));
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
   * @param dims a multiple of STEP
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
    for (; d < dims; d += STEP) {
      DoubleVector a = load(o, o0 + d);
      DoubleVector b = load(o, o0 + d + V);
      for (int j = 0; j < n; j++) {
        int row = v0 + j * stride + d;
        DoubleVector weight = all(p[p0 + j]);
        a = weight.fma(load(v, row), a);
        b = weight.fma(load(v, row + V), b);
      }
      a.intoArray(o, o0 + d);
      b.intoArray(o, o0 + d + V);
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
    for (int d = 0; d < dims; d += STEP) {
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
  }

  /** {@code later = later * c2 + earlier * c1}, for O of merged states. */
  static void mergeOutputs(
      double[] earlier, int e0, double c1, double[] later, int l0, double c2, int dims) {
    for (int d = 0; d < dims; d += V) {
      load(later, l0 + d).mul(c2).add(load(earlier, e0 + d).mul(c1)).intoArray(later, l0 + d);
    }
  }
}
