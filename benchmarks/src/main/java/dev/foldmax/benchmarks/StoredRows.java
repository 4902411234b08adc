package dev.foldmax.benchmarks;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import jdk.incubator.vector.ByteVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;
import org.jspecify.annotations.Nullable;

/** Keys or values in the form that they are stored in, as the naive versions read them. */
@SuppressWarnings("ArrayRecordComponent") // handed on, never compared
sealed interface StoredRows {
  /**
   * An array that holds elements {@code begin} to {@code begin + count - 1} as float32, from {@link
   * #position} on: the one that they lie in, or {@code scratch}.
   */
  float[] read(int begin, int count, float[] scratch);

  /** Where in the result of {@link #read} element {@code begin} lies. */
  default int position(int begin) {
    return 0;
  }

  /** What the elements of a row are to be multiplied by. */
  default float scale(int row) {
    return 1;
  }

  /** Whether reading converts or copies, so that it pays to share a read among queries. */
  default boolean isConverted() {
    return true;
  }

  /**
   * The elements of a row-major tensor.
   *
   * @param scales one for each row, where they are 8-bit integers
   */
  static StoredRows of(Tensor tensor, @Nullable Tensor scales) {
    Object array = tensor.segment().heapBase().orElse(null);
    return switch (array) {
      case null -> new NativeFloats(tensor.segment());
      case float[] floats -> new Floats(floats);
      case short[] bits when tensor.dtype() == DType.F16 -> new Halves(bits);
      case short[] bits -> new BrainFloats(bits);
      case byte[] bytes when scales != null -> new Bytes(bytes, scales.toFloatArray());
      default -> throw new IllegalArgumentException("no rows of " + tensor);
    };
  }

  /** In a heap array. */
  record Floats(float[] array) implements StoredRows {
    @Override
    public float[] read(int begin, int count, float[] scratch) {
      return array;
    }

    @Override
    public int position(int begin) {
      return begin;
    }

    @Override
    public boolean isConverted() {
      return false;
    }
  }

  /** In native memory. */
  record NativeFloats(MemorySegment segment) implements StoredRows {
    @Override
    public float[] read(int begin, int count, float[] scratch) {
      MemorySegment.copy(
          segment, ValueLayout.JAVA_FLOAT, (long) begin * Float.BYTES, scratch, 0, count);
      return scratch;
    }
  }

  /** As binary16, widened by a loop that C2 turns into vectors. */
  record Halves(short[] array) implements StoredRows {
    @Override
    public float[] read(int begin, int count, float[] scratch) {
      for (int i = 0; i < count; i++) {
        scratch[i] = Float.float16ToFloat(array[begin + i]);
      }
      return scratch;
    }
  }

  /** As bfloat16. */
  record BrainFloats(short[] array) implements StoredRows {
    private static final VectorSpecies<Short> SHORTS =
        VectorSpecies.of(short.class, VectorShape.forBitSize(NaiveVectors.F32.vectorBitSize() / 2));

    @Override
    public float[] read(int begin, int count, float[] scratch) {
      int i = 0;
      for (; i <= count - NaiveVectors.V; i += NaiveVectors.V) {
        ShortVector.fromArray(SHORTS, array, begin + i)
            .convertShape(VectorOperators.S2I, IntVector.SPECIES_PREFERRED, 0)
            .reinterpretAsInts()
            .lanewise(VectorOperators.LSHL, 16)
            .reinterpretAsFloats()
            .intoArray(scratch, i);
      }
      for (; i < count; i++) {
        scratch[i] = DType.bf16ToFloat(array[begin + i]);
      }
      return scratch;
    }
  }

  /**
   * As 8-bit integers.
   *
   * @param scales one for each row
   */
  record Bytes(byte[] array, float[] scales) implements StoredRows {
    private static final VectorSpecies<Byte> BYTES =
        VectorSpecies.of(byte.class, VectorShape.forBitSize(NaiveVectors.F32.vectorBitSize() / 4));

    @Override
    public float[] read(int begin, int count, float[] scratch) {
      int i = 0;
      for (; i <= count - NaiveVectors.V; i += NaiveVectors.V) {
        ((FloatVector)
                ByteVector.fromArray(BYTES, array, begin + i)
                    .convertShape(VectorOperators.B2F, NaiveVectors.F32, 0))
            .intoArray(scratch, i);
      }
      for (; i < count; i++) {
        scratch[i] = array[begin + i];
      }
      return scratch;
    }

    @Override
    public float scale(int row) {
      return scales[row];
    }
  }
}
