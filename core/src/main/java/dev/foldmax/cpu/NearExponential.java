package dev.foldmax.cpu;

import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.LongVector;
import jdk.incubator.vector.VectorOperators;

/**
 * {@code e^x} for x between -44 and 43, without the care for other numbers that {@link Exponential}
 * takes: a third faster. A loop rounds each x to the {@link #round nearest} multiple of ln(2),
 * joins the {@link #farBits} of all by OR and asks {@link #isNear} at its end whether its results
 * hold. Infinities and NaN are not near.
 */
final class NearExponential {
  /** No larger number is near. */
  static final float HIGHEST = 43;

  /** A smaller number may not be near. */
  static final float LOWEST = -44;

  /** The least n in {@code e^x = 2^n 2^f}. */
  private static final int LEAST = -64;

  /** There are two to the power of this many n. */
  private static final int BITS = 7;

  private static final float MAGIC = 0x1.8p23f;
  private static final double MAGIC_DOUBLE = 0x1.8p52;

  private static final int FIRST = Float.floatToRawIntBits(MAGIC) + LEAST;
  private static final long FIRST_DOUBLE = Double.doubleToRawLongBits(MAGIC_DOUBLE) + LEAST;

  private static final float LN_2 = 0x1.62e43p-1f;

  private NearExponential() {}

  /** The multiple of ln(2) next to x: n, in the low bits of n plus a magic number. */
  static FloatVector round(FloatVector x) {
    return x.fma(
        FloatVector.broadcast(Species.F32, Exponential.LOG2_E),
        FloatVector.broadcast(Species.F32, MAGIC));
  }

  /** As {@link #round(FloatVector)}, in float64. */
  static DoubleVector round(DoubleVector x) {
    return x.fma(
        DoubleVector.broadcast(Species.F64, Exponential.LOG2_E_DOUBLE),
        DoubleVector.broadcast(Species.F64, MAGIC_DOUBLE));
  }

  /** For {@link #isNear(int)}. */
  static IntVector farBits(FloatVector rounded) {
    return rounded.reinterpretAsInts().sub(IntVector.broadcast(Species.I32, FIRST));
  }

  /** For {@link #isNear(long)}. */
  static LongVector farBits(DoubleVector rounded) {
    return rounded.reinterpretAsLongs().sub(LongVector.broadcast(Species.I64, FIRST_DOUBLE));
  }

  /** Whether all x were near whose {@link #farBits} these are, joined by OR. */
  static boolean isNear(int farBits) {
    return farBits >>> BITS == 0;
  }

  /** As {@link #isNear(int)}, in float64. */
  static boolean isNear(long farBits) {
    return farBits >>> BITS == 0;
  }

  /**
   * {@code e^x} for a sum: 1 at 0; else with a relative error of up to 9e-8 from the polynomial, of
   * degree 5, which has both signs, and of 3e-9 |x| from what ln(2) lacks.
   *
   * @param rounded of {@link #round(FloatVector)}
   */
  static FloatVector summand(FloatVector x, FloatVector rounded) {
    FloatVector n = rounded.sub(FloatVector.broadcast(Species.F32, MAGIC));
    FloatVector f = n.fma(FloatVector.broadcast(Species.F32, -LN_2), x);
    FloatVector p =
        f.fma(
            FloatVector.broadcast(Species.F32, 0x1.0fa208p-7f),
            FloatVector.broadcast(Species.F32, 0x1.573a1ap-5f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 0x1.555a7cp-3f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 0x1.fffdc6p-2f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 0x1.fffff6p-1f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 1f));
    IntVector exponent = rounded.reinterpretAsInts().lanewise(VectorOperators.LSHL, 23);
    return p.reinterpretAsInts().add(exponent).reinterpretAsFloats();
  }

  /**
   * {@code e^x} within 1 ulp, with the bits of {@link Exponential#pow2(FloatVector, float, float,
   * float)}.
   *
   * @param rounded of {@link #round(FloatVector)}
   */
  static FloatVector exp(FloatVector x, FloatVector rounded) {
    FloatVector magic = FloatVector.broadcast(Species.F32, MAGIC);
    FloatVector f =
        x.fma(FloatVector.broadcast(Species.F32, Exponential.LOG2_E), magic.sub(rounded));
    f = x.fma(FloatVector.broadcast(Species.F32, Exponential.LOG2_E_LOW), f);
    FloatVector p =
        f.fma(
            FloatVector.broadcast(Species.F32, 0x1.417ab8p-13f),
            FloatVector.broadcast(Species.F32, 0x1.5f094ap-10f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 0x1.3b2dd2p-7f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 0x1.c6af7ap-5f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 0x1.ebfbdcp-3f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 0x1.62e43p-1f));
    p = p.fma(f, FloatVector.broadcast(Species.F32, 1f));
    IntVector exponent = rounded.reinterpretAsInts().lanewise(VectorOperators.LSHL, 23);
    return p.reinterpretAsInts().add(exponent).reinterpretAsFloats();
  }

  /** As {@link #exp(FloatVector, FloatVector)}, in float64. */
  static DoubleVector exp(DoubleVector x, DoubleVector rounded) {
    DoubleVector magic = DoubleVector.broadcast(Species.F64, MAGIC_DOUBLE);
    DoubleVector f =
        x.fma(DoubleVector.broadcast(Species.F64, Exponential.LOG2_E_DOUBLE), magic.sub(rounded));
    f = x.fma(DoubleVector.broadcast(Species.F64, Exponential.LOG2_E_DOUBLE_LOW), f);
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
    LongVector exponent = rounded.reinterpretAsLongs().lanewise(VectorOperators.LSHL, 52);
    return p.reinterpretAsLongs().add(exponent).reinterpretAsDoubles();
  }
}
