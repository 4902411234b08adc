package dev.foldmax.cuda;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import dev.foldmax.spi.DeviceMemory;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * One call's tensors on their way to the device and back: those of the host are copied there, those
 * whose rows kernels cannot take as they are get copies that kernels can, and {@link #finish}
 * brings results to where they belong. A call whose tensors all lie on the device in the right form
 * copies nothing.
 */
final class Staging {
  /** What kernels load at once, so what rows must start at a multiple of. */
  private static final int ALIGNMENT = 16;

  private final Workplace workplace;
  private final HostTransfers transfers;
  private final CopyKernel copies;
  private final List<Result> results = new ArrayList<>();
  private boolean onHost;

  /** What a kernel writes in place of a tensor of the caller's. */
  private record Result(Tensor written, Tensor wanted) {}

  Staging(Workplace workplace, HostTransfers transfers, CopyKernel copies) {
    this.workplace = workplace;
    this.transfers = transfers;
    this.copies = copies;
  }

  /** An input as a tensor of the device, with any strides. */
  Tensor read(Tensor tensor) {
    if (!tensor.isOnHost()) {
      checkOwn(tensor);
      return tensor;
    }
    noteHost(tensor);
    Tensor distinct = withoutRepeats(tensor);
    int[] order = memoryOrder(distinct);
    Tensor inOrder = distinct.permute(order); // so that it is read from end to end
    Tensor copy = workplace.scratch(inOrder.dtype(), inOrder.shape());
    transfers.upload(inOrder, copy.deviceAddress());
    return copy.permute(inverse(order)).expand(tensor.shape());
  }

  /** As {@link #read}, for a tensor that may be missing. */
  @Nullable Tensor readIfAny(@Nullable Tensor tensor) {
    return tensor == null ? null : read(tensor);
  }

  /** An input whose rows, along the last dimension, lie at multiples of 16 bytes without gaps. */
  Tensor readMatrix(Tensor tensor) {
    Tensor there = read(tensor);
    if (isAligned(there)) {
      return there;
    }
    Tensor distinct = withoutRepeats(there);
    return copyToMatrix(distinct).expand(tensor.shape());
  }

  /** An input as rows with one distance. */
  DeviceRows readRows(Tensor tensor) {
    Tensor there = read(tensor);
    DeviceRows rows = rows(there);
    if (rows != null) {
      return rows;
    }
    return rowsOf(copyToMatrix(there));
  }

  /** A copy with rows at multiples of 16 bytes and zeros behind them, since kernels load it all. */
  private Tensor copyToMatrix(Tensor tensor) {
    Tensor whole = paddedMatrix(tensor.dtype(), tensor.shape());
    long columns = tensor.shape(-1);
    if (whole.shape(-1) != columns) {
      workplace.zero(whole.deviceAddress(), whole.elements() * whole.dtype().bytes());
    }
    Tensor copy = whole.slice(-1, 0, columns);
    copies.copy(tensor, copy);
    return copy;
  }

  /** An input without gaps. */
  Tensor readPacked(Tensor tensor) {
    Tensor there = read(tensor);
    if (there.isContiguous()) {
      return there;
    }
    Tensor copy = workplace.scratch(there.dtype(), there.shape());
    copies.copy(there, copy);
    return copy;
  }

  /**
   * A place for an output with any strides.
   *
   * @param keep whether some elements are not written and have to stay what they are
   */
  Tensor write(Tensor tensor, boolean keep) {
    if (!tensor.isOnHost()) {
      checkOwn(tensor);
      return tensor;
    }
    noteHost(tensor);
    return instead(workplace.scratch(tensor.dtype(), tensor.shape()), tensor, keep);
  }

  /** A place for an output with rows as {@link #readMatrix} gives; {@code keep} as above. */
  Tensor writeMatrix(Tensor tensor, boolean keep) {
    if (!tensor.isOnHost()) {
      checkOwn(tensor);
      if (isAligned(tensor)) {
        return tensor;
      }
    }
    noteHost(tensor);
    return instead(matrix(tensor.dtype(), tensor.shape()), tensor, keep);
  }

  /** A place for an output as rows with one distance, all of which are written. */
  DeviceRows writeRows(Tensor tensor) {
    if (!tensor.isOnHost()) {
      checkOwn(tensor);
      DeviceRows rows = rows(tensor);
      if (rows != null) {
        return rows;
      }
    }
    noteHost(tensor);
    return rowsOf(instead(matrix(tensor.dtype(), tensor.shape()), tensor, false));
  }

  /** A place for an output without gaps, all of which is written. */
  Tensor writePacked(Tensor tensor) {
    if (!tensor.isOnHost()) {
      checkOwn(tensor);
      if (tensor.isContiguous()) {
        return tensor;
      }
    }
    noteHost(tensor);
    return instead(workplace.scratch(tensor.dtype(), tensor.shape()), tensor, false);
  }

  private Tensor instead(Tensor written, Tensor wanted, boolean keep) {
    if (keep) {
      copies.copy(read(wanted), written);
    }
    results.add(new Result(written, wanted));
    return written;
  }

  /**
   * Copies results to the tensors that the caller gave, after the kernels were enqueued; if any
   * tensor of the call lies on the host, waits until everything is done.
   */
  void finish() {
    for (Result result : results) {
      if (result.wanted.isOnHost()) {
        download(result.written, result.wanted);
      } else {
        copies.copy(result.written, result.wanted);
      }
    }
    if (onHost) {
      workplace.stream().synchronize();
    }
  }

  /** Copies any tensor to any other of the same shape. */
  void copy(Tensor source, Tensor target) {
    if (target.isOnHost()) {
      noteHost(target);
      checkOwn(source);
      download(source, target);
      return;
    }
    checkOwn(target);
    boolean asItIs =
        source.isOnHost()
            && source.dtype() == target.dtype()
            && target.isContiguous()
            && withoutRepeats(source) == source
            && isInMemoryOrder(source);
    if (asItIs) {
      noteHost(source);
      transfers.upload(source, target.deviceAddress());
    } else {
      copies.copy(read(source), target);
    }
  }

  private void download(Tensor source, Tensor target) {
    Tensor packed = source;
    if (!source.isContiguous() || source.dtype() != target.dtype()) {
      packed = workplace.scratch(target.dtype(), target.shape());
      copies.copy(source, packed);
    }
    transfers.download(packed.deviceAddress(), target);
  }

  private void noteHost(Tensor tensor) {
    if (tensor.isOnHost()) {
      if (workplace.isCapturing()) {
        throw new IllegalStateException(
            tensor + " lies on the host: calls that are recorded take tensors of the device alone");
      }
      onHost = true;
    }
  }

  /** Whether a tensor's rows can be taken as they are. */
  static boolean isAligned(Tensor tensor) {
    if (tensor.elements() == 0) {
      return true; // nothing is loaded
    }
    int last = tensor.rank() - 1;
    int bytes = tensor.dtype().bytes();
    boolean aligned =
        (tensor.shape(last) == 1 || tensor.stride(last) == 1)
            && tensor.deviceAddress() % ALIGNMENT == 0;
    for (int axis = 0; axis < last; axis++) {
      aligned &= tensor.shape(axis) == 1 || tensor.stride(axis) * bytes % ALIGNMENT == 0;
    }
    return aligned;
  }

  /** The rows of a tensor of the device, if they have one distance. */
  private static @Nullable DeviceRows rows(Tensor tensor) {
    if (!isAligned(tensor)) {
      return null;
    }
    long columns = tensor.shape(-1);
    if (columns == 0) {
      return new DeviceRows(tensor.deviceAddress(), tensor.dtype(), count(tensor), 0, 0);
    }
    long stride = 0;
    long expected = -1; // of the next dimension, going outwards
    for (int axis = tensor.rank() - 2; axis >= 0; axis--) {
      if (tensor.shape(axis) == 1) {
        continue;
      }
      if (expected < 0) {
        stride = tensor.stride(axis);
      } else if (tensor.stride(axis) != expected) {
        return null;
      }
      expected = tensor.stride(axis) * tensor.shape(axis);
    }
    return new DeviceRows(tensor.deviceAddress(), tensor.dtype(), count(tensor), columns, stride);
  }

  private static DeviceRows rowsOf(Tensor matrix) {
    DeviceRows rows = rows(matrix);
    if (rows == null) {
      throw new AssertionError("a new matrix has rows at one distance: " + matrix);
    }
    return rows;
  }

  private static long count(Tensor tensor) {
    long rows = 1;
    for (int axis = 0; axis < tensor.rank() - 1; axis++) {
      rows *= tensor.shape(axis);
    }
    return rows;
  }

  /** Scratch memory with rows at multiples of 16 bytes. */
  private Tensor matrix(DType dtype, long[] shape) {
    return paddedMatrix(dtype, shape).slice(-1, 0, shape[shape.length - 1]);
  }

  /** The same with what lies behind each row. */
  private Tensor paddedMatrix(DType dtype, long[] shape) {
    int last = shape.length - 1;
    int step = ALIGNMENT / dtype.bytes();
    long[] padded = shape.clone();
    padded[last] = Math.ceilDiv(shape[last], step) * step;
    return workplace.scratch(dtype, padded);
  }

  /** The same elements with one of those that dimensions of stride 0 repeat. */
  private static Tensor withoutRepeats(Tensor tensor) {
    Tensor distinct = tensor;
    for (int axis = 0; axis < tensor.rank(); axis++) {
      if (tensor.stride(axis) == 0 && tensor.shape(axis) > 1) {
        distinct = distinct.slice(axis, 0, 1);
      }
    }
    return distinct;
  }

  /** The axes of a tensor by their strides, the longest first. */
  private static int[] memoryOrder(Tensor tensor) {
    int[] order = new int[tensor.rank()];
    for (int axis = 0; axis < order.length; axis++) {
      int place = axis;
      for (; place > 0 && tensor.stride(axis) > tensor.stride(order[place - 1]); place--) {
        order[place] = order[place - 1];
      }
      order[place] = axis;
    }
    return order;
  }

  /** Whether strides never grow from axis to axis. */
  private static boolean isInMemoryOrder(Tensor tensor) {
    long previous = Long.MAX_VALUE;
    for (int axis = 0; axis < tensor.rank(); axis++) {
      if (tensor.shape(axis) > 1) {
        if (tensor.stride(axis) > previous) {
          return false;
        }
        previous = tensor.stride(axis);
      }
    }
    return true;
  }

  private static int[] inverse(int[] order) {
    int[] places = new int[order.length];
    for (int place = 0; place < order.length; place++) {
      places[order[place]] = place;
    }
    return places;
  }

  private void checkOwn(Tensor tensor) {
    DeviceMemory memory = tensor.deviceMemory();
    if (memory instanceof CudaMemory own && own.isOf(workplace)) {
      workplace.use(own);
    } else if (!(memory instanceof ScratchMemory)) {
      throw new IllegalArgumentException(
          tensor
              + ": expected a tensor of this backend ("
              + workplace.name()
              + ") or of the host; it belongs to another backend");
    }
  }
}
