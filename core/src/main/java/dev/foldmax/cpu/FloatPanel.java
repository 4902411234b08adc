package dev.foldmax.cpu;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * The leaf loops of {@link FloatPrefill}: a panel is two vectors of queries, and <em>lanes are
 * queries</em>. Maximum, sum and correction are then plain lane-wise vectors, no loop reduces
 * across lanes, and what a lane computes depends on its own query alone: row invariance for free,
 * at any vector width.
 *
 * <p>In the two matrix kernels six broadcast operands meet two vectors in twelve accumulators,
 * which with the operands fill AVX2's sixteen registers. C2 would hoist broadcasts out of the loop
 * and spill them; a branch it can neither foresee nor remove ({@code if (d == never) break}, with
 * -1 passed for {@code never}) after every second row of six keeps each broadcast at its use.
 * Without it the same loop gave 33, 40 or 88 GFLOP/s of 91 by luck (AVX2, JDK 25). Constant row
 * strides let range checks be hoisted.
 */
final class FloatPanel {
  private static final VectorSpecies<Float> F = Species.F32;

  /** Lanes of a vector. */
  static final int V = F.length();

  /** Queries of a panel. */
  static final int W = 2 * V;

  /** Keys, or dimensions of values, of a micro-kernel. */
  static final int GROUP = 6;

  /** Dimensions of a plane of keys in scratch: a tile's keys are cut into planes of this width. */
  static final int PLANE = 128;

  /** Row stride of a plane: off the powers of two, which would fall into one set of the cache. */
  static final int KEY_STRIDE = PLANE + 8;

  /** Side of the blocks of {@link FloatPacking#transpose}, at every vector width. */
  static final int SIDE = 4;

  /** How many elements {@link FloatPacking#packValues} moves at a time, of which GROUP count. */
  static final int PACKED = 8;

  /** Elements that packing may touch past the end of what it reads and of what it writes. */
  static final int SLACK = Math.max(V, PACKED);

  /** Offsets of a panel's lane vectors: maximum, sum, correction, and the tile's maximum. */
  static final int MAX = 0;

  static final int SUM = W;
  static final int CORRECTION = 2 * W;
  static final int NEW_MAX = 3 * W;
  static final int STATE_SIZE = 4 * W;

  // Vectors are loaded and broadcast by the Vector API's own methods: see Exponential.

  private FloatPanel() {}

  /** The next multiple of {@link #SIDE}. */
  static int roundUp(int n) {
    return (n + SIDE - 1) / SIDE * SIDE;
  }

  /**
   * Scores of six keys: {@code s[j][lane] = sum over d of k[j][d] * q[d][lane]}, in ascending d.
   *
   * @param k keys, rows KEY_STRIDE apart from {@code k0}
   * @param q queries, (dims, W) from {@code q0}
   * @param s scores, (6, W) from {@code s0}
   * @param resume whether the sums go on from what {@code s} holds (a further plane)
   * @param never -1
   */
  static void scores(
      float[] k,
      int k0,
      float[] q,
      int q0,
      int dims,
      float[] s,
      int s0,
      boolean resume,
      int never) {
    FloatVector a0 = FloatVector.broadcast(F, 0);
    FloatVector a1 = a0;
    FloatVector b0 = a0;
    FloatVector b1 = a0;
    FloatVector c0 = a0;
    FloatVector c1 = a0;
    FloatVector d0 = a0;
    FloatVector d1 = a0;
    FloatVector e0 = a0;
    FloatVector e1 = a0;
    FloatVector f0 = a0;
    FloatVector f1 = a0;
    if (resume) {
      a0 = FloatVector.fromArray(F, s, s0);
      a1 = FloatVector.fromArray(F, s, s0 + V);
      b0 = FloatVector.fromArray(F, s, s0 + W);
      b1 = FloatVector.fromArray(F, s, s0 + W + V);
      c0 = FloatVector.fromArray(F, s, s0 + 2 * W);
      c1 = FloatVector.fromArray(F, s, s0 + 2 * W + V);
      d0 = FloatVector.fromArray(F, s, s0 + 3 * W);
      d1 = FloatVector.fromArray(F, s, s0 + 3 * W + V);
      e0 = FloatVector.fromArray(F, s, s0 + 4 * W);
      e1 = FloatVector.fromArray(F, s, s0 + 4 * W + V);
      f0 = FloatVector.fromArray(F, s, s0 + 5 * W);
      f1 = FloatVector.fromArray(F, s, s0 + 5 * W + V);
    }
    for (int d = 0; d < dims; d++) {
      int row = k0 + d;
      FloatVector x0 = FloatVector.fromArray(F, q, q0 + d * W);
      FloatVector x1 = FloatVector.fromArray(F, q, q0 + d * W + V);
      FloatVector t = FloatVector.broadcast(F, k[row]);
      a0 = t.fma(x0, a0);
      a1 = t.fma(x1, a1);
      t = FloatVector.broadcast(F, k[row + KEY_STRIDE]);
      b0 = t.fma(x0, b0);
      b1 = t.fma(x1, b1);
      if (d == never) {
        break;
      }
      t = FloatVector.broadcast(F, k[row + 2 * KEY_STRIDE]);
      c0 = t.fma(x0, c0);
      c1 = t.fma(x1, c1);
      t = FloatVector.broadcast(F, k[row + 3 * KEY_STRIDE]);
      d0 = t.fma(x0, d0);
      d1 = t.fma(x1, d1);
      if (d == never) {
        break;
      }
      t = FloatVector.broadcast(F, k[row + 4 * KEY_STRIDE]);
      e0 = t.fma(x0, e0);
      e1 = t.fma(x1, e1);
      t = FloatVector.broadcast(F, k[row + 5 * KEY_STRIDE]);
      f0 = t.fma(x0, f0);
      f1 = t.fma(x1, f1);
    }
    a0.intoArray(s, s0);
    a1.intoArray(s, s0 + V);
    b0.intoArray(s, s0 + W);
    b1.intoArray(s, s0 + W + V);
    c0.intoArray(s, s0 + 2 * W);
    c1.intoArray(s, s0 + 2 * W + V);
    d0.intoArray(s, s0 + 3 * W);
    d1.intoArray(s, s0 + 3 * W + V);
    e0.intoArray(s, s0 + 4 * W);
    e1.intoArray(s, s0 + 4 * W + V);
    f0.intoArray(s, s0 + 5 * W);
    f1.intoArray(s, s0 + 5 * W + V);
  }

  /**
   * Corrects six dimensions of the output and adds weighted values: {@code o[d][lane] = o[d][lane]
   * * c[lane] + sum over j of v[j][d] * p[j][lane]}, in ascending j.
   *
   * @param v values, (keys, 6) from {@code v0}
   * @param p weights, (keys, W)
   * @param o outputs, (6, W) from {@code o0}
   * @param never -1
   */
  static void values6(
      float[] v, int v0, float[] p, int keys, float[] o, int o0, float[] state, int never) {
    FloatVector x0 = FloatVector.fromArray(F, state, CORRECTION);
    FloatVector x1 = FloatVector.fromArray(F, state, CORRECTION + V);
    FloatVector a0 = FloatVector.fromArray(F, o, o0).mul(x0);
    FloatVector a1 = FloatVector.fromArray(F, o, o0 + V).mul(x1);
    FloatVector b0 = FloatVector.fromArray(F, o, o0 + W).mul(x0);
    FloatVector b1 = FloatVector.fromArray(F, o, o0 + W + V).mul(x1);
    FloatVector c0 = FloatVector.fromArray(F, o, o0 + 2 * W).mul(x0);
    FloatVector c1 = FloatVector.fromArray(F, o, o0 + 2 * W + V).mul(x1);
    FloatVector d0 = FloatVector.fromArray(F, o, o0 + 3 * W).mul(x0);
    FloatVector d1 = FloatVector.fromArray(F, o, o0 + 3 * W + V).mul(x1);
    FloatVector e0 = FloatVector.fromArray(F, o, o0 + 4 * W).mul(x0);
    FloatVector e1 = FloatVector.fromArray(F, o, o0 + 4 * W + V).mul(x1);
    FloatVector f0 = FloatVector.fromArray(F, o, o0 + 5 * W).mul(x0);
    FloatVector f1 = FloatVector.fromArray(F, o, o0 + 5 * W + V).mul(x1);
    for (int j = 0; j < keys; j++) {
      int row = v0 + j * GROUP;
      x0 = FloatVector.fromArray(F, p, j * W);
      x1 = FloatVector.fromArray(F, p, j * W + V);
      FloatVector t = FloatVector.broadcast(F, v[row]);
      a0 = t.fma(x0, a0);
      a1 = t.fma(x1, a1);
      t = FloatVector.broadcast(F, v[row + 1]);
      b0 = t.fma(x0, b0);
      b1 = t.fma(x1, b1);
      if (j == never) {
        break;
      }
      t = FloatVector.broadcast(F, v[row + 2]);
      c0 = t.fma(x0, c0);
      c1 = t.fma(x1, c1);
      t = FloatVector.broadcast(F, v[row + 3]);
      d0 = t.fma(x0, d0);
      d1 = t.fma(x1, d1);
      if (j == never) {
        break;
      }
      t = FloatVector.broadcast(F, v[row + 4]);
      e0 = t.fma(x0, e0);
      e1 = t.fma(x1, e1);
      t = FloatVector.broadcast(F, v[row + 5]);
      f0 = t.fma(x0, f0);
      f1 = t.fma(x1, f1);
    }
    a0.intoArray(o, o0);
    a1.intoArray(o, o0 + V);
    b0.intoArray(o, o0 + W);
    b1.intoArray(o, o0 + W + V);
    c0.intoArray(o, o0 + 2 * W);
    c1.intoArray(o, o0 + 2 * W + V);
    d0.intoArray(o, o0 + 3 * W);
    d1.intoArray(o, o0 + 3 * W + V);
    e0.intoArray(o, o0 + 4 * W);
    e1.intoArray(o, o0 + 4 * W + V);
    f0.intoArray(o, o0 + 5 * W);
    f1.intoArray(o, o0 + 5 * W + V);
  }

  /** {@link #values6} for five dimensions; the sixth of each key is left alone. */
  static void values5(
      float[] v, int v0, float[] p, int keys, float[] o, int o0, float[] state, int never) {
    FloatVector x0 = FloatVector.fromArray(F, state, CORRECTION);
    FloatVector x1 = FloatVector.fromArray(F, state, CORRECTION + V);
    FloatVector a0 = FloatVector.fromArray(F, o, o0).mul(x0);
    FloatVector a1 = FloatVector.fromArray(F, o, o0 + V).mul(x1);
    FloatVector b0 = FloatVector.fromArray(F, o, o0 + W).mul(x0);
    FloatVector b1 = FloatVector.fromArray(F, o, o0 + W + V).mul(x1);
    FloatVector c0 = FloatVector.fromArray(F, o, o0 + 2 * W).mul(x0);
    FloatVector c1 = FloatVector.fromArray(F, o, o0 + 2 * W + V).mul(x1);
    FloatVector d0 = FloatVector.fromArray(F, o, o0 + 3 * W).mul(x0);
    FloatVector d1 = FloatVector.fromArray(F, o, o0 + 3 * W + V).mul(x1);
    FloatVector e0 = FloatVector.fromArray(F, o, o0 + 4 * W).mul(x0);
    FloatVector e1 = FloatVector.fromArray(F, o, o0 + 4 * W + V).mul(x1);
    for (int j = 0; j < keys; j++) {
      int row = v0 + j * GROUP;
      x0 = FloatVector.fromArray(F, p, j * W);
      x1 = FloatVector.fromArray(F, p, j * W + V);
      FloatVector t = FloatVector.broadcast(F, v[row]);
      a0 = t.fma(x0, a0);
      a1 = t.fma(x1, a1);
      t = FloatVector.broadcast(F, v[row + 1]);
      b0 = t.fma(x0, b0);
      b1 = t.fma(x1, b1);
      if (j == never) {
        break;
      }
      t = FloatVector.broadcast(F, v[row + 2]);
      c0 = t.fma(x0, c0);
      c1 = t.fma(x1, c1);
      t = FloatVector.broadcast(F, v[row + 3]);
      d0 = t.fma(x0, d0);
      d1 = t.fma(x1, d1);
      if (j == never) {
        break;
      }
      t = FloatVector.broadcast(F, v[row + 4]);
      e0 = t.fma(x0, e0);
      e1 = t.fma(x1, e1);
    }
    a0.intoArray(o, o0);
    a1.intoArray(o, o0 + V);
    b0.intoArray(o, o0 + W);
    b1.intoArray(o, o0 + W + V);
    c0.intoArray(o, o0 + 2 * W);
    c1.intoArray(o, o0 + 2 * W + V);
    d0.intoArray(o, o0 + 3 * W);
    d1.intoArray(o, o0 + 3 * W + V);
    e0.intoArray(o, o0 + 4 * W);
    e1.intoArray(o, o0 + 4 * W + V);
  }

  /**
   * The larger of two; where either is NaN, b. {@code FloatVector.max} is emulated on x86 for
   * Java's rule on NaN and was measured at 9.8 G elements/s against 25.8. It is b's method that is
   * called: see {@link FloatStream} on vectors that a loop carries along.
   */
  private static FloatVector larger(FloatVector a, FloatVector b) {
    return b.blend(a, b.compare(VectorOperators.LE, a));
  }

  /**
   * The largest of the running maximum and a tile's scores, per lane, into NEW_MAX; as by {@link
   * #larger}, but written out. With a NaN among the scores it may be anything: the sum makes such a
   * lane NaN whatever the maximum.
   */
  static void tileMax(float[] s, int keys, float[] state) {
    FloatVector a0 = FloatVector.fromArray(F, state, MAX);
    FloatVector a1 = FloatVector.fromArray(F, state, MAX + V);
    FloatVector b0 = a0;
    FloatVector b1 = a1;
    int j = 0;
    for (; j < keys - 1; j += 2) {
      FloatVector x = FloatVector.fromArray(F, s, j * W);
      a0 = x.blend(a0, x.compare(VectorOperators.LE, a0));
      x = FloatVector.fromArray(F, s, j * W + V);
      a1 = x.blend(a1, x.compare(VectorOperators.LE, a1));
      x = FloatVector.fromArray(F, s, j * W + W);
      b0 = x.blend(b0, x.compare(VectorOperators.LE, b0));
      x = FloatVector.fromArray(F, s, j * W + W + V);
      b1 = x.blend(b1, x.compare(VectorOperators.LE, b1));
    }
    if (j < keys) {
      FloatVector x = FloatVector.fromArray(F, s, j * W);
      a0 = x.blend(a0, x.compare(VectorOperators.LE, a0));
      x = FloatVector.fromArray(F, s, j * W + V);
      a1 = x.blend(a1, x.compare(VectorOperators.LE, a1));
    }
    larger(a0, b0).intoArray(state, NEW_MAX);
    larger(a1, b1).intoArray(state, NEW_MAX + V);
  }

  /**
   * m' and c of one vector of lanes: those whose candidate in NEW_MAX exceeds the maximum by more
   * than {@code threshold} take it, the others keep theirs; the correction of a lane that keeps its
   * maximum is exactly 1.
   *
   * @param i the first lane, 0 or V. The loops that take exponentials take them for one vector at a
   *     time: with two in a method C2 comes near its limit on nodes and boxes the vectors it meets
   *     after that
   */
  static void raiseMax(
      float[] state, int i, float threshold, float factor, float factorLow, float least) {
    FloatVector old = FloatVector.fromArray(F, state, MAX + i);
    FloatVector candidate = FloatVector.fromArray(F, state, NEW_MAX + i);
    VectorMask<Float> rises = candidate.compare(VectorOperators.GT, old.add(threshold));
    FloatVector max = old.blend(candidate, rises);
    FloatVector c =
        FloatVector.broadcast(F, 1)
            .blend(Exponential.pow2(old.sub(max), factor, factorLow, least), rises);
    max.intoArray(state, MAX + i);
    c.intoArray(state, CORRECTION + i);
    FloatVector.fromArray(F, state, SUM + i).mul(c).intoArray(state, SUM + i);
  }

  /**
   * Turns the scores of one vector of lanes into weights in place and adds them to the sum.
   *
   * @param i the first lane, as for {@link #raiseMax}
   */
  static void weigh(
      float[] s, int keys, float[] state, int i, float factor, float factorLow, float least) {
    FloatVector l = FloatVector.broadcast(F, 0);
    FloatVector m = FloatVector.fromArray(F, state, MAX + i);
    // A lane that has seen nothing but -inf: (-inf) - (-inf) would be NaN.
    FloatVector max = m.blend(l, m.compare(VectorOperators.EQ, Float.NEGATIVE_INFINITY));
    for (int j = 0; j < keys; j++) {
      FloatVector p =
          Exponential.pow2(
              FloatVector.fromArray(F, s, j * W + i).sub(max), factor, factorLow, least);
      p.intoArray(s, j * W + i);
      l = p.add(l);
    }
    FloatVector.fromArray(F, state, SUM + i).add(l).intoArray(state, SUM + i);
  }

  /**
   * Hides from one vector of lanes the keys outside their intervals.
   *
   * @param bounds for each lane the first visible key, then for each lane one past the last, both
   *     counted from the first row of {@code s}; (2, W)
   * @param i the first lane, 0 or V
   */
  static void hideOutside(float[] s, int keys, float[] bounds, int i) {
    FloatVector first = FloatVector.fromArray(F, bounds, i);
    FloatVector end = FloatVector.fromArray(F, bounds, W + i);
    FloatVector hidden = FloatVector.broadcast(F, Float.NEGATIVE_INFINITY);
    for (int j = 0; j < keys; j++) {
      FloatVector key = FloatVector.broadcast(F, j);
      VectorMask<Float> outside =
          key.compare(VectorOperators.LT, first).or(key.compare(VectorOperators.GE, end));
      FloatVector.fromArray(F, s, j * W + i).blend(hidden, outside).intoArray(s, j * W + i);
    }
  }

  /** The larger of two states' maxima, per lane, into the second's NEW_MAX. */
  static void jointMax(float[] earlier, float[] later) {
    for (int i = 0; i < W; i += V) {
      larger(FloatVector.fromArray(F, earlier, MAX + i), FloatVector.fromArray(F, later, MAX + i))
          .intoArray(later, NEW_MAX + i);
    }
  }

  /**
   * The correction of one vector of lanes of a state to be merged: what takes it from its maximum
   * to the joint one, exactly 1 where they are the same, be it -inf.
   *
   * @param joint the state whose NEW_MAX is the joint maximum
   * @param i the first lane, as for {@link #raiseMax}
   */
  static void correctTo(
      float[] state, float[] joint, int i, float factor, float factorLow, float least) {
    FloatVector m = FloatVector.fromArray(F, state, MAX + i);
    FloatVector max = FloatVector.fromArray(F, joint, NEW_MAX + i);
    Exponential.pow2(m.sub(max), factor, factorLow, least)
        .blend(FloatVector.broadcast(F, 1), m.compare(VectorOperators.EQ, max))
        .intoArray(state, CORRECTION + i);
  }

  /**
   * Merges a state of earlier keys into one of later keys: both are scaled by their corrections to
   * the joint maximum and added. Merging an empty state changes no bit.
   */
  static void merge(float[] earlier, float[] earlierO, float[] later, float[] laterO, int dims) {
    for (int i = 0; i < W; i += V) {
      FloatVector c1 = FloatVector.fromArray(F, earlier, CORRECTION + i);
      FloatVector c2 = FloatVector.fromArray(F, later, CORRECTION + i);
      FloatVector.fromArray(F, later, SUM + i)
          .mul(c2)
          .add(FloatVector.fromArray(F, earlier, SUM + i).mul(c1))
          .intoArray(later, SUM + i);
      FloatVector.fromArray(F, later, NEW_MAX + i).intoArray(later, MAX + i);
      for (int d = i; d < dims * W; d += W) {
        FloatVector.fromArray(F, laterO, d)
            .mul(c2)
            .add(FloatVector.fromArray(F, earlierO, d).mul(c1))
            .intoArray(laterO, d);
      }
    }
  }
}
