package dev.foldmax.cpu;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShuffle;
import jdk.incubator.vector.VectorSpecies;

/**
 * The leaf loops of {@link FloatDecode}: lanes are dimensions, each key and value is read once for
 * four rows or for one. What a row gets does not depend on how many rows are served together: a dot
 * product always takes even and odd vectors of dimensions in two accumulators and adds lanes in one
 * tree, and values are added key by key.
 *
 * <p>{@code reduceLanes(ADD)} is not used: its order is unspecified, and the interpreter's differs
 * from C2's.
 */
final class FloatStream {
  private static final VectorSpecies<Float> F = Species.F32;

  /** Lanes of a vector. */
  static final int V = F.length();

  /** Dimensions are padded with zeros to a multiple of two vectors. */
  static final int STEP = 2 * V;

  /** Rows that share a pass over the keys. */
  static final int ROWS = 4;

  private static final VectorShuffle<Float> BY_8 = rotation(8);
  private static final VectorShuffle<Float> BY_4 = rotation(4);
  private static final VectorShuffle<Float> BY_2 = rotation(2);
  private static final VectorShuffle<Float> BY_1 = rotation(1);

  private FloatStream() {}

  private static VectorShuffle<Float> rotation(int lanes) {
    return VectorShuffle.iota(F, lanes % V, 1, true);
  }

  private static FloatVector load(float[] a, int i) {
    return FloatVector.fromArray(F, a, i);
  }

  private static FloatVector all(float x) {
    return FloatVector.broadcast(F, x);
  }

  /**
   * The sum of all lanes: halves are added until one is left. Rotating all lanes changes no bit of
   * it, so it does not matter in which lane a tile's first key stands.
   */
  private static float sum(FloatVector even, FloatVector odd) {
    FloatVector x = even.add(odd);
    if (V >= 16) {
      x = x.add(x.rearrange(BY_8));
    }
    if (V >= 8) {
      x = x.add(x.rearrange(BY_4));
    }
    x = x.add(x.rearrange(BY_2));
    return x.add(x.rearrange(BY_1)).lane(0);
  }

  /**
   * Dot products of one query with {@code n} keys.
   *
   * @param k keys, rows {@code stride} apart from {@code k0}
   * @param dims a multiple of STEP
   */
  static void scoresOfOne(
      float[] q, int q0, float[] k, int k0, int stride, int dims, float[] s, int s0, int n) {
    for (int j = 0; j < n; j++) {
      int row = k0 + j * stride;
      FloatVector even = all(0);
      FloatVector odd = even;
      for (int d = 0; d < dims; d += STEP) {
        even = load(k, row + d).fma(load(q, q0 + d), even);
        odd = load(k, row + d + V).fma(load(q, q0 + d + V), odd);
      }
      s[s0 + j] = sum(even, odd);
    }
  }

  /** As {@link #scoresOfOne}, for four queries {@code dims} apart; their scores lie apart too. */
  static void scoresOfFour(
      float[] q,
      int q0,
      float[] k,
      int k0,
      int stride,
      int dims,
      float[] s,
      int s0,
      int scoreStride,
      int n) {
    int q1 = q0 + dims;
    int q2 = q1 + dims;
    int q3 = q2 + dims;
    for (int j = 0; j < n; j++) {
      int row = k0 + j * stride;
      FloatVector even0 = all(0);
      FloatVector even1 = even0;
      FloatVector even2 = even0;
      FloatVector even3 = even0;
      FloatVector odd0 = even0;
      FloatVector odd1 = even0;
      FloatVector odd2 = even0;
      FloatVector odd3 = even0;
      for (int d = 0; d < dims; d += STEP) {
        FloatVector x = load(k, row + d);
        FloatVector y = load(k, row + d + V);
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
  static float max(float[] s, int s0, int n) {
    FloatVector max = all(Float.NEGATIVE_INFINITY);
    for (int j = 0; j < n; j += V) {
      FloatVector x = load(s, s0 + j);
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
  static float weigh(
      float[] s, int s0, int n, float max, float factor, float factorLow, float least) {
    FloatVector m = all(max);
    FloatVector sum = all(0);
    for (int j = 0; j < n; j += V) {
      FloatVector p = Exponential.pow2(load(s, s0 + j).sub(m), factor, factorLow, least);
      p.intoArray(s, s0 + j);
      sum = sum.add(p);
    }
    return sum(sum, all(0));
  }

  /** O = O * c. */
  static void correct(float[] o, int o0, int dims, float c) {
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
      float[] v, int v0, int stride, int dims, float[] p, int p0, int n, float[] o, int o0) {
    int d = 0;
    for (; d + 4 * V <= dims; d += 4 * V) {
      FloatVector a = load(o, o0 + d);
      FloatVector b = load(o, o0 + d + V);
      FloatVector c = load(o, o0 + d + 2 * V);
      FloatVector e = load(o, o0 + d + 3 * V);
      for (int j = 0; j < n; j++) {
        int row = v0 + j * stride + d;
        FloatVector weight = all(p[p0 + j]);
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
      FloatVector a = load(o, o0 + d);
      FloatVector b = load(o, o0 + d + V);
      for (int j = 0; j < n; j++) {
        int row = v0 + j * stride + d;
        FloatVector weight = all(p[p0 + j]);
        a = weight.fma(load(v, row), a);
        b = weight.fma(load(v, row + V), b);
      }
      a.intoArray(o, o0 + d);
      b.intoArray(o, o0 + d + V);
    }
  }

  /** As {@link #valuesOfOne}, for four outputs {@code dims} apart with weights apart. */
  static void valuesOfFour(
      float[] v,
      int v0,
      int stride,
      int dims,
      float[] p,
      int p0,
      int weightStride,
      int n,
      float[] o,
      int o0) {
    int o1 = o0 + dims;
    int o2 = o1 + dims;
    int o3 = o2 + dims;
    int p1 = p0 + weightStride;
    int p2 = p1 + weightStride;
    int p3 = p2 + weightStride;
    for (int d = 0; d < dims; d += STEP) {
      FloatVector a0 = load(o, o0 + d);
      FloatVector b0 = load(o, o0 + d + V);
      FloatVector a1 = load(o, o1 + d);
      FloatVector b1 = load(o, o1 + d + V);
      FloatVector a2 = load(o, o2 + d);
      FloatVector b2 = load(o, o2 + d + V);
      FloatVector a3 = load(o, o3 + d);
      FloatVector b3 = load(o, o3 + d + V);
      for (int j = 0; j < n; j++) {
        int row = v0 + j * stride + d;
        FloatVector x = load(v, row);
        FloatVector y = load(v, row + V);
        FloatVector weight = all(p[p0 + j]);
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
      float[] earlier, int e0, float c1, float[] later, int l0, float c2, int dims) {
    for (int d = 0; d < dims; d += V) {
      load(later, l0 + d).mul(c2).add(load(earlier, e0 + d).mul(c1)).intoArray(later, l0 + d);
    }
  }
}
