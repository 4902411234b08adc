package dev.foldmax.cpu;

import static java.lang.foreign.ValueLayout.JAVA_DOUBLE_UNALIGNED;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/** Scratch of float64. */
final class DoubleIo extends ScratchIo<double[]> {
  @Override
  void read(Tensor tensor, long offset, long stride, int n, double[] to, int at) {
    if (n > 0 && stride == 1 && tensor.dtype() == DType.F64) {
      MemorySegment.copy(tensor.segment(), JAVA_DOUBLE_UNALIGNED, offset << 3, to, at, n);
      return;
    }
    for (int i = 0; i < n; i++) {
      to[at + i] = tensor.at(offset + i * stride);
    }
  }

  @Override
  void readRun(Elements from, long offset, int n, double scale, double[] to, int at) {
    read(from.tensor(), offset, 1, n, to, at);
    if (scale != 1) {
      multiply(to, at, n, scale);
    }
  }

  @Override
  void write(double[] from, int at, int n, Tensor tensor, long offset, long stride) {
    if (n > 0 && stride == 1 && tensor.dtype() == DType.F64) {
      MemorySegment.copy(from, at, tensor.segment(), JAVA_DOUBLE_UNALIGNED, offset << 3, n);
      return;
    }
    for (int i = 0; i < n; i++) {
      tensor.setAt(offset + i * stride, from[at + i]);
    }
  }

  @Override
  void multiply(double[] x, int at, int n, double factor) {
    for (int i = at; i < at + n; i++) {
      x[i] *= factor;
    }
  }

  @Override
  boolean divide(double[] x, int at, int n, double divisor) {
    boolean finite = true;
    for (int i = at; i < at + n; i++) {
      x[i] = x[i] / divisor + 0.0;
      finite &= Math.abs(x[i]) <= Double.MAX_VALUE;
    }
    return finite;
  }

  @Override
  void clear(double[] x, int at, int n) {
    Arrays.fill(x, at, at + n, 0);
  }
}
