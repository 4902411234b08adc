package dev.foldmax.contract;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Where a tensor's elements may lie. */
enum Memory {
  /** An array of the element's own type. */
  HEAP,
  /** A byte array, from its second byte on: a heap segment at no element's alignment. */
  HEAP_BYTES,
  /** Off the heap, at a cache line. */
  NATIVE,
  /** Off the heap, one byte past a cache line. */
  UNALIGNED,
  /** The axes before the last in the other order: (batch, length, heads, dim) seen by heads. */
  PERMUTED,
  /** The last two axes in the other order, so that the last is not contiguous. */
  TRANSPOSED,
  /** Part of a larger tensor, on every axis. */
  SLICED;

  /**
   * A tensor that sees all or some of a block of memory.
   *
   * @param whole every element of the block
   * @param view the tensor
   */
  record Block(Tensor whole, Tensor view) {
    /** How many elements of the block hold a number. */
    long count(double number) {
      double[] all = whole.toDoubleArray();
      long count = 0;
      for (double x : all) {
        count += Double.compare(x, number) == 0 ? 1 : 0;
      }
      return count;
    }
  }

  /** A tensor of the given shape, filled, with everything around it, with one number. */
  Block block(double number, DType dtype, long... shape) {
    Block block = allocate(dtype, shape);
    block.whole.fill(number);
    return block;
  }

  private Block allocate(DType dtype, long... shape) {
    int rank = shape.length;
    return switch (this) {
      case HEAP -> all(Tensor.allocate(dtype, shape));
      case HEAP_BYTES ->
          all(
              Tensor.of(
                  MemorySegment.ofArray(new byte[(int) bytes(dtype, shape) + 1]).asSlice(1),
                  dtype,
                  shape));
      case NATIVE -> all(Tensor.of(Arena.ofAuto().allocate(bytes(dtype, shape), 64), dtype, shape));
      case UNALIGNED ->
          all(
              Tensor.of(
                  Arena.ofAuto().allocate(bytes(dtype, shape) + 1, 64).asSlice(1), dtype, shape));
      case PERMUTED -> rank < 3 ? SLICED.allocate(dtype, shape) : swapped(dtype, shape, rank - 3);
      case TRANSPOSED -> rank < 2 ? SLICED.allocate(dtype, shape) : swapped(dtype, shape, rank - 2);
      case SLICED -> {
        long[] larger = new long[rank];
        for (int i = 0; i < rank; i++) {
          larger[i] = shape[i] + 3;
        }
        Tensor whole = Tensor.allocate(dtype, larger);
        Tensor view = whole;
        for (int i = 0; i < rank; i++) {
          view = view.slice(i, 1, 1 + shape[i]);
        }
        yield new Block(whole, view);
      }
    };
  }

  private static Block all(Tensor tensor) {
    return new Block(tensor, tensor);
  }

  /** Row-major with {@code axis} and the one after it swapped. */
  private static Block swapped(DType dtype, long[] shape, int axis) {
    long[] stored = shape.clone();
    stored[axis] = shape[axis + 1];
    stored[axis + 1] = shape[axis];
    int[] order = new int[shape.length];
    for (int i = 0; i < order.length; i++) {
      order[i] = i;
    }
    order[axis] = axis + 1;
    order[axis + 1] = axis;
    return all(Tensor.allocate(dtype, stored).permute(order));
  }

  private static long bytes(DType dtype, long[] shape) {
    long bytes = dtype.bytes();
    for (long size : shape) {
      bytes *= size;
    }
    return bytes;
  }
}
