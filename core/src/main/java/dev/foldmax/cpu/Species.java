package dev.foldmax.cpu;

import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.LongVector;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;

/**
 * The vector shape of this JVM: the widest that the machine prefers, or, narrower, what the system
 * property {@code foldmax.vectorBits} says (128, 256 or 512). Constants of a class of its own, so
 * that C2 sees them as such in every kernel and nothing touches the incubator module before it is
 * known to be there.
 */
final class Species {
  static final VectorSpecies<Float> F32 = VectorSpecies.of(float.class, shape());
  static final VectorSpecies<Integer> I32 = IntVector.SPECIES_PREFERRED.withShape(shape());
  static final VectorSpecies<Double> F64 = DoubleVector.SPECIES_PREFERRED.withShape(shape());
  static final VectorSpecies<Long> I64 = LongVector.SPECIES_PREFERRED.withShape(shape());

  private Species() {}

  private static VectorShape shape() {
    int widest = FloatVector.SPECIES_PREFERRED.vectorBitSize();
    int bits = Integer.getInteger("foldmax.vectorBits", widest);
    if (bits != 128 && bits != 256 && bits != 512) {
      throw new IllegalArgumentException(
          "foldmax.vectorBits: expected 128, 256 or 512, got " + bits);
    }
    if (bits > widest) {
      throw new IllegalArgumentException(
          "foldmax.vectorBits: this machine has vectors of " + widest + " bits, not " + bits);
    }
    return VectorShape.forBitSize(bits);
  }
}
