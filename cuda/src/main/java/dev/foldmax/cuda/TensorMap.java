package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.foldmax.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/**
 * Writes descriptors for the tensor memory accelerator, from compute capability 9.0 on. Not for
 * several threads at once.
 */
final class TensorMap {
  /** The size of a map, which a kernel takes by value as a {@code __grid_constant__}. */
  static final long BYTES = 128;

  /** CUtensorMapSwizzle for rows of a box of 128 bytes. */
  private static final int SWIZZLE_128 = 3;

  /** CUtensorMapL2promotion: fetch 128 bytes at least, a row of a box. */
  private static final int PROMOTION_128 = 2;

  /** What every stride is a multiple of. */
  private static final long ALIGNMENT = 16;

  private static final int MOST_RANK = 5;

  // What the driver reads while it encodes.
  private final MemorySegment sizes;
  private final MemorySegment strides;
  private final MemorySegment box;
  private final MemorySegment ones;

  TensorMap(Arena arena) {
    sizes = arena.allocate(JAVA_LONG, MOST_RANK);
    strides = arena.allocate(JAVA_LONG, MOST_RANK);
    box = arena.allocate(JAVA_INT, MOST_RANK);
    ones = arena.allocateFrom(JAVA_INT, 1, 1, 1, 1, 1);
  }

  /**
   * Writes a map of a tensor in boxes whose rows have 128 bytes, swizzled.
   *
   * @param map {@link #BYTES} bytes, as in {@link Parameters#get}
   * @param type F16 or BF16
   * @param address of the first element, at a multiple of 16
   * @param sizes in elements, fastest first; of an empty tensor nothing may be loaded, and address
   *     and strides may be anything
   * @param byteStrides of all dimensions but the fastest, multiples of 16; those of dimensions of
   *     one element may be anything
   * @param box in elements, fastest first
   */
  void encode(
      MemorySegment map, DType type, long address, long[] sizes, long[] byteStrides, int[] box) {
    int number =
        switch (type) {
          case F16 -> 6;
          case BF16 -> 9;
          default -> throw new IllegalArgumentException("type: expected F16 or BF16, got " + type);
        };
    int rank = sizes.length;
    boolean isEmpty = Arrays.stream(sizes).anyMatch(size -> size == 0);
    for (int i = 0; i < rank; i++) {
      this.sizes.setAtIndex(JAVA_LONG, i, Math.max(sizes[i], 1));
      this.box.setAtIndex(JAVA_INT, i, box[i]);
    }
    for (int i = 0; i < rank - 1; i++) { // those that are never gone are checked all the same
      boolean isGone = !isEmpty && sizes[i + 1] > 1;
      strides.setAtIndex(JAVA_LONG, i, isGone ? byteStrides[i] : ALIGNMENT);
    }
    CudaDriver.tensorMapEncodeTiled(
        map,
        number,
        rank,
        isEmpty ? address & -ALIGNMENT : address,
        this.sizes,
        strides,
        this.box,
        ones,
        SWIZZLE_128,
        PROMOTION_128);
  }
}
