package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * The parameters of a kernel in native memory. Made once by whoever launches the kernel, written
 * before each launch, and read by the driver during it: free to be written again when {@link
 * Kernel#launch} returns. Not for several threads at once.
 */
final class Parameters {
  /** The alignment of tensor maps, the most that any parameter asks for. */
  static final long ALIGNMENT = 64;

  /** The most parameters of a kernel, and the most bytes of all, as all devices take. */
  static final int MOST = 16;

  static final long MOST_BYTES = 4096;

  private final MemorySegment block;
  private final long[] places;
  private final MemorySegment[] values;

  private Parameters(MemorySegment block, long[] places, MemorySegment[] values) {
    this.block = block;
    this.places = places;
    this.values = values;
  }

  /**
   * Room for parameters of the given sizes.
   *
   * @param byteSizes in the kernel's order: 8 for pointers and int64, 4 for int and float
   */
  static Parameters of(Arena arena, long... byteSizes) {
    long[] places = new long[byteSizes.length];
    long size = 0;
    for (int i = 0; i < byteSizes.length; i++) {
      places[i] = size;
      size += Math.ceilDiv(byteSizes[i], ALIGNMENT) * ALIGNMENT;
    }
    if (byteSizes.length > MOST || size > MOST_BYTES) {
      throw new IllegalArgumentException(
          "byteSizes: at most %d parameters and %d bytes, got %d and %d"
              .formatted(MOST, MOST_BYTES, byteSizes.length, size));
    }
    MemorySegment block = arena.allocate(size, ALIGNMENT);
    MemorySegment[] values = new MemorySegment[byteSizes.length];
    for (int i = 0; i < values.length; i++) {
      values[i] = block.asSlice(places[i], byteSizes[i]);
    }
    return new Parameters(block, places, values);
  }

  /**
   * Copies all parameters.
   *
   * @param pointers room for {@link #MOST} addresses: what the driver takes
   * @param target room for {@link #MOST_BYTES}, to which they will point
   * @return how many bytes it was, a multiple of {@link #ALIGNMENT}
   */
  long copyTo(MemorySegment pointers, MemorySegment target) {
    MemorySegment.copy(block, 0, target, 0, block.byteSize());
    for (int i = 0; i < places.length; i++) {
      pointers.setAtIndex(JAVA_LONG, i, target.address() + places[i]);
    }
    return block.byteSize();
  }

  /** A parameter's memory: for structures and tensor maps. */
  MemorySegment get(int index) {
    return values[index];
  }

  /** Sets a pointer or an int64. */
  void set(int index, long value) {
    values[index].set(JAVA_LONG, 0, value);
  }

  /** Sets an int. */
  void set(int index, int value) {
    values[index].set(JAVA_INT, 0, value);
  }

  /** Sets a float. */
  void set(int index, float value) {
    values[index].set(JAVA_FLOAT, 0, value);
  }
}
