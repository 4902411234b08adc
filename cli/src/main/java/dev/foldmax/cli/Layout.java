package dev.foldmax.cli;

import dev.foldmax.Tensor;

/** The order of dimensions of queries, keys, values and outputs in files. */
enum Layout {
  /** (batch, heads, length, dim), (heads, length, dim) or (length, dim). */
  BHLD("(batch, heads, length, dim), (heads, length, dim) or (length, dim)"),
  /** (batch, length, heads, dim), (length, heads, dim) or (length, dim). */
  BLHD("(batch, length, heads, dim), (length, heads, dim) or (length, dim)");

  private final String shapes;

  Layout(String shapes) {
    this.shapes = shapes;
  }

  /** The shapes it stands for, in words. */
  String shapes() {
    return shapes;
  }

  /**
   * A view of a file's tensor as (batch, heads, length, dim).
   *
   * @param tensor of rank 2 to 4
   */
  Tensor view(Tensor tensor) {
    return toRank(4, this == BHLD ? tensor : swapHeads(tensor, tensor.rank() - 3));
  }

  /**
   * A view of a file's logsumexp as (batch, heads, length).
   *
   * @param tensor of rank 1 to 3
   */
  Tensor viewWithoutDim(Tensor tensor) {
    return toRank(3, this == BHLD ? tensor : swapHeads(tensor, tensor.rank() - 2));
  }

  /** Swaps an axis with the next, where the tensor has it. */
  private static Tensor swapHeads(Tensor tensor, int axis) {
    if (axis < 0) {
      return tensor;
    }
    int[] axes = new int[tensor.rank()];
    for (int i = 0; i < axes.length; i++) {
      axes[i] = i;
    }
    axes[axis] = axis + 1;
    axes[axis + 1] = axis;
    return tensor.permute(axes);
  }

  private static Tensor toRank(int rank, Tensor tensor) {
    long[] shape = new long[rank];
    for (int i = 0; i < rank; i++) {
      int axis = i - (rank - tensor.rank());
      shape[i] = axis < 0 ? 1 : tensor.shape(axis);
    }
    return tensor.expand(shape);
  }
}
