package dev.foldmax.cpu;

import dev.foldmax.Sampling;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;

/**
 * The keys of the Gumbel-max trick in float32: {@code score - ln(E)}, with {@code E = -ln(1 - u)}
 * from the random bits of {@link Sampling#bits}. For keys within 26 of the row's largest element
 * they are within {@link #ERROR} of those in float64; no other can win, since {@code -ln(E)} lies
 * between -3.2 and 22.9.
 */
final class GumbelKeys {
  static final int V = Species.F32.length();

  /**
   * A bound of the difference from float64, with room to spare: roundings of numbers up to 26, two
   * units in the last place each, come to 1e-5.
   */
  static final double ERROR = 4e-5;

  private static final IntVector IOTA = IntVector.zero(Species.I32).addIndex(1);

  /** sqrt(1/2): the significand of a logarithm's argument is taken from here to sqrt(2). */
  private static final float SQRT_HALF = 0x1.6a09e6p-1f;

  /** Adds to the exponent as an integer; subtracted as a float, it leaves the exponent's value. */
  private static final float MAGIC = 0x1.8p23f;

  private static final float LN_2_HIGH = 0x1.62ep-1f;
  private static final float LN_2_LOW = 0x1.0bfbe8p-15f;

  private GumbelKeys() {}

  /**
   * One of the loops that make the noise, over n elements, a multiple of the vector's length. All
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
    void run(int first, int key, int secondKey, int[] bits, float[] x, int n);
  }

  private static final Step[] STEPS = {
    (first, key, secondKey, bits, x, n) -> makeBits(first, key, secondKey, bits, n),
    (first, key, secondKey, bits, x, n) -> makeUniforms(bits, x, n),
    (first, key, secondKey, bits, x, n) -> takeExponentials(x, n),
    (first, key, secondKey, bits, x, n) -> takeLogarithms(x, n)
  };

  /**
   * The noise {@code ln(E)} of consecutive indices.
   *
   * @param stream of the row
   * @param first the first index; all indices agree in their upper 32 bits
   * @param bits room for n elements, rounded up to a multiple of the vector's length
   * @param into receives as many
   */
  static void noise(long stream, long first, int n, int[] bits, float[] into) {
    int secondKey = (int) (stream >>> 32) + (int) (first >>> 32) * 0x9e3779b9;
    for (Step step : STEPS) {
      step.run((int) first, (int) stream, secondKey, bits, into, Math.ceilDiv(n, V) * V);
    }
  }

  /** {@link Sampling#bits}. */
  private static void makeBits(int first, int key, int secondKey, int[] bits, int n) {
    for (int i = 0; i <= n - V; i += V) {
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
   * The uniform numbers u where they are below 1/2, else u - 1, so that the smaller of u and 1 - u
   * is known to full relative accuracy. C2 turns the loop into vectors.
   */
  private static void makeUniforms(int[] bits, float[] x, int n) {
    for (int i = 0; i < n; i++) {
      int sign = bits[i] >> 31;
      x[i] = ((bits[i] ^ sign) + 0.5f) * (0x1p-32f * (sign | 1));
    }
  }

  private static void takeExponentials(float[] x, int n) {
    for (int i = 0; i <= n - V; i += V) {
      exponential(FloatVector.fromArray(Species.F32, x, i)).intoArray(x, i);
    }
  }

  private static void takeLogarithms(float[] x, int n) {
    for (int i = 0; i <= n - V; i += V) {
      logarithm(FloatVector.fromArray(Species.F32, x, i)).intoArray(x, i);
    }
  }

  /**
   * The first vector of keys {@code difference * inverse - noise} with one above the threshold or
   * NaN; a threshold of NaN finds every vector.
   *
   * @param differences x - max, -inf beyond the last up to a multiple of the vector's length
   * @param begin where to start, a multiple of the vector's length
   * @param inverse 1 / temperature
   * @param floor elements with differences below it have no key
   * @param keys receives the vector's keys
   * @return its position, or at least n if there is none
   */
  static int findAbove(
      float[] differences,
      float[] noise,
      int begin,
      int n,
      float inverse,
      float floor,
      float threshold,
      float[] keys) {
    FloatVector t = FloatVector.broadcast(Species.F32, threshold);
    int i = begin;
    for (; i < n; i += V) {
      FloatVector d = FloatVector.fromArray(Species.F32, differences, i);
      FloatVector key = d.mul(inverse).sub(FloatVector.fromArray(Species.F32, noise, i));
      key = key.blend(Float.NEGATIVE_INFINITY, d.compare(VectorOperators.LT, floor));
      if (!key.compare(VectorOperators.LE, t).allTrue()) {
        key.intoArray(keys, 0);
        return i;
      }
    }
    return i;
  }

  /**
   * {@code -ln(1 - u)} of u or u - 1. Near u = 0 the logarithm is taken of 1 + f with f = -u
   * itself, not rounded by the addition.
   */
  private static FloatVector exponential(FloatVector u) {
    FloatVector zero = FloatVector.zero(Species.F32);
    FloatVector one = zero.blend(constant(1), u.compare(VectorOperators.GT, zero));
    FloatVector rest = one.sub(u);
    IntVector exponent = exponentOf(rest);
    FloatVector f = fractionOf(rest, exponent);
    f = f.blend(u.neg(), rest.compare(VectorOperators.GE, constant(SQRT_HALF)));
    return logarithm(exponent, f).neg();
  }

  private static FloatVector logarithm(FloatVector x) {
    IntVector exponent = exponentOf(x);
    return logarithm(exponent, fractionOf(x, exponent));
  }

  private static IntVector exponentOf(FloatVector x) {
    return x.reinterpretAsInts()
        .sub(Float.floatToRawIntBits(SQRT_HALF))
        .lanewise(VectorOperators.ASHR, 23);
  }

  private static FloatVector fractionOf(FloatVector x, IntVector exponent) {
    IntVector significand = x.reinterpretAsInts().sub(exponent.lanewise(VectorOperators.LSHL, 23));
    return significand.reinterpretAsFloats().sub(constant(1));
  }

  /**
   * {@code ln(2^exponent * (1 + f))} for f from sqrt(1/2) - 1 to sqrt(2) - 1. The polynomial is
   * fitted for least relative error of the logarithm, 8e-10.
   */
  private static FloatVector logarithm(IntVector exponent, FloatVector f) {
    FloatVector p = f.fma(constant(0x1.147338p-4f), constant(-0x1.de01dap-4f));
    p = p.fma(f, constant(0x1.e6c00ap-4f));
    p = p.fma(f, constant(-0x1.fc28cap-4f));
    p = p.fma(f, constant(0x1.233ba2p-3f));
    p = p.fma(f, constant(-0x1.555c44p-3f));
    p = p.fma(f, constant(0x1.99a476p-3f));
    p = p.fma(f, constant(-0x1.000006p-2f));
    p = p.fma(f, constant(0x1.555548p-2f));
    FloatVector e =
        exponent.add(Float.floatToRawIntBits(MAGIC)).reinterpretAsFloats().sub(constant(MAGIC));
    FloatVector square = f.mul(f);
    FloatVector tail = p.mul(f).fma(square, square.mul(constant(-0.5f)));
    tail = e.fma(constant(LN_2_LOW), tail);
    return e.fma(constant(LN_2_HIGH), f.add(tail));
  }

  private static FloatVector constant(float value) {
    return FloatVector.broadcast(Species.F32, value);
  }
}
