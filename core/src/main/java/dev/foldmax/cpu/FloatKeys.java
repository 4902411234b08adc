package dev.foldmax.cpu;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShuffle;
import jdk.incubator.vector.VectorSpecies;

/**
 * The leaf loops of {@link FloatKeyLanes}: <em>lanes are keys</em>. Keys are turned into columns
 * first, a few at a time, so that each score is one chain of multiply-adds over ascending
 * dimensions, as in {@link FloatPanel}, whose bits these loops give. Vectors are of 256 bits at
 * most: a wider transposition takes more steps an element.
 */
final class FloatKeys {
  private static final VectorSpecies<Float> F =
      Species.F32.length() >= 8 ? FloatVector.SPECIES_256 : FloatVector.SPECIES_128;

  /** Lanes of a vector: the keys of a pack. */
  static final int V = F.length();

  /** Keys that {@link #scoresOfFour} takes at a time. */
  static final int PAIR = 2 * V;

  /** Keys that {@link #scoresOfOne} takes at a time. */
  static final int QUAD = 4 * V;

  private static final VectorShuffle<Float> SWAP_4 = swap(4);
  private static final VectorShuffle<Float> SWAP_2 = swap(2);
  private static final VectorShuffle<Float> SWAP_1 = swap(1);

  /** Lanes whose number has the bit 4, 2, 1. */
  private static final VectorMask<Float> HAS_4 = lanesWith(4);

  private static final VectorMask<Float> HAS_2 = lanesWith(2);
  private static final VectorMask<Float> HAS_1 = lanesWith(1);

  private FloatKeys() {}

  private static VectorShuffle<Float> swap(int bit) {
    return VectorShuffle.fromOp(F, lane -> (lane ^ bit) % V);
  }

  private static VectorMask<Float> lanesWith(int bit) {
    long lanes = 0;
    for (int lane = 0; lane < V; lane++) {
      lanes |= (lane & bit) == 0 ? 0 : 1L << lane;
    }
    return VectorMask.fromLong(F, lanes);
  }

  /**
   * Turns V keys into columns: {@code to[d][lane] = k[lane][d]}.
   *
   * @param k keys, rows {@code stride} apart from {@code k0}
   * @param n how many of them there are; the last one fills the lanes beyond
   * @param dims a multiple of V
   * @param to (dims, V) from {@code at}
   */
  static void pack(float[] k, int k0, int stride, int n, int dims, float[] to, int at) {
    if (V == 8) {
      packEight(k, k0, stride, n - 1, dims, to, at);
    } else {
      packFour(k, k0, stride, n - 1, dims, to, at);
    }
  }

  /**
   * Three rounds, each of which swaps, between rows whose numbers differ in one bit, the lanes in
   * which that bit is wrong: two vectors give each other half of their lanes through one
   * permutation.
   */
  private static void packEight(
      float[] k, int k0, int stride, int last, int dims, float[] to, int at) {
    int k1 = k0 + Math.min(1, last) * stride;
    int k2 = k0 + Math.min(2, last) * stride;
    int k3 = k0 + Math.min(3, last) * stride;
    int k4 = k0 + Math.min(4, last) * stride;
    int k5 = k0 + Math.min(5, last) * stride;
    int k6 = k0 + Math.min(6, last) * stride;
    int k7 = k0 + Math.min(7, last) * stride;
    for (int d = 0; d <= dims - V; d += V) {
      FloatVector a = FloatVector.fromArray(F, k, k0 + d);
      FloatVector b = FloatVector.fromArray(F, k, k1 + d);
      FloatVector c = FloatVector.fromArray(F, k, k2 + d);
      FloatVector e = FloatVector.fromArray(F, k, k3 + d);
      FloatVector f = FloatVector.fromArray(F, k, k4 + d);
      FloatVector g = FloatVector.fromArray(F, k, k5 + d);
      FloatVector h = FloatVector.fromArray(F, k, k6 + d);
      FloatVector i = FloatVector.fromArray(F, k, k7 + d);
      FloatVector x = f.blend(a, HAS_4).rearrange(SWAP_4);
      a = a.blend(x, HAS_4);
      f = x.blend(f, HAS_4);
      x = g.blend(b, HAS_4).rearrange(SWAP_4);
      b = b.blend(x, HAS_4);
      g = x.blend(g, HAS_4);
      x = h.blend(c, HAS_4).rearrange(SWAP_4);
      c = c.blend(x, HAS_4);
      h = x.blend(h, HAS_4);
      x = i.blend(e, HAS_4).rearrange(SWAP_4);
      e = e.blend(x, HAS_4);
      i = x.blend(i, HAS_4);
      x = c.blend(a, HAS_2).rearrange(SWAP_2);
      a = a.blend(x, HAS_2);
      c = x.blend(c, HAS_2);
      x = e.blend(b, HAS_2).rearrange(SWAP_2);
      b = b.blend(x, HAS_2);
      e = x.blend(e, HAS_2);
      x = h.blend(f, HAS_2).rearrange(SWAP_2);
      f = f.blend(x, HAS_2);
      h = x.blend(h, HAS_2);
      x = i.blend(g, HAS_2).rearrange(SWAP_2);
      g = g.blend(x, HAS_2);
      i = x.blend(i, HAS_2);
      x = b.blend(a, HAS_1).rearrange(SWAP_1);
      a.blend(x, HAS_1).intoArray(to, at + d * V);
      x.blend(b, HAS_1).intoArray(to, at + d * V + V);
      x = e.blend(c, HAS_1).rearrange(SWAP_1);
      c.blend(x, HAS_1).intoArray(to, at + d * V + 2 * V);
      x.blend(e, HAS_1).intoArray(to, at + d * V + 3 * V);
      x = g.blend(f, HAS_1).rearrange(SWAP_1);
      f.blend(x, HAS_1).intoArray(to, at + d * V + 4 * V);
      x.blend(g, HAS_1).intoArray(to, at + d * V + 5 * V);
      x = i.blend(h, HAS_1).rearrange(SWAP_1);
      h.blend(x, HAS_1).intoArray(to, at + d * V + 6 * V);
      x.blend(i, HAS_1).intoArray(to, at + d * V + 7 * V);
    }
  }

  /** The last two rounds of {@link #packEight}. */
  private static void packFour(
      float[] k, int k0, int stride, int last, int dims, float[] to, int at) {
    int k1 = k0 + Math.min(1, last) * stride;
    int k2 = k0 + Math.min(2, last) * stride;
    int k3 = k0 + Math.min(3, last) * stride;
    for (int d = 0; d <= dims - V; d += V) {
      FloatVector a = FloatVector.fromArray(F, k, k0 + d);
      FloatVector b = FloatVector.fromArray(F, k, k1 + d);
      FloatVector c = FloatVector.fromArray(F, k, k2 + d);
      FloatVector e = FloatVector.fromArray(F, k, k3 + d);
      FloatVector x = c.blend(a, HAS_2).rearrange(SWAP_2);
      a = a.blend(x, HAS_2);
      c = x.blend(c, HAS_2);
      x = e.blend(b, HAS_2).rearrange(SWAP_2);
      b = b.blend(x, HAS_2);
      e = x.blend(e, HAS_2);
      x = b.blend(a, HAS_1).rearrange(SWAP_1);
      a.blend(x, HAS_1).intoArray(to, at + d * V);
      x.blend(b, HAS_1).intoArray(to, at + d * V + V);
      x = e.blend(c, HAS_1).rearrange(SWAP_1);
      c.blend(x, HAS_1).intoArray(to, at + d * V + 2 * V);
      x.blend(e, HAS_1).intoArray(to, at + d * V + 3 * V);
    }
  }

  /**
   * Turns columns of four bytes into four columns of floats each.
   *
   * @param columns (dims / 4, V): the lowest byte of a lane is the first
   * @param scales what each key's elements are multiplied by; (V)
   * @param to (dims, V) from {@code at}
   */
  static void widenBytes(float[] columns, int dims, float[] scales, float[] to, int at) {
    FloatVector scale = FloatVector.fromArray(F, scales, 0);
    for (int i = 0; i <= dims / 4 * V - V; i += V) {
      IntVector x = FloatVector.fromArray(F, columns, i).reinterpretAsInts();
      int first = at + 4 * i;
      number(x.lanewise(VectorOperators.LSHL, 24)).mul(scale).intoArray(to, first);
      number(x.lanewise(VectorOperators.LSHL, 16)).mul(scale).intoArray(to, first + V);
      number(x.lanewise(VectorOperators.LSHL, 8)).mul(scale).intoArray(to, first + 2 * V);
      number(x).mul(scale).intoArray(to, first + 3 * V);
    }
  }

  /** The signed number in each lane's highest byte. */
  private static FloatVector number(IntVector x) {
    return (FloatVector) x.lanewise(VectorOperators.ASHR, 24).convert(VectorOperators.I2F, 0);
  }

  /**
   * Scores of QUAD keys for one query.
   *
   * @param packs four packs {@code packSize} apart from {@code p0}
   */
  static void scoresOfOne(
      float[] packs, int p0, int packSize, float[] q, int q0, int dims, float[] s, int s0) {
    int p1 = p0 + packSize;
    int p2 = p1 + packSize;
    int p3 = p2 + packSize;
    FloatVector a = FloatVector.broadcast(F, 0);
    FloatVector b = a;
    FloatVector c = a;
    FloatVector e = a;
    for (int d = 0; d < dims; d++) {
      FloatVector t = FloatVector.broadcast(F, q[q0 + d]);
      a = t.fma(FloatVector.fromArray(F, packs, p0 + d * V), a);
      b = t.fma(FloatVector.fromArray(F, packs, p1 + d * V), b);
      c = t.fma(FloatVector.fromArray(F, packs, p2 + d * V), c);
      e = t.fma(FloatVector.fromArray(F, packs, p3 + d * V), e);
    }
    a.intoArray(s, s0);
    b.intoArray(s, s0 + V);
    c.intoArray(s, s0 + 2 * V);
    e.intoArray(s, s0 + 3 * V);
  }

  /**
   * Scores of PAIR keys for four queries.
   *
   * @param packs two packs {@code packSize} apart from {@code p0}
   * @param q queries, {@code queryStride} apart from {@code q0}
   * @param s scores, rows {@code scoreStride} apart from {@code s0}
   */
  static void scoresOfFour(
      float[] packs,
      int p0,
      int packSize,
      float[] q,
      int q0,
      int queryStride,
      int dims,
      float[] s,
      int s0,
      int scoreStride) {
    int p1 = p0 + packSize;
    int q1 = q0 + queryStride;
    int q2 = q1 + queryStride;
    int q3 = q2 + queryStride;
    FloatVector a0 = FloatVector.broadcast(F, 0);
    FloatVector a1 = a0;
    FloatVector b0 = a0;
    FloatVector b1 = a0;
    FloatVector c0 = a0;
    FloatVector c1 = a0;
    FloatVector e0 = a0;
    FloatVector e1 = a0;
    for (int d = 0; d < dims; d++) {
      FloatVector x0 = FloatVector.fromArray(F, packs, p0 + d * V);
      FloatVector x1 = FloatVector.fromArray(F, packs, p1 + d * V);
      FloatVector t = FloatVector.broadcast(F, q[q0 + d]);
      a0 = t.fma(x0, a0);
      a1 = t.fma(x1, a1);
      t = FloatVector.broadcast(F, q[q1 + d]);
      b0 = t.fma(x0, b0);
      b1 = t.fma(x1, b1);
      t = FloatVector.broadcast(F, q[q2 + d]);
      c0 = t.fma(x0, c0);
      c1 = t.fma(x1, c1);
      t = FloatVector.broadcast(F, q[q3 + d]);
      e0 = t.fma(x0, e0);
      e1 = t.fma(x1, e1);
    }
    a0.intoArray(s, s0);
    a1.intoArray(s, s0 + V);
    b0.intoArray(s, s0 + scoreStride);
    b1.intoArray(s, s0 + scoreStride + V);
    c0.intoArray(s, s0 + 2 * scoreStride);
    c1.intoArray(s, s0 + 2 * scoreStride + V);
    e0.intoArray(s, s0 + 3 * scoreStride);
    e1.intoArray(s, s0 + 3 * scoreStride + V);
  }

  /** Adds up weights one by one, in ascending order, as a lane of {@link FloatPanel#weigh} does. */
  static float sumOfOne(float[] p, int p0, int n) {
    float sum = 0;
    for (int j = p0; j < p0 + n; j++) {
      sum += p[j];
    }
    return sum;
  }

  /**
   * As {@link #sumOfOne}, for four rows of weights {@code stride} apart, whose chains of additions
   * overlap; added to {@code sums} from {@code at}.
   */
  static void sumOfFour(float[] p, int p0, int stride, int n, float[] sums, int at) {
    int p1 = p0 + stride;
    int p2 = p1 + stride;
    int p3 = p2 + stride;
    float a = 0;
    float b = 0;
    float c = 0;
    float d = 0;
    for (int j = 0; j < n; j++) {
      a += p[p0 + j];
      b += p[p1 + j];
      c += p[p2 + j];
      d += p[p3 + j];
    }
    sums[at] += a;
    sums[at + 1] += b;
    sums[at + 2] += c;
    sums[at + 3] += d;
  }
}
