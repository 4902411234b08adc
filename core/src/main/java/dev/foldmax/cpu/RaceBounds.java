package dev.foldmax.cpu;

import dev.foldmax.Sampling;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;

/**
 * Lower bounds, in float32, for the Gumbel-max trick. The largest key {@code score - ln(E)} is the
 * smallest {@code E / w} with {@code w = e^score}: the trick is a race of exponential clocks. Since
 * {@code E = -ln(1 - u)} is at least u, an element arrives no earlier than {@code u / w}, which
 * takes one exponential in place of two logarithms; only elements whose bound is not later than the
 * earliest arrival so far can win.
 */
final class RaceBounds {
  static final int V = Species.F32.length();

  /**
   * Elements whose bound is later cannot win: the row's largest element, with w = 1, arrives by
   * {@code ln(2^33)} = 22.9, whatever its random bits.
   */
  static final double LATEST = 24;

  /**
   * How far a bound up to {@link #LATEST} may lie above the arrival, relative to it, with room to
   * spare: such an element has a score above -27, whose roundings come to 1e-5.
   */
  static final double ERROR = 4e-5;

  private static final IntVector IOTA = IntVector.zero(Species.I32).addIndex(1);

  /** Scores are raised to its negative, where the smallest u is still later than the latest. */
  private static final float FAR = 80;

  private static final float LEAST = Exponential.least(Exponential.LOG2_E);

  private RaceBounds() {}

  /**
   * One of the loops that make the bounds, over n elements, a multiple of the vector's length. All
   * of them are more than C2 inlines into one method, and a vector that crosses a call costs an
   * allocation; so they are called through this interface, at one place that sees each of them, and
   * C2 compiles each by itself.
   */
  @FunctionalInterface
  private interface Step {
    /**
     * Runs the loop.
     *
     * @param first the low half of the first index
     * @param key the low half of the row's stream
     * @param secondKey what the halves of {@link Sampling#bits} are keyed with in between
     */
    void run(
        int first,
        int key,
        int secondKey,
        float[] differences,
        float inverse,
        float floor,
        int[] bits,
        float[] bounds,
        float[] lanes,
        int n);
  }

  private static final Step[] STEPS = {
    (first, key, secondKey, differences, inverse, floor, bits, x, lanes, n) ->
        makeBits(first, key, secondKey, bits, n),
    (first, key, secondKey, differences, inverse, floor, bits, x, lanes, n) ->
        makeArrivals(bits, x, n),
    (first, key, secondKey, differences, inverse, floor, bits, x, lanes, n) ->
        divideByWeights(x, differences, n, -inverse, floor, lanes)
  };

  /**
   * The bounds of consecutive indices, of as many as there are differences, rounded up to a
   * multiple of the vector's length.
   *
   * @param stream of the row
   * @param first the first index; all indices agree in their upper 32 bits
   * @param differences x - max, -inf beyond the last
   * @param inverse 1 / temperature
   * @param floor elements with differences below it get the bound +inf
   * @param bits scratch memory of the same length
   * @param bounds receives the bounds, NaN where an element is
   * @param lanes receives the least bound of each lane that is not NaN
   */
  static void bounds(
      long stream,
      long first,
      int n,
      float[] differences,
      float inverse,
      float floor,
      int[] bits,
      float[] bounds,
      float[] lanes) {
    int secondKey = (int) (stream >>> 32) + (int) (first >>> 32) * 0x9e3779b9;
    for (Step step : STEPS) {
      step.run(
          (int) first,
          (int) stream,
          secondKey,
          differences,
          inverse,
          floor,
          bits,
          bounds,
          lanes,
          Math.ceilDiv(n, V) * V);
    }
  }

  /** {@link Sampling#bits}. */
  private static void makeBits(int first, int key, int secondKey, int[] bits, int n) {
    for (int i = 0; i < n; i += V) {
      IntVector x = IOTA.add(first + i).lanewise(VectorOperators.XOR, key);
      x = mixed(x).add(secondKey);
      mixed(x).intoArray(bits, i);
    }
  }

  private static IntVector mixed(IntVector x) {
    IntVector y = xorShifted(x, 16).mul(0x21f0aaad);
    y = xorShifted(y, 15).mul(0xd35a2d97);
    return xorShifted(y, 15);
  }

  private static IntVector xorShifted(IntVector x, int shift) {
    return x.lanewise(VectorOperators.XOR, x.lanewise(VectorOperators.LSHR, shift));
  }

  /**
   * {@code u + u^2 / 2}, with u from half the bits, which are a signed number, rounded down: {@code
   * (bits + 0.5) / 2} or less. C2 turns the loop into vectors.
   */
  private static void makeArrivals(int[] bits, float[] x, int n) {
    for (int i = 0; i < n; i++) {
      float u = ((bits[i] >>> 1) + 0.25f) * 0x1p-31f;
      x[i] = u * (1 + 0.5f * u);
    }
  }

  private static void divideByWeights(
      float[] x, float[] differences, int n, float minusInverse, float floor, float[] lanes) {
    FloatVector least = FloatVector.broadcast(Species.F32, Float.POSITIVE_INFINITY);
    for (int i = 0; i < n; i += V) {
      FloatVector far = FloatVector.broadcast(Species.F32, FAR);
      FloatVector d = FloatVector.fromArray(Species.F32, differences, i);
      FloatVector score = d.mul(minusInverse);
      score = score.blend(far, score.compare(VectorOperators.GT, far));
      FloatVector inverse =
          Exponential.pow2(score, Exponential.LOG2_E, Exponential.LOG2_E_LOW, LEAST);
      FloatVector bound = FloatVector.fromArray(Species.F32, x, i).mul(inverse);
      bound = bound.blend(Float.POSITIVE_INFINITY, d.compare(VectorOperators.LT, floor));
      bound.intoArray(x, i);
      least = least.blend(bound, bound.compare(VectorOperators.LT, least));
    }
    least.intoArray(lanes, 0);
  }

  /**
   * The first vector of bounds with one that is not above the threshold, or NaN; a threshold of NaN
   * finds every vector.
   *
   * @param begin where to start, a multiple of the vector's length
   * @return its position, or at least n if there is none
   */
  static int findNotAbove(float[] bounds, int begin, int n, float threshold) {
    FloatVector t = FloatVector.broadcast(Species.F32, threshold);
    int i = begin;
    for (; i < n; i += V) {
      if (!FloatVector.fromArray(Species.F32, bounds, i).compare(VectorOperators.GT, t).allTrue()) {
        return i;
      }
    }
    return i;
  }
}
