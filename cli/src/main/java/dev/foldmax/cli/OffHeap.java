package dev.foldmax.cli;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;

/** Memory for results outside the Java heap, whose default size should not bound a job. */
final class OffHeap implements AutoCloseable {
  private static final int CACHE_LINE = 64;

  /** Not an automatic one, which counts against the limit of direct buffers. */
  private final Arena arena = Arena.ofShared();

  /** A new tensor of zeros, valid until this is closed. */
  Tensor allocate(DType dtype, long... shape) {
    long bytes = dtype.bytes();
    for (long size : shape) {
      try {
        bytes = Math.multiplyExact(bytes, size);
      } catch (ArithmeticException e) {
        throw new Failure(
            "a result of shape " + Quantity.shape(shape) + " has more bytes than 64 bits can count",
            e);
      }
    }
    return Tensor.of(arena.allocate(bytes, CACHE_LINE), dtype, shape);
  }

  @Override
  public void close() {
    arena.close();
  }
}
