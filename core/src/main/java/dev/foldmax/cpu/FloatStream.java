package dev.foldmax.cpu;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShuffle;
import jdk.incubator.vector.VectorSpecies;

/**
 * The leaf loops of {@link FloatDecode}: lanes are dimensions, each key and value is read once for
 * four rows or for one. What a row gets does not depend on how many rows or keys are served
 * together: a dot product always has two accumulators, for even and odd vectors of dimensions, and
 * one tree over its lanes, and values are added key by key.
 *
 * <p>Loops that serve one row, and with them all dot products, take vectors of 256 bits at most:
 * keys and values came at 21 GB/s through these and at 15 GB/s through vectors of 512 bits (Zen 4).
 *
 * <p>Methods are called on vectors that were loaded or made in the same iteration, never on one
 * that a loop carries along ({@code p.add(sum)}, not {@code sum.add(p)}): of a carried one C2 knows
 * the exact class only once everything in the loop is inlined, so a call on it may stay a call, and
 * all vectors of the loop are boxed.
 *
 * <p>{@code reduceLanes(ADD)} is not used: its order is unspecified, and the interpreter's differs
 * from C2's.
 */
final class FloatStream {
  private static final VectorSpecies<Float> F = Species.F32;

  /** Lanes of a vector; rows are padded to a multiple. */
  static final int V = F.length();

  /** Vectors for one row. */
  private static final VectorSpecies<Float> NARROW =
      V >= 8 ? FloatVector.SPECIES_256 : FloatVector.SPECIES_128;

  private static final int N = NARROW.length();

  /** Rows that share a pass over the keys. */
  static final int ROWS = 4;

  private static final VectorShuffle<Float> BY_HALF = rotation(N / 2);
  private static final VectorShuffle<Float> BY_QUARTER = rotation(N / 4);
  private static final VectorShuffle<Float> BY_THREE_QUARTERS = rotation(3 * N / 4);
  private static final VectorShuffle<Float> BY_1 = rotation(1);

  /** The upper half of a vector, and the upper half of each half. */
  private static final VectorMask<Float> UPPER = VectorMask.fromLong(NARROW, lanesFrom(N / 2));

  private static final VectorMask<Float> UPPER_QUARTERS =
      VectorMask.fromLong(NARROW, lanesFrom(N / 4) ^ lanesFrom(N / 2) ^ lanesFrom(3 * N / 4));

  private FloatStream() {}

  private static VectorShuffle<Float> rotation(int lanes) {
    return VectorShuffle.iota(NARROW, lanes % N, 1, true);
  }

  private static long lanesFrom(int first) {
    return -1L << first;
  }

  private static FloatVector load(float[] a, int i) {
    return FloatVector.fromArray(F, a, i);
  }

  private static FloatVector all(float x) {
    return FloatVector.broadcast(F, x);
  }

  private static FloatVector narrow(float[] a, int i) {
    return FloatVector.fromArray(NARROW, a, i);
  }

  /** The sum of all lanes: halves are added until one is left. */
  private static float sum(FloatVector lanes) {
    FloatVector x = lanes.add(lanes.rearrange(BY_HALF));
    x = x.add(x.rearrange(BY_QUARTER));
    if (N == 8) {
      x = x.add(x.rearrange(BY_1));
    }
    return x.lane(0);
  }

  /**
   * Dot products of one query with {@code n} keys.
   *
   * @param k keys, rows {@code stride} apart from {@code k0}
   * @param dims a multiple of V
   */
  static void scoresOfOne(
      float[] q, int q0, float[] k, int k0, int stride, int dims, float[] s, int s0, int n) {
    int j = 0;
    for (; j + 4 <= n; j += 4) {
      int row = k0 + j * stride;
      FloatVector a = dot(q, q0, k, row, dims);
      FloatVector b = dot(q, q0, k, row + stride, dims);
      FloatVector c = dot(q, q0, k, row + 2 * stride, dims);
      FloatVector e = dot(q, q0, k, row + 3 * stride, dims);
      storeSums(a, b, c, e, s, s0 + j, 1);
    }
    for (; j < n; j++) {
      s[s0 + j] = sum(dot(q, q0, k, k0 + j * stride, dims));
    }
  }

  /**
   * As {@link #scoresOfOne}, of {@code n} keys in each of four streams. Its loop is that of {@link
   * #scoresOfFour} with the parts of q and k exchanged; one method for both, called for each key,
   * was 3 to 17 % slower.
   *
   * @param at where the streams begin
   * @param apart from the scores of a stream to those of the next
   */
  static void scoresInFourStreams(
      float[] q,
      int q0,
      float[] k,
      int[] at,
      int stride,
      int dims,
      float[] s,
      int s0,
      int apart,
      int n) {
    for (int j = 0; j < n; j++) {
      int rowA = at[0] + j * stride;
      int rowB = at[1] + j * stride;
      int rowC = at[2] + j * stride;
      int rowE = at[3] + j * stride;
      FloatVector a = FloatVector.broadcast(NARROW, 0);
      FloatVector b = a;
      FloatVector c = a;
      FloatVector e = a;
      FloatVector oddA = a;
      FloatVector oddB = a;
      FloatVector oddC = a;
      FloatVector oddE = a;
      int d = 0;
      for (; d <= dims - 2 * N; d += 2 * N) {
        FloatVector x = narrow(q, q0 + d);
        FloatVector y = narrow(q, q0 + d + N);
        a = x.fma(narrow(k, rowA + d), a);
        oddA = y.fma(narrow(k, rowA + d + N), oddA);
        b = x.fma(narrow(k, rowB + d), b);
        oddB = y.fma(narrow(k, rowB + d + N), oddB);
        c = x.fma(narrow(k, rowC + d), c);
        oddC = y.fma(narrow(k, rowC + d + N), oddC);
        e = x.fma(narrow(k, rowE + d), e);
        oddE = y.fma(narrow(k, rowE + d + N), oddE);
      }
      if (d < dims) {
        FloatVector x = narrow(q, q0 + d);
        a = x.fma(narrow(k, rowA + d), a);
        b = x.fma(narrow(k, rowB + d), b);
        c = x.fma(narrow(k, rowC + d), c);
        e = x.fma(narrow(k, rowE + d), e);
      }
      storeSums(a.add(oddA), b.add(oddB), c.add(oddC), e.add(oddE), s, s0 + j, apart);
    }
  }

  /** The products of a query and a key, added up lane by lane in two accumulators. */
  private static FloatVector dot(float[] q, int q0, float[] k, int row, int dims) {
    FloatVector even = FloatVector.broadcast(NARROW, 0);
    FloatVector odd = even;
    int d = 0;
    for (; d <= dims - 2 * N; d += 2 * N) {
      even = narrow(q, q0 + d).fma(narrow(k, row + d), even);
      odd = narrow(q, q0 + d + N).fma(narrow(k, row + d + N), odd);
    }
    if (d < dims) {
      even = narrow(q, q0 + d).fma(narrow(k, row + d), even);
    }
    return even.add(odd);
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
      FloatVector a = FloatVector.broadcast(NARROW, 0);
      FloatVector b = a;
      FloatVector c = a;
      FloatVector e = a;
      FloatVector oddA = a;
      FloatVector oddB = a;
      FloatVector oddC = a;
      FloatVector oddE = a;
      int d = 0;
      for (; d <= dims - 2 * N; d += 2 * N) {
        FloatVector x = narrow(k, row + d);
        FloatVector y = narrow(k, row + d + N);
        a = x.fma(narrow(q, q0 + d), a);
        oddA = y.fma(narrow(q, q0 + d + N), oddA);
        b = x.fma(narrow(q, q1 + d), b);
        oddB = y.fma(narrow(q, q1 + d + N), oddB);
        c = x.fma(narrow(q, q2 + d), c);
        oddC = y.fma(narrow(q, q2 + d + N), oddC);
        e = x.fma(narrow(q, q3 + d), e);
        oddE = y.fma(narrow(q, q3 + d + N), oddE);
      }
      if (d < dims) {
        FloatVector x = narrow(k, row + d);
        a = x.fma(narrow(q, q0 + d), a);
        b = x.fma(narrow(q, q1 + d), b);
        c = x.fma(narrow(q, q2 + d), c);
        e = x.fma(narrow(q, q3 + d), e);
      }
      storeSums(a.add(oddA), b.add(oddB), c.add(oddC), e.add(oddE), s, s0 + j, scoreStride);
    }
  }

  /**
   * Stores the sums of all lanes of four vectors, added in the order of {@link #sum}: the vectors
   * are folded into one another, so that four sums cost little more than one.
   */
  private static void storeSums(
      FloatVector a, FloatVector b, FloatVector c, FloatVector d, float[] s, int at, int stride) {
    FloatVector ab = a.blend(b, UPPER).add(b.blend(a, UPPER).rearrange(BY_HALF));
    FloatVector cd = c.blend(d, UPPER).add(d.blend(c, UPPER).rearrange(BY_HALF));
    // ab: a in the lower half, b in the upper; abcd: a quarter each of a, c, b, d.
    FloatVector x =
        ab.blend(cd.rearrange(BY_THREE_QUARTERS), UPPER_QUARTERS)
            .add(ab.rearrange(BY_QUARTER).blend(cd, UPPER_QUARTERS));
    if (N == 8) {
      x = x.add(x.rearrange(BY_1));
    }
    s[at] = x.lane(0);
    s[at + stride] = x.lane(N / 2);
    s[at + 2 * stride] = x.lane(N / 4);
    s[at + 3 * stride] = x.lane(3 * N / 4);
  }

  /** The largest of {@code n} scores, a multiple of V; anything if one of them is NaN. */
  static float max(float[] s, int s0, int n) {
    FloatVector max = all(Float.NEGATIVE_INFINITY);
    for (int j = 0; j < n; j += V) {
      FloatVector x = load(s, s0 + j);
      max = x.blend(max, x.compare(VectorOperators.LE, max));
    }
    return max.reduceLanes(VectorOperators.MAX);
  }

  /**
   * Turns {@code n} scores, a multiple of V, into weights in place.
   *
   * @param max the row's maximum; finite, or +inf
   */
  static void weigh(
      float[] s, int s0, int n, float max, float factor, float factorLow, float least) {
    FloatVector m = all(max);
    for (int j = 0; j < n; j += V) {
      Exponential.pow2(load(s, s0 + j).sub(m), factor, factorLow, least).intoArray(s, s0 + j);
    }
  }

  /**
   * Adds up {@code n} weights, a multiple of V: vectors in order, then the lanes of what is left.
   */
  static float sum(float[] p, int p0, int n) {
    FloatVector sum = FloatVector.broadcast(NARROW, 0);
    for (int j = 0; j < n; j += N) {
      sum = narrow(p, p0 + j).add(sum);
    }
    return sum(sum);
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
   * @param dims a multiple of V
   */
  static void valuesOfOne(
      float[] v, int v0, int stride, int dims, float[] p, int p0, int n, float[] o, int o0) {
    for (int j = 0; j < n; j++) {
      int row = v0 + j * stride;
      FloatVector weight = FloatVector.broadcast(NARROW, p[p0 + j]);
      for (int d = 0; d < dims; d += N) {
        weight.fma(narrow(v, row + d), narrow(o, o0 + d)).intoArray(o, o0 + d);
      }
    }
  }

  /**
   * As {@link #valuesOfOne}, of {@code n} keys in each of four streams: one of each, in turn.
   *
   * @param at where the streams begin
   * @param apart from the weights of a stream to those of the next
   */
  static void valuesInFourStreams(
      float[] v,
      int[] at,
      int stride,
      int dims,
      float[] p,
      int p0,
      int apart,
      int n,
      float[] o,
      int o0) {
    for (int j = 0; j < n; j++) {
      int rowA = at[0] + j * stride;
      int rowB = at[1] + j * stride;
      int rowC = at[2] + j * stride;
      int rowE = at[3] + j * stride;
      FloatVector a = FloatVector.broadcast(NARROW, p[p0 + j]);
      FloatVector b = FloatVector.broadcast(NARROW, p[p0 + j + apart]);
      FloatVector c = FloatVector.broadcast(NARROW, p[p0 + j + 2 * apart]);
      FloatVector e = FloatVector.broadcast(NARROW, p[p0 + j + 3 * apart]);
      for (int d = 0; d <= dims - N; d += N) {
        FloatVector x = a.fma(narrow(v, rowA + d), narrow(o, o0 + d));
        x = b.fma(narrow(v, rowB + d), x);
        x = c.fma(narrow(v, rowC + d), x);
        e.fma(narrow(v, rowE + d), x).intoArray(o, o0 + d);
      }
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
    int d = 0;
    for (; d <= dims - 2 * V; d += 2 * V) {
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
    if (d < dims) {
      FloatVector a0 = load(o, o0 + d);
      FloatVector a1 = load(o, o1 + d);
      FloatVector a2 = load(o, o2 + d);
      FloatVector a3 = load(o, o3 + d);
      for (int j = 0; j < n; j++) {
        FloatVector x = load(v, v0 + j * stride + d);
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

  /**
   * Copies {@code n} weights of each of four streams, whose weights are {@code apart} from each
   * other, in the order of {@link #valuesInFourStreams}.
   */
  static void interleave(float[] p, int p0, int apart, int n, float[] to, int at) {
    for (int j = 0; j < n; j++) {
      to[at + 4 * j] = p[p0 + j];
      to[at + 4 * j + 1] = p[p0 + j + apart];
      to[at + 4 * j + 2] = p[p0 + j + 2 * apart];
      to[at + 4 * j + 3] = p[p0 + j + 3 * apart];
    }
  }

  /** Elements of a cache line of 64 bytes. */
  private static final int LINE = 16;

  /**
   * Brings pieces of {@code n} rows each into the cache by reading an element of each line in
   * order: what takes several rows at a time, or column by column, no prefetcher can follow. Some
   * streams far apart bring more than one, whose prefetcher stops at the end of each page.
   *
   * @param at where the pieces begin
   * @param pieces how many there are
   * @return what depends on all that was read; to be kept, so that reading is not left out
   */
  static int touch(float[] v, int[] at, int pieces, int stride, int dims, int n) {
    boolean isOneRow = stride == dims;
    int rows = isOneRow ? 1 : n;
    int length = isOneRow ? n * dims : dims;
    int bits = 0;
    for (int j = 0; j < rows; j++) {
      for (int i = j * stride; i < j * stride + length; i += LINE) {
        for (int p = 0; p < pieces; p++) {
          bits ^= Float.floatToRawIntBits(v[at[p] + i]);
        }
      }
    }
    return bits;
  }

  /** {@code later = later * c2 + earlier * c1}, for O of merged states. */
  static void mergeOutputs(
      float[] earlier, int e0, float c1, float[] later, int l0, float c2, int dims) {
    for (int d = 0; d < dims; d += V) {
      load(later, l0 + d).mul(c2).add(load(earlier, e0 + d).mul(c1)).intoArray(later, l0 + d);
    }
  }
}
