package dev.foldmax.cpu;

import java.util.Arrays;
import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.LongVector;
import jdk.incubator.vector.VectorOperators;

/** The twin of {@link FloatRows} in float64. */
final class DoubleRows {
  private static final int V = Species.F64.length();

  static final int RUN = 32 * V;

  static final int SUMS = RowPass.BLOCK / 32 + 2 * V;

  private static final long PAIR = (1L << (2 * V)) - 1;

  private static final double FACTOR = Exponential.LOG2_E_DOUBLE;
  private static final double FACTOR_LOW = Exponential.LOG2_E_DOUBLE_LOW;
  private static final double LEAST = Exponential.least(FACTOR);

  private DoubleRows() {}

  /**
   * The largest element that is not NaN; -inf if there is none.
   *
   * @param lanes receives what {@link #largestOfLanes} gives
   */
  static double max(double[] x, int from, int n, double[] lanes) {
    largestOfLanes(x, from, n, lanes);
    double largest = lanes[0];
    for (int lane = 1; lane < 2 * V; lane++) {
      if (lanes[lane] > largest) {
        largest = lanes[lane];
      }
    }
    return largest;
  }

  /**
   * The largest elements that are not NaN of as many disjoint sets as two vectors have lanes; -inf
   * for a set without.
   */
  static void largestOfLanes(double[] x, int from, int n, double[] lanes) {
    DoubleVector a = DoubleVector.broadcast(Species.F64, Double.NEGATIVE_INFINITY);
    DoubleVector b = a;
    int end = from + n;
    int i = from;
    for (; i <= end - 2 * V; i += 2 * V) {
      a = larger(a, DoubleVector.fromArray(Species.F64, x, i));
      b = larger(b, DoubleVector.fromArray(Species.F64, x, i + V));
    }
    for (; i <= end - V; i += V) {
      a = larger(a, DoubleVector.fromArray(Species.F64, x, i));
    }
    a.intoArray(lanes, 0);
    b.intoArray(lanes, V);
    for (; i < end; i++) {
      if (x[i] > lanes[0]) {
        lanes[0] = x[i];
      }
    }
  }

  /** As in {@link FloatRows}. */
  static double maxOfFew(double[] x, int from, int n) {
    long max = Long.MIN_VALUE;
    for (int i = from; i < from + n; i++) {
      max = Math.max(max, order(Double.doubleToRawLongBits(x[i]))); // without a branch
    }
    return Double.longBitsToDouble(order(max));
  }

  /** As in {@link FloatRows}. */
  static double kthLargest(double[] lanes, int k) {
    DoubleVector a = DoubleVector.fromArray(Species.F64, lanes, 0);
    DoubleVector b = DoubleVector.fromArray(Species.F64, lanes, V);
    long kth = Long.MIN_VALUE;
    for (double lane : lanes) {
      int count =
          a.compare(VectorOperators.GE, lane).trueCount()
              + b.compare(VectorOperators.GE, lane).trueCount();
      // Without a branch, which would go either way at random.
      int isLess = (count - k) >> 31;
      kth =
          Math.max(
              kth, (order(Double.doubleToRawLongBits(lane)) & ~isLess) | (Long.MIN_VALUE & isLess));
    }
    return Double.longBitsToDouble(order(kth));
  }

  /** The bits of a number as an integer of the same order, and the other way round. */
  private static long order(long bits) {
    return bits ^ ((bits >> 63) & Long.MAX_VALUE);
  }

  /** As in {@link FloatRows}. */
  private static DoubleVector larger(DoubleVector a, DoubleVector x) {
    return x.blend(a, x.compare(VectorOperators.GT, a).not());
  }

  private static DoubleVector exp(DoubleVector x) {
    return Exponential.pow2(x, FACTOR, FACTOR_LOW, LEAST);
  }

  /**
   * Stores {@code exp(x - shift)} and returns the sum, with a relative error of some 1e-16.
   *
   * @param n at most {@link RowPass#BLOCK}
   * @param shift finite; no element is more than 80 above it, else the sum is NaN or wrong
   * @param rest room for a vector
   * @param sums room for {@link #SUMS}
   */
  static double exponentials(
      double[] x, int from, double[] y, int to, int n, double shift, double[] rest, double[] sums) {
    int count = 0;
    int length;
    for (int i = 0; i < n; i += length) {
      length = n - i;
      boolean isRest = length < V;
      if (isRest) {
        fillUp(x, from + i, length, rest);
      } else {
        length -= length % V;
      }
      // One call for both: inlined twice, it would be too much for C2, which then boxes vectors.
      count =
          exponentialsOfVectors(
              isRest ? rest : x,
              isRest ? 0 : from + i,
              isRest ? rest : y,
              isRest ? 0 : to + i,
              isRest ? V : length,
              shift,
              sums,
              count);
      if (isRest) {
        System.arraycopy(rest, 0, y, to + i, length);
      }
    }
    return total(sums, count);
  }

  private static int exponentialsOfVectors(
      double[] x, int from, double[] y, int to, int n, double shift, double[] sums, int count) {
    DoubleVector m = DoubleVector.broadcast(Species.F64, shift);
    int at = count;
    for (int begin = 0; begin < n; begin += RUN, at += V) {
      int end = Math.min(n, begin + RUN);
      DoubleVector sum = DoubleVector.zero(Species.F64);
      for (int i = begin; i <= end - V; i += V) {
        DoubleVector e = exp(DoubleVector.fromArray(Species.F64, x, from + i).sub(m));
        e.intoArray(y, to + i);
        sum = e.add(sum);
      }
      sum.intoArray(sums, at);
    }
    return at;
  }

  private static double total(double[] sums, int count) {
    double a = 0;
    double b = 0;
    double c = 0;
    double d = 0;
    int i = 0;
    for (; i <= count - 4; i += 4) {
      a += sums[i];
      b += sums[i + 1];
      c += sums[i + 2];
      d += sums[i + 3];
    }
    for (; i < count; i++) {
      a += sums[i];
    }
    return (a + b) + (c + d);
  }

  /** As {@link #exponentials}, if all elements are {@link NearExponential near} the shift. */
  static double nearExponentials(
      double[] x, int from, double[] y, int to, int n, double shift, double[] rest, double[] sums) {
    int whole = n - n % V;
    if (!NearExponential.isNear(nearExponentialsOfVectors(x, from, y, to, whole, shift, sums))) {
      return Double.NaN;
    }
    double sum = total(sums, Math.ceilDiv(whole, RUN) * V);
    if (whole == n) {
      return sum;
    }
    return isAnyHigh(x, from + whole, n - whole, shift)
            || isAnyLow(x, from + whole, n - whole, shift)
        ? Double.NaN
        : sum + exponentials(x, from + whole, y, to + whole, n - whole, shift, rest, sums);
  }

  /** Whether an element is too large to be {@link NearExponential near} the shift. */
  private static boolean isAnyHigh(double[] x, int from, int n, double shift) {
    for (int i = from; i < from + n; i++) {
      if (x[i] - shift > NearExponential.HIGHEST) {
        return true;
      }
    }
    return false;
  }

  /**
   * Whether an element is too small to be {@link NearExponential near} the shift. In a sum it
   * counts for nothing, but its own weight can be a normal number, and its exponential is one for
   * sure only relative to the largest. That of -inf is 0 as it should be.
   */
  private static boolean isAnyLow(double[] x, int from, int n, double shift) {
    for (int i = from; i < from + n; i++) {
      if (x[i] - shift < NearExponential.LOWEST && x[i] != Double.NEGATIVE_INFINITY) {
        return true;
      }
    }
    return false;
  }

  private static long nearExponentialsOfVectors(
      double[] x, int from, double[] y, int to, int n, double shift, double[] sums) {
    DoubleVector m = DoubleVector.broadcast(Species.F64, shift);
    LongVector far = LongVector.zero(Species.I64);
    for (int begin = 0, at = 0; begin < n; begin += RUN, at += V) {
      int end = Math.min(n, begin + RUN);
      DoubleVector sum = DoubleVector.zero(Species.F64);
      for (int i = begin; i <= end - V; i += V) {
        DoubleVector d = DoubleVector.fromArray(Species.F64, x, from + i).sub(m);
        DoubleVector rounded = NearExponential.round(d);
        DoubleVector e = NearExponential.exp(d, rounded);
        far = NearExponential.farBits(rounded).or(far);
        e.intoArray(y, to + i);
        sum = e.add(sum);
      }
      sum.intoArray(sums, at);
    }
    return far.reduceLanes(VectorOperators.OR);
  }

  /**
   * The sum of {@code exp(x - shift)}, to the accuracy of {@link NearExponential#summand}; NaN if
   * an element is not {@link NearExponential near} the shift.
   *
   * @param n at most {@link RowPass#BLOCK}
   * @param shift finite
   * @param rest room for a vector
   * @param sums room for {@link #SUMS}
   */
  static double nearSum(double[] x, int from, int n, double shift, double[] rest, double[] sums) {
    int whole = n - n % V;
    return NearExponential.isNear(nearSumOfVectors(x, from, whole, shift, sums))
        ? totalAndRest(x, from, n, shift, rest, sums)
        : Double.NaN;
  }

  private static double totalAndRest(
      double[] x, int from, int n, double shift, double[] rest, double[] sums) {
    int whole = n - n % V;
    double sum = total(sums, Math.ceilDiv(whole, RUN) * V);
    if (whole == n) {
      return sum;
    }
    return isAnyHigh(x, from + whole, n - whole, shift)
        ? Double.NaN
        : sum + exponentials(x, from + whole, rest, 0, n - whole, shift, rest, sums);
  }

  private static long nearSumOfVectors(double[] x, int from, int n, double shift, double[] sums) {
    DoubleVector m = DoubleVector.broadcast(Species.F64, shift);
    LongVector far = LongVector.zero(Species.I64);
    for (int begin = 0, at = 0; begin < n; begin += RUN, at += V) {
      int end = Math.min(n, begin + RUN);
      DoubleVector sum = DoubleVector.zero(Species.F64);
      for (int i = begin; i <= end - V; i += V) {
        DoubleVector d = DoubleVector.fromArray(Species.F64, x, from + i).sub(m);
        DoubleVector rounded = NearExponential.round(d);
        far = NearExponential.farBits(rounded).or(far);
        sum = NearExponential.exp(d, rounded).add(sum);
      }
      sum.intoArray(sums, at);
    }
    return far.reduceLanes(VectorOperators.OR);
  }

  /**
   * As {@link #nearSum}, and finds the largest of each lane of each {@link #RUN}.
   *
   * @param largest receives a vector for each run, the last of which may be shorter, of all that is
   *     in whole vectors; of no use if NaN is returned
   * @param at where the first goes
   */
  static double nearSum(
      double[] x,
      int from,
      int n,
      double shift,
      double[] rest,
      double[] sums,
      double[] largest,
      int at) {
    int whole = n - n % V;
    return NearExponential.isNear(nearSumOfVectors(x, from, whole, shift, sums, largest, at))
        ? totalAndRest(x, from, n, shift, rest, sums)
        : Double.NaN;
  }

  private static long nearSumOfVectors(
      double[] x, int from, int n, double shift, double[] sums, double[] largest, int toLargest) {
    DoubleVector m = DoubleVector.broadcast(Species.F64, shift);
    LongVector far = LongVector.zero(Species.I64);
    for (int begin = 0, at = 0; begin < n; begin += RUN, at += V) {
      int end = Math.min(n, begin + RUN);
      DoubleVector sum = DoubleVector.zero(Species.F64);
      DoubleVector max = DoubleVector.broadcast(Species.F64, Double.NEGATIVE_INFINITY);
      for (int i = begin; i <= end - V; i += V) {
        DoubleVector element = DoubleVector.fromArray(Species.F64, x, from + i);
        DoubleVector d = element.sub(m);
        DoubleVector rounded = NearExponential.round(d);
        far = NearExponential.farBits(rounded).or(far);
        max = element.blend(max, element.compare(VectorOperators.LE, max));
        sum = NearExponential.exp(d, rounded).add(sum);
      }
      sum.intoArray(sums, at);
      max.intoArray(largest, toLargest + at);
    }
    return far.reduceLanes(VectorOperators.OR);
  }

  /**
   * The largest of each lane of each {@link #RUN}, NaN where there is one.
   *
   * @param largest receives a vector for each run, as from {@link #nearSum}
   * @param toLargest where the first goes
   */
  static void largestOfRuns(double[] x, int from, int n, double[] largest, int toLargest) {
    int whole = n - n % V;
    for (int begin = 0, at = toLargest; begin < whole; begin += RUN, at += V) {
      int end = Math.min(whole, begin + RUN);
      DoubleVector max = DoubleVector.broadcast(Species.F64, Double.NEGATIVE_INFINITY);
      for (int i = begin; i <= end - V; i += V) {
        max = DoubleVector.fromArray(Species.F64, x, from + i).max(max);
      }
      max.intoArray(largest, at);
    }
  }

  /** Whether one of a vector of numbers is above the threshold or either is NaN. */
  static boolean isAnyAbove(double[] numbers, int at, double threshold) {
    return !DoubleVector.fromArray(Species.F64, numbers, at)
        .compare(VectorOperators.LE, threshold)
        .allTrue();
  }

  /** Copies less than a vector, filled up with -inf. */
  private static void fillUp(double[] x, int from, int n, double[] vector) {
    System.arraycopy(x, from, vector, 0, n);
    Arrays.fill(vector, n, V, Double.NEGATIVE_INFINITY);
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

  /** {@code y = x * factor}. */
  static void scale(double[] x, int from, double[] y, int to, int n, double factor) {
    DoubleVector c = DoubleVector.broadcast(Species.F64, factor);
    int i = 0;
    for (; i <= n - V; i += V) {
      DoubleVector.fromArray(Species.F64, x, from + i).mul(c).intoArray(y, to + i);
    }
    for (; i < n; i++) {
      y[to + i] = x[from + i] * factor;
    }
  }

  /** {@code y = min(0, (x - high) - low)}. */
  static void subtract(double[] x, int from, double[] y, int to, int n, double high, double low) {
    DoubleVector h = DoubleVector.broadcast(Species.F64, high);
    DoubleVector l = DoubleVector.broadcast(Species.F64, low);
    DoubleVector zero = DoubleVector.zero(Species.F64);
    int i = 0;
    for (; i <= n - V; i += V) {
      DoubleVector d = DoubleVector.fromArray(Species.F64, x, from + i).sub(h).sub(l);
      d.blend(zero, d.compare(VectorOperators.GT, zero)).intoArray(y, to + i);
    }
    for (; i < n; i++) {
      y[to + i] = Math.min(0, x[from + i] - high - low);
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

  /** As in {@link FloatRows}. */
  static int above(double[] x, int from, int begin, int end, double threshold, int[] positions) {
    DoubleVector t = DoubleVector.broadcast(Species.F64, threshold);
    int count = 0;
    int i = begin;
    for (; i <= end - 2 * V; i += 2 * V) {
      long low =
          DoubleVector.fromArray(Species.F64, x, from + i).compare(VectorOperators.LE, t).toLong();
      long high =
          DoubleVector.fromArray(Species.F64, x, from + i + V)
              .compare(VectorOperators.LE, t)
              .toLong();
      long found = ~(low | (high << V)) & PAIR;
      // The first without a branch, which would go either way at random.
      positions[count] = i + Long.numberOfTrailingZeros(found);
      count += (int) (-found >>> 63);
      for (long more = found & (found - 1); more != 0; more &= more - 1) {
        positions[count++] = i + Long.numberOfTrailingZeros(more);
      }
    }
    for (; i < end; i++) {
      if (!(x[from + i] <= threshold)) {
        positions[count++] = i;
      }
    }
    return count;
  }
}
