package dev.foldmax.cpu;

import java.util.Arrays;
import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.VectorOperators;

/** The twin of {@link FloatRows} in float64. */
final class DoubleRows {
  private static final int V = Species.F64.length();

  private static final int CHUNK = 32 * V;

  private static final double FACTOR = Exponential.LOG2_E_DOUBLE;
  private static final double FACTOR_LOW = Exponential.LOG2_E_DOUBLE_LOW;
  private static final double LEAST = Exponential.least(FACTOR);

  private DoubleRows() {}

  /**
   * The largest element that is not NaN; -inf if there is none.
   *
   * @param lanes receives the largest of each lane, that is, of as many disjoint sets
   */
  static double max(double[] x, int from, int n, double[] lanes) {
    DoubleVector a = DoubleVector.broadcast(Species.F64, Double.NEGATIVE_INFINITY);
    DoubleVector b = a;
    DoubleVector c = a;
    DoubleVector d = a;
    int end = from + n;
    int i = from;
    for (; i <= end - 4 * V; i += 4 * V) {
      a = larger(a, DoubleVector.fromArray(Species.F64, x, i));
      b = larger(b, DoubleVector.fromArray(Species.F64, x, i + V));
      c = larger(c, DoubleVector.fromArray(Species.F64, x, i + 2 * V));
      d = larger(d, DoubleVector.fromArray(Species.F64, x, i + 3 * V));
    }
    for (; i <= end - V; i += V) {
      a = larger(a, DoubleVector.fromArray(Species.F64, x, i));
    }
    DoubleVector largest = larger(larger(a, b), larger(c, d));
    largest.intoArray(lanes, 0);
    for (; i < end; i++) {
      if (x[i] > lanes[0]) {
        lanes[0] = x[i];
      }
    }
    return Math.max(lanes[0], largest.reduceLanes(VectorOperators.MAX));
  }

  /** The lanes of x where they are larger; unlike {@code max} not slowed by the care for NaN. */
  private static DoubleVector larger(DoubleVector a, DoubleVector x) {
    return a.blend(x, x.compare(VectorOperators.GT, a));
  }

  private static DoubleVector exp(DoubleVector x) {
    return Exponential.pow2(x, FACTOR, FACTOR_LOW, LEAST);
  }

  /**
   * Stores {@code exp(x - max)} and returns the sum, with a relative error of some 1e-16.
   *
   * @param max at least every element, finite; else the sum is NaN
   * @param lanes room for a vector
   * @param rest room for a vector
   * @param sums room for as many float64
   */
  static double exponentials(
      double[] x,
      int from,
      double[] y,
      int to,
      int n,
      double max,
      double[] lanes,
      double[] rest,
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
  private static void fillUp(double[] x, int from, int n, double[] vector) {
    System.arraycopy(x, from, vector, 0, n);
    Arrays.fill(vector, n, V, Double.NEGATIVE_INFINITY);
  }

  private static void exponentialsOfVectors(
      double[] x, int from, double[] y, int to, int n, double max, double[] lanes) {
    DoubleVector m = DoubleVector.broadcast(Species.F64, max);
    DoubleVector sum = DoubleVector.zero(Species.F64);
    for (int i = 0; i <= n - V; i += V) {
      DoubleVector e = exp(DoubleVector.fromArray(Species.F64, x, from + i).sub(m));
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
      double[] x, int from, double[] y, int to, int n, double max, double factor, double[] rest) {
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
      double[] x, int from, double[] y, int to, int n, double max, double factor) {
    DoubleVector m = DoubleVector.broadcast(Species.F64, max);
    DoubleVector c = DoubleVector.broadcast(Species.F64, factor);
    for (int i = 0; i <= n - V; i += V) {
      DoubleVector e = exp(DoubleVector.fromArray(Species.F64, x, from + i).sub(m));
      e.mul(c).intoArray(y, to + i);
    }
  }

  /** {@code y *= factor}. */
  static void scale(double[] y, int from, int n, double factor) {
    DoubleVector c = DoubleVector.broadcast(Species.F64, factor);
    int end = from + n;
    int i = from;
    for (; i <= end - V; i += V) {
      DoubleVector.fromArray(Species.F64, y, i).mul(c).intoArray(y, i);
    }
    for (; i < end; i++) {
      y[i] *= factor;
    }
  }

  /** {@code y = (x - max) - log}. */
  static void subtract(double[] x, int from, double[] y, int to, int n, double max, double log) {
    DoubleVector m = DoubleVector.broadcast(Species.F64, max);
    DoubleVector l = DoubleVector.broadcast(Species.F64, log);
    int i = 0;
    for (; i <= n - V; i += V) {
      DoubleVector.fromArray(Species.F64, x, from + i).sub(m).sub(l).intoArray(y, to + i);
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
      double[][] x,
      int[] from,
      double[] weights,
      int sources,
      double[] start,
      double[] y,
      int to,
      int n) {
    int i = 0;
    for (; i <= n - 4 * V; i += 4 * V) {
      DoubleVector a = DoubleVector.fromArray(Species.F64, start, i);
      DoubleVector b = DoubleVector.fromArray(Species.F64, start, i + V);
      DoubleVector c = DoubleVector.fromArray(Species.F64, start, i + 2 * V);
      DoubleVector d = DoubleVector.fromArray(Species.F64, start, i + 3 * V);
      for (int k = 0; k < sources; k++) {
        DoubleVector w = DoubleVector.broadcast(Species.F64, weights[k]);
        double[] source = x[k];
        int at = from[k] + i;
        a = DoubleVector.fromArray(Species.F64, source, at).fma(w, a);
        b = DoubleVector.fromArray(Species.F64, source, at + V).fma(w, b);
        c = DoubleVector.fromArray(Species.F64, source, at + 2 * V).fma(w, c);
        d = DoubleVector.fromArray(Species.F64, source, at + 3 * V).fma(w, d);
      }
      a.intoArray(y, to + i);
      b.intoArray(y, to + i + V);
      c.intoArray(y, to + i + 2 * V);
      d.intoArray(y, to + i + 3 * V);
    }
    for (; i <= n - V; i += V) {
      DoubleVector sum = DoubleVector.fromArray(Species.F64, start, i);
      for (int k = 0; k < sources; k++) {
        DoubleVector w = DoubleVector.broadcast(Species.F64, weights[k]);
        sum = DoubleVector.fromArray(Species.F64, x[k], from[k] + i).fma(w, sum);
      }
      sum.intoArray(y, to + i);
    }
    for (; i < n; i++) {
      double sum = start[i];
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
  static int findAbove(double[] x, int from, int begin, int n, double threshold) {
    DoubleVector t = DoubleVector.broadcast(Species.F64, threshold);
    int i = begin;
    for (; i <= n - V; i += V) {
      if (!DoubleVector.fromArray(Species.F64, x, from + i)
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
