package dev.foldmax.cpu;

import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;

/**
 * The loops of the row kernels over a run of float32 in an array. A run's last, partial vector goes
 * through the same arithmetic as a full one, filled up with -inf, so a result depends on the
 * elements and their number alone.
 */
final class FloatRows {
  private static final int V = Species.F32.length();

  /** How many elements are added up in float32 before their sum goes on in float64. */
  private static final int CHUNK = 32 * V;

  private static final float FACTOR = Exponential.LOG2_E;
  private static final float FACTOR_LOW = Exponential.LOG2_E_LOW;
  private static final float LEAST = Exponential.least(FACTOR);

  private FloatRows() {}

  /**
   * The largest element that is not NaN; -inf if there is none.
   *
   * @param lanes receives the largest of each lane, that is, of as many disjoint sets
   */
  static float max(float[] x, int from, int n, float[] lanes) {
    FloatVector a = FloatVector.broadcast(Species.F32, Float.NEGATIVE_INFINITY);
    FloatVector b = a;
    FloatVector c = a;
    FloatVector d = a;
    int end = from + n;
    int i = from;
    for (; i <= end - 4 * V; i += 4 * V) {
      a = larger(a, FloatVector.fromArray(Species.F32, x, i));
      b = larger(b, FloatVector.fromArray(Species.F32, x, i + V));
      c = larger(c, FloatVector.fromArray(Species.F32, x, i + 2 * V));
      d = larger(d, FloatVector.fromArray(Species.F32, x, i + 3 * V));
    }
    for (; i < end; i += V) {
      a = larger(a, partial(x, i, end));
    }
    FloatVector largest = larger(larger(a, b), larger(c, d));
    largest.intoArray(lanes, 0);
    return largest.reduceLanes(VectorOperators.MAX);
  }

  /** The lanes of x where they are larger; unlike {@code max} not slowed by the care for NaN. */
  private static FloatVector larger(FloatVector a, FloatVector x) {
    return a.blend(x, x.compare(VectorOperators.GT, a));
  }

  /** The elements from i to below end, at most a vector, filled up with -inf. */
  private static FloatVector partial(float[] x, int i, int end) {
    VectorMask<Float> inside = Species.F32.indexInRange(i, end);
    return FloatVector.broadcast(Species.F32, Float.NEGATIVE_INFINITY)
        .blend(FloatVector.fromArray(Species.F32, x, i, inside), inside);
  }

  private static FloatVector exp(FloatVector x) {
    return Exponential.pow2(x, FACTOR, FACTOR_LOW, LEAST);
  }

  /**
   * Stores {@code exp(x - max)} and returns the sum, with a relative error of some 1e-7 at any
   * length: chunks are added up in float32 lanes, and the lanes of all chunks in float64.
   *
   * @param max at least every element, finite; else the sum is NaN
   * @param lanes room for a vector
   * @param sums room for as many float64
   */
  static double exponentials(
      float[] x, int from, float[] y, int to, int n, float max, float[] lanes, double[] sums) {
    Arrays.fill(sums, 0, V, 0);
    for (int i = 0; i < n; i += CHUNK) {
      exponentialsOfChunk(x, from + i, y, to + i, Math.min(CHUNK, n - i), max, lanes);
      for (int lane = 0; lane < V; lane++) {
        sums[lane] += lanes[lane];
      }
    }
    double total = 0;
    for (int lane = 0; lane < V; lane++) {
      total += sums[lane];
    }
    return total;
  }

  private static void exponentialsOfChunk(
      float[] x, int from, float[] y, int to, int n, float max, float[] lanes) {
    FloatVector m = FloatVector.broadcast(Species.F32, max);
    FloatVector sum = FloatVector.zero(Species.F32);
    int i = 0;
    for (; i <= n - V; i += V) {
      FloatVector e = exp(FloatVector.fromArray(Species.F32, x, from + i).sub(m));
      e.intoArray(y, to + i);
      sum = sum.add(e);
    }
    if (i < n) {
      FloatVector e = exp(partial(x, from + i, from + n).sub(m));
      e.intoArray(y, to + i, Species.F32.indexInRange(i, n));
      sum = sum.add(e);
    }
    sum.intoArray(lanes, 0);
  }

  /** {@code y = exp(x - max) * factor}. */
  static void scaledExponentials(
      float[] x, int from, float[] y, int to, int n, float max, float factor) {
    FloatVector m = FloatVector.broadcast(Species.F32, max);
    FloatVector c = FloatVector.broadcast(Species.F32, factor);
    int i = 0;
    for (; i <= n - V; i += V) {
      FloatVector e = exp(FloatVector.fromArray(Species.F32, x, from + i).sub(m));
      e.mul(c).intoArray(y, to + i);
    }
    if (i < n) {
      FloatVector e = exp(partial(x, from + i, from + n).sub(m));
      e.mul(c).intoArray(y, to + i, Species.F32.indexInRange(i, n));
    }
  }

  /** {@code y *= factor}. */
  static void scale(float[] y, int from, int n, float factor) {
    FloatVector c = FloatVector.broadcast(Species.F32, factor);
    int end = from + n;
    int i = from;
    for (; i <= end - 2 * V; i += 2 * V) {
      FloatVector.fromArray(Species.F32, y, i).mul(c).intoArray(y, i);
      FloatVector.fromArray(Species.F32, y, i + V).mul(c).intoArray(y, i + V);
    }
    for (; i < end; i += V) {
      partial(y, i, end).mul(c).intoArray(y, i, Species.F32.indexInRange(i, end));
    }
  }

  /** {@code y = (x - max) - log}. */
  static void subtract(float[] x, int from, float[] y, int to, int n, float max, float log) {
    FloatVector m = FloatVector.broadcast(Species.F32, max);
    FloatVector l = FloatVector.broadcast(Species.F32, log);
    int i = 0;
    for (; i <= n - V; i += V) {
      FloatVector.fromArray(Species.F32, x, from + i).sub(m).sub(l).intoArray(y, to + i);
    }
    for (; i < n; i += V) {
      FloatVector d = partial(x, from + i, from + n).sub(m).sub(l);
      d.intoArray(y, to + i, Species.F32.indexInRange(i, n));
    }
  }

  /** {@code y += weight * x}. */
  static void accumulate(float[] x, int from, float[] y, int n, float weight) {
    FloatVector w = FloatVector.broadcast(Species.F32, weight);
    for (int i = 0; i < n; i += V) {
      VectorMask<Float> inside = Species.F32.indexInRange(i, n);
      FloatVector.fromArray(Species.F32, x, from + i, inside)
          .fma(w, FloatVector.fromArray(Species.F32, y, i, inside))
          .intoArray(y, i, inside);
    }
  }

  /**
   * The first vector that holds an element above the threshold, or a NaN; a threshold of NaN finds
   * every vector.
   *
   * @param begin relative to from, a multiple of the vector's length
   * @return its position relative to from; n if there is none
   */
  static int findAbove(float[] x, int from, int begin, int n, float threshold) {
    FloatVector t = FloatVector.broadcast(Species.F32, threshold);
    int i = begin;
    for (; i <= n - V; i += V) {
      if (!FloatVector.fromArray(Species.F32, x, from + i)
          .compare(VectorOperators.LE, t)
          .allTrue()) {
        return i;
      }
    }
    if (i < n && !partial(x, from + i, from + n).compare(VectorOperators.LE, t).allTrue()) {
      return i;
    }
    return n;
  }
}
