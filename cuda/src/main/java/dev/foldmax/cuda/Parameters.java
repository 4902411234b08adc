package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
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
  private static final long ALIGNMENT = 64;

  private final MemorySegment pointers;
  private final MemorySegment[] values;

  private Parameters(MemorySegment pointers, MemorySegment[] values) {
    this.pointers = pointers;
    this.values = values;
  }

  /**
   * Room for parameters of the given sizes.
   *
   * @param byteSizes in the kernel's order: 8 for pointers and int64, 4 for int and float
   */
  static Parameters of(Arena arena, long... byteSizes) {
    MemorySegment pointers = arena.allocate(ADDRESS, byteSizes.length);
    MemorySegment[] values = new MemorySegment[byteSizes.length];
    for (int i = 0; i < values.length; i++) {
      values[i] = arena.allocate(byteSizes[i], ALIGNMENT);
      pointers.setAtIndex(ADDRESS, i, values[i]);
    }
    return new Parameters(pointers, values);
  }

  /** The array of pointers that the driver takes. */
  MemorySegment pointers() {
    return pointers;
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
