package dev.foldmax.benchmarks;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Tensors in native memory, each on a cache line of its own. */
final class NativeCopy {
  private static final long ALIGNMENT = 64;

  private NativeCopy() {}

  /** The same numbers in native memory, row-major. */
  static Tensor of(Tensor tensor, Arena arena) {
    Tensor copy = allocate(arena, tensor.dtype(), tensor.shape());
    copy.copyFrom(tensor);
    return copy;
  }

  /** Zeros. */
  static Tensor allocate(Arena arena, DType dtype, long... shape) {
    long bytes = dtype.bytes();
    for (long size : shape) {
      bytes *= size;
    }
    MemorySegment segment = arena.allocate(bytes, ALIGNMENT);
    return Tensor.of(segment, dtype, shape);
  }
}
