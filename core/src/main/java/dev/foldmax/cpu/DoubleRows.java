package dev.foldmax.cpu;

import java.util.Arrays;
import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.VectorMask;
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
    for (; i < end; i += V) {
      a = larger(a, partial(x, i, end));
    }
    DoubleVector largest = larger(larger(a, b), larger(c, d));
    largest.intoArray(lanes, 0);
    return largest.reduceLanes(VectorOperators.MAX);
  }

  /** The lanes of x where they are larger; unlike {@code max} not slowed by the care for NaN. */
  private static DoubleVector larger(DoubleVector a, DoubleVector x) {
    return a.blend(x, x.compare(VectorOperators.GT, a));
  }

  /** The elements from i to below end, at most a vector, filled up with -inf. */
  private static DoubleVector partial(double[] x, int i, int end) {
    VectorMask<Double> inside = Species.F64.indexInRange(i, end);
    return DoubleVector.broadcast(Species.F64, Double.NEGATIVE_INFINITY)
        .blend(DoubleVector.fromArray(Species.F64, x, i, inside), inside);
  }

  private static DoubleVector exp(DoubleVector x) {
    return Exponential.pow2(x, FACTOR, FACTOR_LOW, LEAST);
  }

  /**
   * Stores {@code exp(x - max)} and returns the sum, with a relative error of some 1e-16.
   *
   * @param max at least every element, finite; else the sum is NaN
   * @param lanes room for a vector
   * @param sums room for as many float64
   */
  static double exponentials(
      double[] x, int from, double[] y, int to, int n, double max, double[] lanes, double[] sums) {
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
      double[] x, int from, double[] y, int to, int n, double max, double[] lanes) {
    DoubleVector m = DoubleVector.broadcast(Species.F64, max);
    DoubleVector sum = DoubleVector.zero(Species.F64);
    int i = 0;
    for (; i <= n - V; i += V) {
      DoubleVector e = exp(DoubleVector.fromArray(Species.F64, x, from + i).sub(m));
      e.intoArray(y, to + i);
      sum = sum.add(e);
    }
    if (i < n) {
      DoubleVector e = exp(partial(x, from + i, from + n).sub(m));
      e.intoArray(y, to + i, Species.F64.indexInRange(i, n));
      sum = sum.add(e);
    }
    sum.intoArray(lanes, 0);
  }

  /** {@code y = exp(x - max) * factor}. */
  static void scaledExponentials(
      double[] x, int from, double[] y, int to, int n, double max, double factor) {
    DoubleVector m = DoubleVector.broadcast(Species.F64, max);
    DoubleVector c = DoubleVector.broadcast(Species.F64, factor);
    int i = 0;
    for (; i <= n - V; i += V) {
      DoubleVector e = exp(DoubleVector.fromArray(Species.F64, x, from + i).sub(m));
      e.mul(c).intoArray(y, to + i);
    }
    if (i < n) {
      DoubleVector e = exp(partial(x, from + i, from + n).sub(m));
      e.mul(c).intoArray(y, to + i, Species.F64.indexInRange(i, n));
    }
  }

  /** {@code y *= factor}. */
  static void scale(double[] y, int from, int n, double factor) {
    DoubleVector c = DoubleVector.broadcast(Species.F64, factor);
    int end = from + n;
    int i = from;
    for (; i <= end - 2 * V; i += 2 * V) {
      DoubleVector.fromArray(Species.F64, y, i).mul(c).intoArray(y, i);
      DoubleVector.fromArray(Species.F64, y, i + V).mul(c).intoArray(y, i + V);
    }
    for (; i < end; i += V) {
      partial(y, i, end).mul(c).intoArray(y, i, Species.F64.indexInRange(i, end));
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
    for (; i < n; i += V) {
      DoubleVector d = partial(x, from + i, from + n).sub(m).sub(l);
      d.intoArray(y, to + i, Species.F64.indexInRange(i, n));
    }
  }

  /** {@code y += weight * x}. */
  static void accumulate(double[] x, int from, double[] y, int n, double weight) {
    DoubleVector w = DoubleVector.broadcast(Species.F64, weight);
    for (int i = 0; i < n; i += V) {
      VectorMask<Double> inside = Species.F64.indexInRange(i, n);
      DoubleVector.fromArray(Species.F64, x, from + i, inside)
          .fma(w, DoubleVector.fromArray(Species.F64, y, i, inside))
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
    if (i < n && !partial(x, from + i, from + n).compare(VectorOperators.LE, t).allTrue()) {
      return i;
    }
    return n;
  }
}
