package dev.foldmax.cpu;

import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.LongVector;
import jdk.incubator.vector.VectorOperators;

/**
 * The exponential of the kernels: {@code 2^(x * factor)}, with the scale of attention or log2(e)
 * folded into the factor.
 *
 * <p>The product is never rounded: {@code n = round(x * factor)} comes out of one multiply-add with
 * a magic constant, and {@code f = x * factor - n}, in [-0.5, 0.5], out of two more, the second
 * with the part of the factor that its first float misses. {@code 2^f} is a polynomial with
 * relative error 3e-9 (float32, degree 6) or 4e-18 (float64, degree 11), fitted for least relative
 * error with the constant term fixed at 1, so that {@code x = 0} gives exactly 1; each coefficient
 * was rounded before the next ones were fitted, which took the largest error from 1.15 to 1.00 ulp
 * of e^x. {@code 2^n} is made by shifting the bits of the sum with the magic constant. A NaN passes
 * through every step as a NaN.
 *
 * <p>Where {@code x * factor < -126.5} (float32) the result is 0, also for -inf: x is first raised
 * to {@code least}, for which the made-up {@code 2^n} is zero.
 */
final class Exponential {
  // Constants are broadcast by the Vector API's own methods, not through a shorter helper: past its
  // limit of nodes C2 still inlines what the JDK forces it to inline, but no method of ours, and a
  // helper that is called instead allocates a vector each time.

  /** log2(e), for exponentials of natural numbers, in two floats and in two doubles. */
  static final float LOG2_E = 0x1.715476p0f;

  static final float LOG2_E_LOW = 0x1.4ae0cp-26f;
  static final double LOG2_E_DOUBLE = 0x1.71547652b82fep0;
  static final double LOG2_E_DOUBLE_LOW = 0x1.777d0ffda0d24p-56;

  /** The exponent bias is part of the constant: its bits, shifted, are those of 2^n. */
  private static final float MAGIC = 0x1.8p23f + 127;

  private static final double MAGIC_DOUBLE = 0x1.8p52 + 1023;

  private static final double LEAST_DOUBLE = least(LOG2_E_DOUBLE);

  private Exponential() {}

  /** What is left of a factor after its first float. */
  static float low(double factor) {
    return (float) (factor - (float) factor);
  }

  /** The {@code least} of {@link #pow2(FloatVector, float, float, float)}. */
  static float least(float factor) {
    return -127 / factor;
  }

  /** The {@code least} of {@link #pow2(DoubleVector, double, double, double)}. */
  static double least(double factor) {
    return -1023 / factor;
  }

  /**
   * {@code 2^(x * (factor + factorLow))} within 1 ulp.
   *
   * @param x at most {@code 127 / factor}, NaN or -inf
   * @param factor positive and normal
   */
  static FloatVector pow2(FloatVector x, float factor, float factorLow, float least) {
    FloatVector floor = FloatVector.broadcast(Species.F32, least);
    FloatVector magic = FloatVector.broadcast(Species.F32, MAGIC);
    FloatVector c = FloatVector.broadcast(Species.F32, factor);
    FloatVector y = x.blend(floor, x.compare(VectorOperators.LT, floor));
    FloatVector t = y.fma(c, magic);
    FloatVector f = y.fma(c, magic.sub(t));
    f = y.fma(FloatVector.broadcast(Species.F32, factorLow), f);
    FloatVector p =
        f.fma(
            FloatVector.broadcast(Species.F32, 0x1.417ab8p-13f),
            FloatVector.broadcast(Species.F32, 0x1.5f094ap-10f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 0x1.3b2dd2p-7f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 0x1.c6af7ap-5f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 0x1.ebfbdcp-3f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 0x1.62e43p-1f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 1f));
    return p.mul(t.reinterpretAsInts().lanewise(VectorOperators.LSHL, 23).reinterpretAsFloats());
  }

  /** One lane of {@link #pow2(FloatVector, float, float, float)}, with the same bits. */
  static float pow2(float x, float factor, float factorLow, float least) {
    float y = x < least ? least : x;
    float t = Math.fma(y, factor, MAGIC);
    float f = Math.fma(y, factor, MAGIC - t);
    f = Math.fma(y, factorLow, f);
    float p = Math.fma(f, 0x1.417ab8p-13f, 0x1.5f094ap-10f);
    p = Math.fma(p, f, 0x1.3b2dd2p-7f);
    p = Math.fma(p, f, 0x1.c6af7ap-5f);
    p = Math.fma(p, f, 0x1.ebfbdcp-3f);
    p = Math.fma(p, f, 0x1.62e43p-1f);
    p = Math.fma(p, f, 1f);
    return p * Float.intBitsToFloat(Float.floatToRawIntBits(t) << 23);
  }

  /** As {@link #pow2(FloatVector, float, float, float)}, in float64. */
  static DoubleVector pow2(DoubleVector x, double factor, double factorLow, double least) {
    DoubleVector floor = DoubleVector.broadcast(Species.F64, least);
    DoubleVector magic = DoubleVector.broadcast(Species.F64, MAGIC_DOUBLE);
    DoubleVector c = DoubleVector.broadcast(Species.F64, factor);
    DoubleVector y = x.blend(floor, x.compare(VectorOperators.LT, floor));
    DoubleVector t = y.fma(c, magic);
    DoubleVector f = y.fma(c, magic.sub(t));
    f = y.fma(DoubleVector.broadcast(Species.F64, factorLow), f);
    DoubleVector p =
        f.fma(
            DoubleVector.broadcast(Species.F64, 0x1.e79bd33b4c803p-32),
            DoubleVector.broadcast(Species.F64, 0x1.e61b4f94d8a6bp-28));
    p = p.fma(f, DoubleVector.broadcast(Species.F64, 0x1.b5267cc89494ep-24));
    p = p.fma(f, DoubleVector.broadcast(Species.F64, 0x1.62bfc79d37f89p-20));
    p = p.fma(f, DoubleVector.broadcast(Species.F64, 0x1.ffcbfba9911e2p-17));
    p = p.fma(f, DoubleVector.broadcast(Species.F64, 0x1.4309130ed8de7p-13));
    p = p.fma(f, DoubleVector.broadcast(Species.F64, 0x1.5d87fe78cd675p-10));
    p = p.fma(f, DoubleVector.broadcast(Species.F64, 0x1.3b2ab6fba0119p-7));
    p = p.fma(f, DoubleVector.broadcast(Species.F64, 0x1.c6b08d7049fe8p-5));
    p = p.fma(f, DoubleVector.broadcast(Species.F64, 0x1.ebfbdff82c5a4p-3));
    p = p.fma(f, DoubleVector.broadcast(Species.F64, 0x1.62e42fefa39efp-1));
    p = p.fma(f, DoubleVector.broadcast(Species.F64, 1.0));
    LongVector n = t.reinterpretAsLongs().lanewise(VectorOperators.LSHL, 52);
    return p.mul(n.reinterpretAsDoubles());
  }

  /** One lane of {@link #pow2(DoubleVector, double, double, double)}, with the same bits. */
  static double pow2(double x, double factor, double factorLow, double least) {
    double y = x < least ? least : x;
    double t = Math.fma(y, factor, MAGIC_DOUBLE);
    double f = Math.fma(y, factor, MAGIC_DOUBLE - t);
    f = Math.fma(y, factorLow, f);
    double p = Math.fma(f, 0x1.e79bd33b4c803p-32, 0x1.e61b4f94d8a6bp-28);
    p = Math.fma(p, f, 0x1.b5267cc89494ep-24);
    p = Math.fma(p, f, 0x1.62bfc79d37f89p-20);
    p = Math.fma(p, f, 0x1.ffcbfba9911e2p-17);
    p = Math.fma(p, f, 0x1.4309130ed8de7p-13);
    p = Math.fma(p, f, 0x1.5d87fe78cd675p-10);
    p = Math.fma(p, f, 0x1.3b2ab6fba0119p-7);
    p = Math.fma(p, f, 0x1.c6b08d7049fe8p-5);
    p = Math.fma(p, f, 0x1.ebfbdff82c5a4p-3);
    p = Math.fma(p, f, 0x1.62e42fefa39efp-1);
    p = Math.fma(p, f, 1.0);
    return p * Double.longBitsToDouble(Double.doubleToRawLongBits(t) << 52);
  }

  /** {@code e^x}, for x at most 88 or NaN. */
  static double exp(double x) {
    return pow2(x, LOG2_E_DOUBLE, LOG2_E_DOUBLE_LOW, LEAST_DOUBLE);
  }

  /**
   * The hyperbolic tangent, through e^(2|x|) - 1 so that small arguments keep their relative
   * accuracy: with {@code 2|x| = ln(2) (n + f)}, {@code e^(2|x|) - 1 = 2^n (2^f - 1) + (2^n - 1)},
   * and the polynomial of 2^f - 1 has no constant term.
   */
  static FloatVector tanh(FloatVector x) {
    FloatVector a = x.abs();
    FloatVector limit = FloatVector.broadcast(Species.F32, 22f);
    FloatVector y = a.blend(limit, a.compare(VectorOperators.GT, limit));
    FloatVector magic = FloatVector.broadcast(Species.F32, MAGIC);
    FloatVector c = FloatVector.broadcast(Species.F32, 2 * LOG2_E);
    FloatVector t = y.fma(c, magic);
    FloatVector f = y.fma(c, magic.sub(t));
    f = y.fma(FloatVector.broadcast(Species.F32, 2 * LOG2_E_LOW), f);
    FloatVector p =
        f.fma(
            FloatVector.broadcast(Species.F32, 0x1.417ab8p-13f),
            FloatVector.broadcast(Species.F32, 0x1.5f094ap-10f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 0x1.3b2dd2p-7f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 0x1.c6af7ap-5f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 0x1.ebfbdcp-3f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 0x1.62e43p-1f));
    FloatVector power =
        t.reinterpretAsInts().lanewise(VectorOperators.LSHL, 23).reinterpretAsFloats();
    FloatVector less1 = p.mul(f).fma(power, power.sub(1f));
    FloatVector tanh = less1.div(less1.add(2f));
    return tanh.blend(tanh.neg(), x.compare(VectorOperators.LT, 0f));
  }
}
