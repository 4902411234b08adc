package dev.foldmax;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.function.DoubleFunction;
import java.util.function.IntToDoubleFunction;
import org.junit.jupiter.api.Test;

/**
 * Conversions against arithmetic that cannot round: every 16-bit float, the midpoint of two
 * neighbours and both sides of that midpoint are exact in float64.
 */
class DTypeTest {
  /** The value of 16 bits by the definition of the formats, not by a library. */
  private static double decode(int bits, int exponentBits, int fractionBits) {
    int bias = (1 << (exponentBits - 1)) - 1;
    int exponent = (bits >> fractionBits) & ((1 << exponentBits) - 1);
    int fraction = bits & ((1 << fractionBits) - 1);
    double sign = (bits & 0x8000) == 0 ? 1 : -1;
    if (exponent == (1 << exponentBits) - 1) {
      return fraction == 0 ? sign * Double.POSITIVE_INFINITY : Double.NaN;
    }
    return exponent == 0
        ? sign * Math.scalb((double) fraction, 1 - bias - fractionBits)
        : sign
            * Math.scalb((double) (fraction + (1 << fractionBits)), exponent - bias - fractionBits);
  }

  private static double decodeF16(int bits) {
    return decode(bits, 5, 10);
  }

  private static double decodeBf16(int bits) {
    return decode(bits, 8, 7);
  }

  @Test
  void everyBf16WidensToItsValue() {
    for (int bits = 0; bits < 1 << 16; bits++) {
      assertThat((double) DType.bf16ToFloat((short) bits))
          .as("bits %04x", bits)
          .isEqualTo(Double.valueOf(decodeBf16(bits)));
    }
  }

  @Test
  void everyF16TensorElementIsItsValue() {
    short[] all = new short[1 << 16];
    for (int bits = 0; bits < all.length; bits++) {
      all[bits] = (short) bits;
    }
    Tensor tensor = Tensor.of(all, DType.F16, all.length);
    for (int bits = 0; bits < all.length; bits++) {
      assertThat(tensor.get(bits)).as("bits %04x", bits).isEqualTo(Double.valueOf(decodeF16(bits)));
    }
  }

  @Test
  void float64ToF16RoundsOnce() {
    roundsToNearestEven(DTypeTest::decodeF16, DType::doubleToF16, 0x7c00);
  }

  @Test
  void float64ToBf16RoundsOnce() {
    roundsToNearestEven(DTypeTest::decodeBf16, DType::doubleToBf16, 0x7f80);
  }

  /**
   * For every pair of neighbours: each rounds to itself, their midpoint to the even one, and the
   * float64s next to the midpoint, which a detour by float32 would mistake for it, to their sides.
   */
  private static void roundsToNearestEven(
      IntToDoubleFunction decode, DoubleFunction<Short> round, int infinity) {
    for (int sign = 0; sign <= 0x8000; sign += 0x8000) {
      for (int bits = 0; bits < infinity; bits++) {
        double low = Math.abs(decode.applyAsDouble(bits));
        // One step past the largest finite number, rounding goes as if the exponent went on.
        double high =
            bits + 1 == infinity
                ? low + (low - decode.applyAsDouble(bits - 1))
                : decode.applyAsDouble(bits + 1);
        double middle = low + (high - low) / 2;
        double s = sign == 0 ? 1 : -1;
        assertBits(round, s * low, sign | bits);
        assertBits(round, s * Math.nextDown(middle), sign | bits);
        assertBits(round, s * middle, sign | (bits + (bits & 1)));
        assertBits(round, s * Math.nextUp(middle), sign | (bits + 1));
      }
      double s = sign == 0 ? 1 : -1;
      assertBits(round, s * Double.MIN_VALUE, sign);
      assertBits(round, s * Double.MAX_VALUE, sign | infinity);
      assertBits(round, s * Double.POSITIVE_INFINITY, sign | infinity);
    }
    assertThat(decode.applyAsDouble(round.apply(Double.NaN) & 0xffff)).isNaN();
  }

  private static void assertBits(DoubleFunction<Short> round, double value, int expected) {
    int actual = round.apply(value) & 0xffff;
    if (actual != expected) {
      assertThat(Integer.toHexString(actual))
          .as("rounding %s", Double.toHexString(value))
          .isEqualTo(Integer.toHexString(expected));
    }
  }

  @Test
  void float32ToBf16RoundsToNearestEven() {
    for (int upper = 0; upper < 1 << 16; upper++) {
      for (int lower : new int[] {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff}) {
        float value = Float.intBitsToFloat((upper << 16) | lower);
        double back = decodeBf16(DType.floatToBf16(value) & 0xffff);
        assertThat(back)
            .as("rounding bits %08x", (upper << 16) | lower)
            .isEqualTo(Double.valueOf(decodeBf16(DType.doubleToBf16(value) & 0xffff)));
      }
    }
  }

  @Test
  void aNanWhosePayloadLiesInTheDroppedBitsStaysNan() {
    assertThat(DType.bf16ToFloat(DType.floatToBf16(Float.intBitsToFloat(0x7f800001)))).isNaN();
    assertThat(DType.bf16ToFloat(DType.floatToBf16(Float.intBitsToFloat(0xff80ffff)))).isNaN();
  }

  @Test
  void typesKnowTheirSizeAndKind() {
    assertThat(DType.values()).extracting(DType::bytes).containsExactly(8, 4, 2, 2, 1, 1, 4, 8);
    assertThat(DType.values())
        .filteredOn(DType::isFloating)
        .containsExactly(DType.F64, DType.F32, DType.F16, DType.BF16);
    assertThat(DType.values()).filteredOn(DType::isIndex).containsExactly(DType.I32, DType.I64);
  }
}
