package dev.foldmax.cpu;

import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorOperators;

/**
 * The loops of the row kernels over a run of float32 in an array. Exponentials of a run's last,
 * partial vector are those of a full one, filled up with -inf, so a result depends on the elements
 * and their number alone.
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
    for (; i <= end - V; i += V) {
      a = larger(a, FloatVector.fromArray(Species.F32, x, i));
    }
    FloatVector largest = larger(larger(a, b), larger(c, d));
    largest.intoArray(lanes, 0);
    for (; i < end; i++) {
      if (x[i] > lanes[0]) {
        lanes[0] = x[i];
      }
    }
    return Math.max(lanes[0], largest.reduceLanes(VectorOperators.MAX));
  }

  /** The lanes of x where they are larger; unlike {@code max} not slowed by the care for NaN. */
  private static FloatVector larger(FloatVector a, FloatVector x) {
    return a.blend(x, x.compare(VectorOperators.GT, a));
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
   * @param rest room for a vector
   * @param sums room for as many float64
   */
  static double exponentials(
      float[] x,
      int from,
      float[] y,
      int to,
      int n,
      float max,
      float[] lanes,
      float[] rest,
      double[] sums) {
    Arrays.fill(sums, 0, V, 0);
    int length;
    for (int i = 0; i < n; i += length) {
      length = Math.min(CHUNK, n - i);
      boolean isRest = length < V;
      if (isRest) {
        fillUp(x, from + i, length, rest);
      } else {
        length -= length % V;
      }
      // One call for both: inlined twice, it would be too much for C2, which then boxes vectors.
      exponentialsOfVectors(
          isRest ? rest : x,
          isRest ? 0 : from + i,
          isRest ? rest : y,
          isRest ? 0 : to + i,
          isRest ? V : length,
          max,
          lanes);
      if (isRest) {
        System.arraycopy(rest, 0, y, to + i, length);
      }
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

  /** Copies less than a vector, filled up with -inf. */
  private static void fillUp(float[] x, int from, int n, float[] vector) {
    System.arraycopy(x, from, vector, 0, n);
    Arrays.fill(vector, n, V, Float.NEGATIVE_INFINITY);
  }

  private static void exponentialsOfVectors(
      float[] x, int from, float[] y, int to, int n, float max, float[] lanes) {
    FloatVector m = FloatVector.broadcast(Species.F32, max);
    FloatVector sum = FloatVector.zero(Species.F32);
    for (int i = 0; i <= n - V; i += V) {
      FloatVector e = exp(FloatVector.fromArray(Species.F32, x, from + i).sub(m));
      e.intoArray(y, to + i);
      sum = sum.add(e);
    }
    sum.intoArray(lanes, 0);
  }

  /**
   * {@code y = exp(x - max) * factor}.
   *
   * @param rest room for a vector
   */
  static void scaledExponentials(
      float[] x, int from, float[] y, int to, int n, float max, float factor, float[] rest) {
    int length;
    for (int i = 0; i < n; i += length) {
      length = n - i;
      boolean isRest = length < V;
      if (isRest) {
        fillUp(x, from + i, length, rest);
      } else {
        length -= length % V;
      }
      scaledExponentialsOfVectors(
          isRest ? rest : x,
          isRest ? 0 : from + i,
          isRest ? rest : y,
          isRest ? 0 : to + i,
          isRest ? V : length,
          max,
          factor);
      if (isRest) {
        System.arraycopy(rest, 0, y, to + i, length);
      }
    }
  }

  private static void scaledExponentialsOfVectors(
      float[] x, int from, float[] y, int to, int n, float max, float factor) {
    FloatVector m = FloatVector.broadcast(Species.F32, max);
    FloatVector c = FloatVector.broadcast(Species.F32, factor);
    for (int i = 0; i <= n - V; i += V) {
      FloatVector e = exp(FloatVector.fromArray(Species.F32, x, from + i).sub(m));
      e.mul(c).intoArray(y, to + i);
    }
  }

  /** {@code y *= factor}. */
  static void scale(float[] y, int from, int n, float factor) {
    FloatVector c = FloatVector.broadcast(Species.F32, factor);
    int end = from + n;
    int i = from;
    for (; i <= end - V; i += V) {
      FloatVector.fromArray(Species.F32, y, i).mul(c).intoArray(y, i);
    }
    for (; i < end; i++) {
      y[i] *= factor;
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
    for (; i < n; i++) {
      y[to + i] = x[from + i] - max - log;
    }
  }

  /**
   * {@code y = start + sum of weight * x}, added in the order of the sources. The target may be one
   * of them: all are read before it is written.
   *
   * @param x the arrays of the sources
   * @param from where they begin
   * @param start what the sums start from
   */
  static void weightedSum(
      float[][] x,
      int[] from,
      float[] weights,
      int sources,
      float[] start,
      float[] y,
      int to,
      int n) {
    int i = 0;
    for (; i <= n - 4 * V; i += 4 * V) {
      FloatVector a = FloatVector.fromArray(Species.F32, start, i);
      FloatVector b = FloatVector.fromArray(Species.F32, start, i + V);
      FloatVector c = FloatVector.fromArray(Species.F32, start, i + 2 * V);
      FloatVector d = FloatVector.fromArray(Species.F32, start, i + 3 * V);
      for (int k = 0; k < sources; k++) {
        FloatVector w = FloatVector.broadcast(Species.F32, weights[k]);
        float[] source = x[k];
        int at = from[k] + i;
        a = FloatVector.fromArray(Species.F32, source, at).fma(w, a);
        b = FloatVector.fromArray(Species.F32, source, at + V).fma(w, b);
        c = FloatVector.fromArray(Species.F32, source, at + 2 * V).fma(w, c);
        d = FloatVector.fromArray(Species.F32, source, at + 3 * V).fma(w, d);
      }
      a.intoArray(y, to + i);
      b.intoArray(y, to + i + V);
      c.intoArray(y, to + i + 2 * V);
      d.intoArray(y, to + i + 3 * V);
    }
    for (; i <= n - V; i += V) {
      FloatVector sum = FloatVector.fromArray(Species.F32, start, i);
      for (int k = 0; k < sources; k++) {
        FloatVector w = FloatVector.broadcast(Species.F32, weights[k]);
        sum = FloatVector.fromArray(Species.F32, x[k], from[k] + i).fma(w, sum);
      }
      sum.intoArray(y, to + i);
    }
    for (; i < n; i++) {
      float sum = start[i];
      for (int k = 0; k < sources; k++) {
        sum = Math.fma(x[k][from[k] + i], weights[k], sum);
      }
      y[to + i] = sum;
    }
  }

  /**
   * A position, relative to from, at or before the first element that is above the threshold or
   * NaN, less than a vector before it; n if there is no such element. A threshold of NaN finds
   * every element.
   *
   * @param begin where to start, relative to from
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
    for (; i < n; i++) {
      if (!(x[from + i] <= threshold)) {
        return i;
      }
    }
    return n;
  }
}
