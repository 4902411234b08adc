package dev.foldmax.cpu;

import dev.foldmax.DType;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;

/**
 * Runs of 16-bit floats to and from float32. C2 turns the plain loops over binary16 into the
 * machine's conversion instructions; for bfloat16 it does not, so these are written in vectors.
 */
final class HalfConversions {
  private static final int V = Species.F32.length();

  /** As many 16-bit lanes as a vector has 32-bit ones. */
  private static final VectorSpecies<Short> I16 =
      VectorSpecies.of(short.class, VectorShape.forBitSize(Species.F32.vectorBitSize() / 2));

  private HalfConversions() {}

  static void fromF16(short[] bits, int from, float[] into, int at, int n) {
    for (int i = 0; i < n; i++) {
      into[at + i] = Float.float16ToFloat(bits[from + i]);
    }
  }

  static void toF16(float[] from, int at, short[] bits, int n) {
    for (int i = 0; i < n; i++) {
      bits[i] = Float.floatToFloat16(from[at + i]);
    }
  }

  static void fromBf16(short[] bits, int from, float[] into, int at, int n) {
    int i = 0;
    for (; i <= n - V; i += V) {
      widen(bits, from + i)
          .lanewise(VectorOperators.LSHL, 16)
          .reinterpretAsFloats()
          .intoArray(into, at + i);
    }
    for (; i < n; i++) {
      into[at + i] = DType.bf16ToFloat(bits[from + i]);
    }
  }

  private static IntVector widen(short[] bits, int i) {
    return (IntVector)
        ShortVector.fromArray(I16, bits, i)
            .convertShape(VectorOperators.ZERO_EXTEND_S2I, Species.I32, 0);
  }

  static void toBf16(float[] from, int at, short[] bits, int n) {
    int i = 0;
    for (; i <= n - V; i += V) {
      FloatVector x = FloatVector.fromArray(Species.F32, from, at + i);
      IntVector y = x.reinterpretAsInts();
      IntVector upper = y.lanewise(VectorOperators.LSHR, 16);
      IntVector rounded = y.add(0x7fff).add(upper.and(1)).lanewise(VectorOperators.LSHR, 16);
      IntVector result =
          rounded.blend(upper.or(0x40), x.compare(VectorOperators.NE, x).cast(Species.I32));
      ((ShortVector) result.convertShape(VectorOperators.I2S, I16, 0)).intoArray(bits, i);
    }
    for (; i < n; i++) {
      bits[i] = DType.floatToBf16(from[at + i]);
    }
  }
}
