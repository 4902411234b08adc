package dev.foldmax.cpu;

import dev.foldmax.Sampling;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorMask;
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
  private static final int SQRT_HALF = Float.floatToRawIntBits(0x1.6a09e6p-1f);

  private static final float LN_2_HIGH = 0x1.62ep-1f;
  private static final float LN_2_LOW = 0x1.0bfbe8p-15f;

  private GumbelKeys() {}

  /**
   * The first vector of keys with one above the threshold or NaN; a threshold of NaN finds every
   * vector.
   *
   * @param differences x - max, -inf beyond the last up to a multiple of the vector's length
   * @param begin where to start, a multiple of the vector's length
   * @param inverse 1 / temperature
   * @param floor elements with differences below it have no key
   * @param stream of the row
   * @param first the index in the row of the first difference; the indices of all of them agree in
   *     their upper 32 bits
   * @param keys receives the vector's keys
   * @return its position, or at least n if there is none
   */
  static int findAbove(
      float[] differences,
      int begin,
      int n,
      float inverse,
      float floor,
      long stream,
      long first,
      float threshold,
      float[] keys) {
    FloatVector t = FloatVector.broadcast(Species.F32, threshold);
    int i = begin;
    for (; i < n; i += V) {
      FloatVector d = FloatVector.fromArray(Species.F32, differences, i);
      FloatVector noise = logarithm(exponential(bits(stream, first, i)));
      FloatVector key = d.mul(inverse).sub(noise);
      key = key.blend(Float.NEGATIVE_INFINITY, d.compare(VectorOperators.LT, floor));
      if (!key.compare(VectorOperators.LE, t).allTrue()) {
        key.intoArray(keys, 0);
        return i;
      }
    }
    return i;
  }

  /** {@link Sampling#bits} of the indices first + i and up. */
  private static IntVector bits(long stream, long first, int i) {
    IntVector x = IOTA.add((int) first + i).lanewise(VectorOperators.XOR, (int) stream);
    x = mixed(x).add((int) (stream >>> 32) + (int) (first >>> 32) * 0x9e3779b9);
    return mixed(x);
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
   * {@code -ln(1 - u)} with {@code u = (bits + 0.5) / 2^32}. The smaller of u and 1 - u is known to
   * full relative accuracy; near u = 0 the logarithm is taken of 1 + f with f = -u itself.
   */
  private static FloatVector exponential(IntVector bits) {
    IntVector half = bits.lanewise(VectorOperators.XOR, bits.lanewise(VectorOperators.ASHR, 31));
    FloatVector z = ((FloatVector) half.convert(VectorOperators.I2F, 0)).add(0.5f).mul(0x1p-32f);
    VectorMask<Float> isLower = bits.compare(VectorOperators.GE, 0).cast(Species.F32);
    FloatVector rest = z.blend(z.neg().add(1f), isLower);
    IntVector exponent = exponentOf(rest);
    FloatVector f = fractionOf(rest, exponent);
    f = f.blend(z.neg(), exponent.compare(VectorOperators.EQ, 0).cast(Species.F32));
    return logarithm(exponent, f).neg();
  }

  private static FloatVector logarithm(FloatVector x) {
    IntVector exponent = exponentOf(x);
    return logarithm(exponent, fractionOf(x, exponent));
  }

  private static IntVector exponentOf(FloatVector x) {
    return x.reinterpretAsInts().sub(SQRT_HALF).lanewise(VectorOperators.ASHR, 23);
  }

  private static FloatVector fractionOf(FloatVector x, IntVector exponent) {
    IntVector significand = x.reinterpretAsInts().sub(exponent.lanewise(VectorOperators.LSHL, 23));
    return significand.reinterpretAsFloats().sub(1f);
  }

  /**
   * {@code ln(2^exponent * (1 + f))} for f from sqrt(1/2) - 1 to sqrt(2) - 1. The polynomial is
   * fitted for least relative error of the logarithm, 8e-10.
   */
  private static FloatVector logarithm(IntVector exponent, FloatVector f) {
    FloatVector p = f.mul(0x1.147338p-4f).add(-0x1.de01dap-4f);
    p = p.fma(f, constant(0x1.e6c00ap-4f));
    p = p.fma(f, constant(-0x1.fc28cap-4f));
    p = p.fma(f, constant(0x1.233ba2p-3f));
    p = p.fma(f, constant(-0x1.555c44p-3f));
    p = p.fma(f, constant(0x1.99a476p-3f));
    p = p.fma(f, constant(-0x1.000006p-2f));
    p = p.fma(f, constant(0x1.555548p-2f));
    FloatVector e = (FloatVector) exponent.convert(VectorOperators.I2F, 0);
    FloatVector square = f.mul(f);
    FloatVector tail = p.mul(f).fma(square, square.mul(-0.5f));
    tail = e.fma(constant(LN_2_LOW), tail);
    return e.fma(constant(LN_2_HIGH), f.add(tail));
  }

  private static FloatVector constant(float value) {
    return FloatVector.broadcast(Species.F32, value);
  }
}
