package dev.foldmax.spi;

import dev.foldmax.Tensor;

/**
 * Whether views share a byte, for strides of any kind: whether {@code sum of stride[k] * x[k] =
 * target} has a solution with each x[k] from 0 to most[k]. The largest stride goes first, so that
 * what is left for the others leaves it few choices, one or two where dimensions nest; what their
 * greatest common divisor does not divide is no choice.
 *
 * <p>Contrived strides can make the search long. It is given up after {@link #MOST_STEPS} with no
 * solution found.
 */
final class Overlap {
  private static final int MOST_STEPS = 10_000;

  private final long[] strides; // (size), falling
  private final long[] most; // (size)
  private int size;
  private int steps;

  private Overlap(int mostTerms) {
    strides = new long[mostTerms];
    most = new long[mostTerms];
  }

  /** Whether two tensors have a byte in common. */
  static boolean isShared(Tensor a, Tensor b) {
    if (a.elements() == 0 || b.elements() == 0 || !mayMeet(a, b)) {
      return false;
    }
    long distance = address(b) - address(a);
    long bytesOfB = bytesTo(b);
    if (distance >= bytesTo(a) || -distance >= bytesOfB) {
      return false;
    }
    if (a.isContiguous() && b.isContiguous()) {
      return true;
    }
    // An index j of b stands as shape - 1 - j, so that all terms are added.
    Overlap equation = new Overlap(a.rank() + b.rank() + 1);
    equation.addIndices(a);
    equation.addIndices(b);
    equation.add(1, a.dtype().bytes() - 1 + b.dtype().bytes() - 1);
    return equation.isSolvable(0, distance + bytesOfB - 1);
  }

  /** Whether two tensors begin at the same byte. */
  static boolean startTogether(Tensor a, Tensor b) {
    return mayMeet(a, b) && address(a) == address(b);
  }

  /** Whether addresses can be compared: those of devices are of one space, heap arrays are not. */
  private static boolean mayMeet(Tensor a, Tensor b) {
    return (a.isOnHost() && b.isOnHost())
        ? a.segment().asOverlappingSlice(b.segment()).isPresent()
        : a.isOnHost() == b.isOnHost();
  }

  private static long address(Tensor tensor) {
    return tensor.isOnHost() ? tensor.segment().address() : tensor.deviceAddress();
  }

  /** From the first byte to one past the last; for a tensor that is not empty. */
  private static long bytesTo(Tensor tensor) {
    long last = 0;
    for (int axis = 0; axis < tensor.rank(); axis++) {
      last += (tensor.shape(axis) - 1) * tensor.stride(axis);
    }
    return (last + 1) * tensor.dtype().bytes();
  }

  /** Whether two indices of a tensor name the same element. */
  static boolean isRepeating(Tensor tensor) {
    if (tensor.isContiguous()) { // as most are: each stride is beyond the reach of those within
      return false;
    }
    Overlap dimensions = new Overlap(tensor.rank());
    for (int axis = 0; axis < tensor.rank(); axis++) {
      if (tensor.shape(axis) > 1) {
        dimensions.insert(tensor.stride(axis), tensor.shape(axis) - 1);
      }
    }
    // Two indices that differ first, in this order, in dimension k; say, by x + 1.
    long reach = 0;
    for (int k = dimensions.size - 1; k >= 0; k--) {
      long stride = dimensions.strides[k];
      if (stride <= reach || stride == 0) {
        Overlap equation = new Overlap(dimensions.size - k);
        for (int m = k + 1; m < dimensions.size; m++) {
          equation.add(dimensions.strides[m], 2 * dimensions.most[m]);
        }
        equation.add(stride, dimensions.most[k] - 1);
        if (equation.isSolvable(0, reach - stride)) {
          return true;
        }
      }
      reach += stride * dimensions.most[k];
    }
    return false;
  }

  private void addIndices(Tensor tensor) {
    for (int axis = 0; axis < tensor.rank(); axis++) {
      add(tensor.stride(axis) * tensor.dtype().bytes(), tensor.shape(axis) - 1);
    }
  }

  /** Adds a term; one with a stride that is there already joins it. */
  private void add(long stride, long mostIndex) {
    if (stride == 0 || mostIndex == 0) {
      return;
    }
    for (int k = 0; k < size; k++) {
      if (strides[k] == stride) {
        most[k] += mostIndex;
        return;
      }
    }
    insert(stride, mostIndex);
  }

  private void insert(long stride, long mostIndex) {
    int k = size++;
    for (; k > 0 && strides[k - 1] < stride; k--) {
      strides[k] = strides[k - 1];
      most[k] = most[k - 1];
    }
    strides[k] = stride;
    most[k] = mostIndex;
  }

  /** Whether the terms from number k on add up to a target; false if that takes too long. */
  private boolean isSolvable(int k, long target) {
    if (target == 0) {
      return true;
    }
    if (k == size || target < 0 || target % divisor(k) != 0) {
      return false;
    }
    long others = 0;
    for (int m = k + 1; m < size; m++) {
      others += strides[m] * most[m];
    }
    long first = Math.max(0, Math.ceilDiv(target - others, strides[k]));
    long last = Math.min(most[k], target / strides[k]);
    for (long x = last; x >= first && steps++ < MOST_STEPS; x--) {
      if (isSolvable(k + 1, target - x * strides[k])) {
        return true;
      }
    }
    return false;
  }

  /** The greatest common divisor of the strides from number k on. */
  private long divisor(int k) {
    long divisor = strides[k];
    for (int m = k + 1; m < size; m++) {
      long rest = strides[m];
      while (rest != 0) {
        long next = divisor % rest;
        divisor = rest;
        rest = next;
      }
    }
    return divisor;
  }
}
