package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * CUlaunchConfig of a kernel that may start while the one before it on the stream still runs, and
 * waits for its results itself (programmatic stream serialization). From compute capability 9.0 on.
 */
final class DependentLaunch {
  static final int LEAST_CAPABILITY = 90;

  private static final long CONFIG_BYTES = 56;
  private static final long SHARED_BYTES = 24;
  private static final long STREAM = 32;
  private static final long ATTRIBUTES = 40;
  private static final long ATTRIBUTE_COUNT = 48;

  /** CUlaunchAttribute: an int, four bytes of nothing, and a union. */
  private static final long ATTRIBUTE_BYTES = 72;

  private static final long ATTRIBUTE_VALUE = 8;
  private static final int PROGRAMMATIC_STREAM_SERIALIZATION = 6;

  private final MemorySegment config;

  DependentLaunch(Arena arena) {
    MemorySegment attribute = arena.allocate(ATTRIBUTE_BYTES, Long.BYTES);
    attribute.set(JAVA_INT, 0, PROGRAMMATIC_STREAM_SERIALIZATION);
    attribute.set(JAVA_INT, ATTRIBUTE_VALUE, 1);
    config = arena.allocate(CONFIG_BYTES, Long.BYTES);
    config.set(ADDRESS, ATTRIBUTES, attribute);
    config.set(JAVA_INT, ATTRIBUTE_COUNT, 1);
    for (int axis = 0; axis < 6; axis++) { // of the grid, then of the block
      config.setAtIndex(JAVA_INT, axis, 1);
    }
  }

  /** The config for a grid and a block of one dimension. */
  MemorySegment config(int grid, int threads, int sharedBytes, long stream) {
    config.setAtIndex(JAVA_INT, 0, grid);
    config.setAtIndex(JAVA_INT, 3, threads);
    config.set(JAVA_INT, SHARED_BYTES, sharedBytes);
    config.set(JAVA_LONG, STREAM, stream);
    return config;
  }
}
