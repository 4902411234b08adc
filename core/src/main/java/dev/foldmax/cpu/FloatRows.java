package dev.foldmax.cpu;

import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;

/**
 * The loops of the row kernels over a run of float32 in an array. Exponentials of a run's last,
 * partial vector are those of a full one, filled up with -inf, so a result depends on the elements
 * and their number alone.
 */
final class FloatRows {
  private static final int V = Species.F32.length();

  /**
   * How many elements are added up in float32 before their sum goes on in float64. Each lane takes
   * its 32 in turns into four sums, s0 to s3: rounding is by the same amount each time if the
   * elements are equal, and 32 in a row came to 4 ulp; the four sums of eight, to 1. C2 unrolls the
   * turns into no moves.
   */
  static final int RUN = 32 * V;

  /** How many sums of runs, of a lane each, a block comes to. */
  static final int SUMS = RowPass.BLOCK / 32 + 2 * V;

  /** A bit for each lane of two vectors. */
  private static final long PAIR = (1L << (2 * V)) - 1;

  private static final float FACTOR = Exponential.LOG2_E;
  private static final float FACTOR_LOW = Exponential.LOG2_E_LOW;
  private static final float LEAST = Exponential.least(FACTOR);

  private FloatRows() {}

  /**
   * The largest element that is not NaN; -inf if there is none.
   *
   * @param lanes receives what {@link #largestOfLanes} gives
   */
  static float max(float[] x, int from, int n, float[] lanes) {
    largestOfLanes(x, from, n, lanes);
    float largest = lanes[0];
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
  static void largestOfLanes(float[] x, int from, int n, float[] lanes) {
    FloatVector a = FloatVector.broadcast(Species.F32, Float.NEGATIVE_INFINITY);
    FloatVector b = a;
    int end = from + n;
    int i = from;
    for (; i <= end - 2 * V; i += 2 * V) {
      a = larger(a, FloatVector.fromArray(Species.F32, x, i));
      b = larger(b, FloatVector.fromArray(Species.F32, x, i + V));
    }
    for (; i <= end - V; i += V) {
      a = larger(a, FloatVector.fromArray(Species.F32, x, i));
    }
    a.intoArray(lanes, 0);
    b.intoArray(lanes, V);
    for (; i < end; i++) {
      if (x[i] > lanes[0]) {
        lanes[0] = x[i];
      }
    }
  }

  /**
   * The largest of some elements; NaN or the largest of the others if one of them is NaN.
   *
   * @param n at least 1
   */
  static float maxOfFew(float[] x, int from, int n) {
    int max = Integer.MIN_VALUE;
    for (int i = from; i < from + n; i++) {
      max = Math.max(max, order(Float.floatToRawIntBits(x[i]))); // without a branch
    }
    return Float.intBitsToFloat(order(max));
  }

  /**
   * The k-th largest of {@link #largestOfLanes these lanes}.
   *
   * @param k at least 1 and at most the number of lanes
   */
  static float kthLargest(float[] lanes, int k) {
    FloatVector a = FloatVector.fromArray(Species.F32, lanes, 0);
    FloatVector b = FloatVector.fromArray(Species.F32, lanes, V);
    int kth = Integer.MIN_VALUE;
    for (float lane : lanes) {
      int count =
          a.compare(VectorOperators.GE, lane).trueCount()
              + b.compare(VectorOperators.GE, lane).trueCount();
      // Without a branch, which would go either way at random.
      int isLess = (count - k) >> 31;
      kth =
          Math.max(
              kth, (order(Float.floatToRawIntBits(lane)) & ~isLess) | (Integer.MIN_VALUE & isLess));
    }
    return Float.intBitsToFloat(order(kth));
  }

  /** The bits of a number as an integer of the same order, and the other way round. */
  private static int order(int bits) {
    return bits ^ ((bits >> 31) & Integer.MAX_VALUE);
  }

  /**
   * The lanes of x where they are larger; unlike {@code max} not slowed by the care for NaN. It is
   * x's methods that are called: see {@link FloatStream} on vectors that a loop carries along.
   */
  private static FloatVector larger(FloatVector a, FloatVector x) {
    return x.blend(a, x.compare(VectorOperators.GT, a).not());
  }

  private static FloatVector exp(FloatVector x) {
    return Exponential.pow2(x, FACTOR, FACTOR_LOW, LEAST);
  }

  /**
   * Stores {@code exp(x - shift)} and returns the sum, with a relative error of some 1e-7: runs are
   * added up in float32 lanes, and the lanes of all runs in float64.
   *
   * @param n at most {@link RowPass#BLOCK}
   * @param shift finite; no element is more than 80 above it, else the sum is NaN or wrong
   * @param rest room for a vector
   * @param sums room for {@link #SUMS}
   */
  static double exponentials(
      float[] x, int from, float[] y, int to, int n, float shift, float[] rest, float[] sums) {
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
      float[] x, int from, float[] y, int to, int n, float shift, float[] sums, int count) {
    FloatVector zero = FloatVector.zero(Species.F32);
    FloatVector m = FloatVector.broadcast(Species.F32, shift);
    int at = count;
    for (int begin = 0; begin < n; begin += RUN, at += V) {
      int end = Math.min(n, begin + RUN);
      FloatVector s0 = zero;
      FloatVector s1 = zero;
      FloatVector s2 = zero;
      FloatVector s3 = zero;
      for (int i = begin; i <= end - V; i += V) {
        FloatVector e = exp(FloatVector.fromArray(Species.F32, x, from + i).sub(m));
        e.intoArray(y, to + i);
        FloatVector s4 = e.add(s0);
        s0 = s1;
        s1 = s2;
        s2 = s3;
        s3 = s4;
      }
      zero.add(s0).add(s1).add(zero.add(s2).add(s3)).intoArray(sums, at);
    }
    return at;
  }

  private static double total(float[] sums, int count) {
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
      float[] x, int from, float[] y, int to, int n, float shift, float[] rest, float[] sums) {
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
  private static boolean isAnyHigh(float[] x, int from, int n, float shift) {
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
  private static boolean isAnyLow(float[] x, int from, int n, float shift) {
    for (int i = from; i < from + n; i++) {
      if (x[i] - shift < NearExponential.LOWEST && x[i] != Float.NEGATIVE_INFINITY) {
        return true;
      }
    }
    return false;
  }

  private static int nearExponentialsOfVectors(
      float[] x, int from, float[] y, int to, int n, float shift, float[] sums) {
    FloatVector zero = FloatVector.zero(Species.F32);
    FloatVector m = FloatVector.broadcast(Species.F32, shift);
    IntVector far = IntVector.zero(Species.I32);
    for (int begin = 0, at = 0; begin < n; begin += RUN, at += V) {
      int end = Math.min(n, begin + RUN);
      FloatVector s0 = zero;
      FloatVector s1 = zero;
      FloatVector s2 = zero;
      FloatVector s3 = zero;
      for (int i = begin; i <= end - V; i += V) {
        FloatVector d = FloatVector.fromArray(Species.F32, x, from + i).sub(m);
        FloatVector rounded = NearExponential.round(d);
        FloatVector e = NearExponential.exp(d, rounded);
        far = NearExponential.farBits(rounded).or(far);
        e.intoArray(y, to + i);
        FloatVector s4 = e.add(s0);
        s0 = s1;
        s1 = s2;
        s2 = s3;
        s3 = s4;
      }
      zero.add(s0).add(s1).add(zero.add(s2).add(s3)).intoArray(sums, at);
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
  static double nearSum(float[] x, int from, int n, float shift, float[] rest, float[] sums) {
    int whole = n - n % V;
    return NearExponential.isNear(nearSumOfVectors(x, from, whole, shift, sums))
        ? totalAndRest(x, from, n, shift, rest, sums)
        : Double.NaN;
  }

  private static double totalAndRest(
      float[] x, int from, int n, float shift, float[] rest, float[] sums) {
    int whole = n - n % V;
    double sum = total(sums, Math.ceilDiv(whole, RUN) * V);
    if (whole == n) {
      return sum;
    }
    return isAnyHigh(x, from + whole, n - whole, shift)
        ? Double.NaN
        : sum + exponentials(x, from + whole, rest, 0, n - whole, shift, rest, sums);
  }

  private static int nearSumOfVectors(float[] x, int from, int n, float shift, float[] sums) {
    FloatVector zero = FloatVector.zero(Species.F32);
    FloatVector m = FloatVector.broadcast(Species.F32, shift);
    IntVector far = IntVector.zero(Species.I32);
    for (int begin = 0, at = 0; begin < n; begin += RUN, at += V) {
      int end = Math.min(n, begin + RUN);
      FloatVector s0 = zero;
      FloatVector s1 = zero;
      FloatVector s2 = zero;
      FloatVector s3 = zero;
      for (int i = begin; i <= end - V; i += V) {
        FloatVector d = FloatVector.fromArray(Species.F32, x, from + i).sub(m);
        FloatVector rounded = NearExponential.round(d);
        far = NearExponential.farBits(rounded).or(far);
        FloatVector s4 = NearExponential.summand(d, rounded).add(s0);
        s0 = s1;
        s1 = s2;
        s2 = s3;
        s3 = s4;
      }
      zero.add(s0).add(s1).add(zero.add(s2).add(s3)).intoArray(sums, at);
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
      float[] x,
      int from,
      int n,
      float shift,
      float[] rest,
      float[] sums,
      float[] largest,
      int at) {
    int whole = n - n % V;
    return NearExponential.isNear(nearSumOfVectors(x, from, whole, shift, sums, largest, at))
        ? totalAndRest(x, from, n, shift, rest, sums)
        : Double.NaN;
  }

  private static int nearSumOfVectors(
      float[] x, int from, int n, float shift, float[] sums, float[] largest, int toLargest) {
    FloatVector zero = FloatVector.zero(Species.F32);
    FloatVector m = FloatVector.broadcast(Species.F32, shift);
    IntVector far = IntVector.zero(Species.I32);
    for (int begin = 0, at = 0; begin < n; begin += RUN, at += V) {
      int end = Math.min(n, begin + RUN);
      FloatVector s0 = zero;
      FloatVector s1 = zero;
      FloatVector s2 = zero;
      FloatVector s3 = zero;
      FloatVector max = FloatVector.broadcast(Species.F32, Float.NEGATIVE_INFINITY);
      for (int i = begin; i <= end - V; i += V) {
        FloatVector element = FloatVector.fromArray(Species.F32, x, from + i);
        FloatVector d = element.sub(m);
        FloatVector rounded = NearExponential.round(d);
        far = NearExponential.farBits(rounded).or(far);
        max = element.blend(max, element.compare(VectorOperators.LE, max));
        FloatVector s4 = NearExponential.summand(d, rounded).add(s0);
        s0 = s1;
        s1 = s2;
        s2 = s3;
        s3 = s4;
      }
      zero.add(s0).add(s1).add(zero.add(s2).add(s3)).intoArray(sums, at);
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
  static void largestOfRuns(float[] x, int from, int n, float[] largest, int toLargest) {
    int whole = n - n % V;
    for (int begin = 0, at = toLargest; begin < whole; begin += RUN, at += V) {
      int end = Math.min(whole, begin + RUN);
      FloatVector max = FloatVector.broadcast(Species.F32, Float.NEGATIVE_INFINITY);
      for (int i = begin; i <= end - V; i += V) {
        max = FloatVector.fromArray(Species.F32, x, from + i).max(max);
      }
      max.intoArray(largest, at);
    }
  }

  /** Whether one of a vector of numbers is above the threshold or either is NaN. */
  static boolean isAnyAbove(float[] numbers, int at, float threshold) {
    return !FloatVector.fromArray(Species.F32, numbers, at)
        .compare(VectorOperators.LE, threshold)
        .allTrue();
  }

  /** Copies less than a vector, filled up with -inf. */
  private static void fillUp(float[] x, int from, int n, float[] vector) {
    System.arraycopy(x, from, vector, 0, n);
    Arrays.fill(vector, n, V, Float.NEGATIVE_INFINITY);
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

  /** {@code y = x * factor}. */
  static void scale(float[] x, int from, float[] y, int to, int n, float factor) {
    FloatVector c = FloatVector.broadcast(Species.F32, factor);
    int i = 0;
    for (; i <= n - V; i += V) {
      FloatVector.fromArray(Species.F32, x, from + i).mul(c).intoArray(y, to + i);
    }
    for (; i < n; i++) {
      y[to + i] = x[from + i] * factor;
    }
  }

  /** {@code y = min(0, (x - high) - low)}. */
  static void subtract(float[] x, int from, float[] y, int to, int n, float high, float low) {
    FloatVector h = FloatVector.broadcast(Species.F32, high);
    FloatVector l = FloatVector.broadcast(Species.F32, low);
    FloatVector zero = FloatVector.zero(Species.F32);
    int i = 0;
    for (; i <= n - V; i += V) {
      FloatVector d = FloatVector.fromArray(Species.F32, x, from + i).sub(h).sub(l);
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

  /**
   * Finds the elements that are above the threshold, or NaN, or all if that is NaN.
   *
   * @param begin where to start, relative to from
   * @param end where to end, relative to from
   * @param positions receives their positions, relative to from, in order; it has room for all
   * @return their number
   */
  static int above(float[] x, int from, int begin, int end, float threshold, int[] positions) {
    FloatVector t = FloatVector.broadcast(Species.F32, threshold);
    int count = 0;
    int i = begin;
    for (; i <= end - 2 * V; i += 2 * V) {
      long low =
          FloatVector.fromArray(Species.F32, x, from + i).compare(VectorOperators.LE, t).toLong();
      long high =
          FloatVector.fromArray(Species.F32, x, from + i + V)
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
