package dev.foldmax;

/**
 * The element type of a {@link Tensor}. All types are stored little-endian, as in memory on every
 * platform that a JVM with the Vector API runs on, in {@code .npy} files marked {@code <} and in
 * {@code .safetensors}.
 */
public enum DType {
  /** IEEE 754 binary64. */
  F64(Double.BYTES),
  /** IEEE 754 binary32. */
  F32(Float.BYTES),
  /** IEEE 754 binary16, "half". */
  F16(Short.BYTES),
  /** bfloat16: the upper half of a binary32. */
  BF16(Short.BYTES),
  /** Signed 8-bit integer: quantised keys and values, to be multiplied by a scale. */
  I8(Byte.BYTES),
  /** One byte per element; zero is false, anything else is true. */
  BOOL(Byte.BYTES),
  /** Signed 32-bit integer: offsets, lengths, block tables. */
  I32(Integer.BYTES),
  /** Signed 64-bit integer: offsets, lengths, indices. */
  I64(Long.BYTES);

  private final int bytes;

  DType(int bytes) {
    this.bytes = bytes;
  }

  /** The size of one element in bytes. */
  public int bytes() {
    return bytes;
  }

  /** Whether this is one of F64, F32, F16 and BF16. */
  public boolean isFloating() {
    return this == F64 || this == F32 || this == F16 || this == BF16;
  }

  /** Whether this is I32 or I64, the types of offsets, lengths and indices. */
  public boolean isIndex() {
    return this == I32 || this == I64;
  }

  /** The float32 with the same value as the given bfloat16 bits; NaN payloads are kept. */
  public static float bf16ToFloat(short bits) {
    return Float.intBitsToFloat(bits << 16);
  }

  /**
   * Rounds a float32 to bfloat16, to nearest with ties to even. A NaN stays a NaN: its quiet bit is
   * set, since dropping the lower payload bits alone could leave the bits of an infinity.
   */
  public static short floatToBf16(float value) {
    int bits = Float.floatToRawIntBits(value);
    if (Float.isNaN(value)) {
      return (short) ((bits >>> 16) | 0x0040);
    }
    return (short) ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16);
  }

  /**
   * Rounds a float64 to bfloat16 in a single rounding (going through float32 would round twice):
   * float32 by round-to-odd first, which the second rounding then cannot misread.
   */
  public static short doubleToBf16(double value) {
    return floatToBf16(toFloatRoundedToOdd(value));
  }

  /** Rounds a float64 to binary16 in a single rounding; see {@link #doubleToBf16}. */
  public static short doubleToF16(double value) {
    return Float.floatToFloat16(toFloatRoundedToOdd(value));
  }

  /** The float32 next to {@code value} whose last bit is odd, unless {@code value} is a float32. */
  private static float toFloatRoundedToOdd(double value) {
    float nearest = (float) value;
    if (nearest == value || Float.isNaN(nearest)) {
      return nearest;
    }
    if ((Float.floatToRawIntBits(nearest) & 1) == 1) {
      return nearest;
    }
    return Math.abs(nearest) < Math.abs(value)
        ? Math.copySign(Math.nextUp(Math.abs(nearest)), nearest)
        : Math.copySign(Math.nextDown(Math.abs(nearest)), nearest);
  }
}
