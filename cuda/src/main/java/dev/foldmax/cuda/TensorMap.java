package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.foldmax.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/** Descriptors for the tensor memory accelerator, from compute capability 9.0 on. */
final class TensorMap {
  /** The size of a map, which a kernel takes by value as a {@code __grid_constant__}. */
  static final long BYTES = 128;

  /** CUtensorMapSwizzle for rows of a box of 128 bytes. */
  private static final int SWIZZLE_128 = 3;

  /** CUtensorMapL2promotion: fetch 128 bytes at least, a row of a box. */
  private static final int PROMOTION_128 = 2;

  /** What every stride is a multiple of. */
  private static final long ALIGNMENT = 16;

  private TensorMap() {}

  /**
   * Writes a map of a tensor in boxes whose rows have 128 bytes, swizzled.
   *
   * @param map {@link #BYTES} bytes, as in {@link Parameters#get}
   * @param type F16 or BF16
   * @param address of the first element, at a multiple of 16
   * @param sizes in elements, fastest first; of an empty tensor nothing may be loaded
   * @param byteStrides of all dimensions but the fastest, multiples of 16; those of dimensions of
   *     one element may be anything
   * @param box in elements, fastest first
   */
  static void encode(
      MemorySegment map, DType type, long address, long[] sizes, long[] byteStrides, int[] box) {
    int number =
        switch (type) {
          case F16 -> 6;
          case BF16 -> 9;
          default -> throw new IllegalArgumentException("type: expected F16 or BF16, got " + type);
        };
    int rank = sizes.length;
    long[] atLeastOne = Arrays.stream(sizes).map(size -> Math.max(size, 1)).toArray();
    long[] strides = byteStrides.clone();
    for (int i = 0; i < strides.length; i++) {
      if (sizes[i + 1] <= 1) {
        strides[i] = ALIGNMENT; // never gone, and checked all the same
      }
    }
    int[] elementStrides = new int[rank];
    Arrays.fill(elementStrides, 1);
    try (Arena arena = Arena.ofConfined()) {
      CudaDriver.tensorMapEncodeTiled(
          map,
          number,
          rank,
          address,
          arena.allocateFrom(JAVA_LONG, atLeastOne),
          arena.allocateFrom(JAVA_LONG, strides),
          arena.allocateFrom(JAVA_INT, box),
          arena.allocateFrom(JAVA_INT, elementStrides),
          SWIZZLE_128,
          PROMOTION_128);
    }
  }
}
