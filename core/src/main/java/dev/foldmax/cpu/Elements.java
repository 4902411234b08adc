package dev.foldmax.cpu;

import static java.lang.foreign.ValueLayout.JAVA_DOUBLE_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_SHORT_UNALIGNED;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import dev.foldmax.spi.Rows;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * The memory of a tensor as row kernels see it: runs of elements along the last dimension, which
 * are read into and written from arrays, or used where they lie when that is a heap array of the
 * kernel's own type without gaps.
 */
final class Elements {
  /** No step leads from each to the next; their places take a division for each dimension. */
  private static final long SCATTERED = Long.MIN_VALUE;

  private final Tensor tensor;
  private final MemorySegment segment;
  private final DType dtype;

  /** The step from an element of a row to the next. */
  private final long stride;

  /** The step from a row to the next, or {@link #SCATTERED}. */
  private final long rowStep;

  /** The step from an element to the next in row-major order, or {@link #SCATTERED}. */
  private final long elementStep;

  /** The array behind a tensor of F32 that can be used in place, or null. */
  private final float @Nullable [] floats;

  /** The array behind a tensor of F64 that can be used in place, or null. */
  private final double @Nullable [] doubles;

  /** The array behind a tensor of I64 that can be used in place, or null. */
  private final long @Nullable [] longs;

  /** The array behind a tensor of F16 or BF16 that can be used in place, or null. */
  private final short @Nullable [] shorts;

  /** The array behind a tensor of I8 that can be used in place, or null. */
  private final byte @Nullable [] bytes;

  /** The position of the tensor's first element in that array. */
  private final long base;

  private Elements(Tensor tensor) {
    this.tensor = tensor;
    this.segment = tensor.segment();
    this.dtype = tensor.dtype();
    this.stride = tensor.rank() == 0 || tensor.shape(-1) <= 1 ? 1 : tensor.stride(-1);
    this.rowStep = step(tensor, tensor.rank() - 1);
    this.elementStep = step(tensor, tensor.rank());
    Object array = segment.heapBase().orElse(null);
    boolean usable = stride == 1 && segment.address() % dtype.bytes() == 0;
    this.floats = usable && dtype == DType.F32 && array instanceof float[] f ? f : null;
    this.doubles = usable && dtype == DType.F64 && array instanceof double[] d ? d : null;
    this.longs = usable && dtype == DType.I64 && array instanceof long[] l ? l : null;
    boolean isHalf = dtype == DType.F16 || dtype == DType.BF16;
    this.shorts = usable && isHalf && array instanceof short[] s ? s : null;
    this.bytes = usable && dtype == DType.I8 && array instanceof byte[] b ? b : null;
    this.base = segment.address() / dtype.bytes();
  }

  /** The step between consecutive indices of the leading dimensions, or {@link #SCATTERED}. */
  private static long step(Tensor tensor, int dimensions) {
    long step = 0;
    long size = 1;
    for (int axis = dimensions - 1; axis >= 0; axis--) {
      if (tensor.shape(axis) == 1) {
        continue;
      }
      if (size == 1) {
        step = tensor.stride(axis);
      } else if (tensor.stride(axis) != size * step) {
        return SCATTERED;
      }
      size *= tensor.shape(axis);
    }
    return step;
  }

  static Elements of(Tensor tensor) {
    return new Elements(tensor);
  }

  /** The offset, in elements, of an element of a row. */
  long offset(long row, long index) {
    long first = rowStep == SCATTERED ? Rows.offset(tensor, row) : row * rowStep;
    return first + index * stride;
  }

  /** The offset, in elements, of an element by its number in row-major order. */
  long elementOffset(long element) {
    return elementStep == SCATTERED ? Rows.elementOffset(tensor, element) : element * elementStep;
  }

  float @Nullable [] floats() {
    return floats;
  }

  double @Nullable [] doubles() {
    return doubles;
  }

  byte @Nullable [] bytes() {
    return bytes;
  }

  Tensor tensor() {
    return tensor;
  }

  /** Whether both may lie in one place; the array behind a read-only segment is not known. */
  @SuppressWarnings("ReferenceEquality") // the very array, not an equal one
  boolean mayShare(Elements other) {
    if (dtype != other.dtype || segment.isNative() != other.segment.isNative()) {
      return false;
    }
    if (floats != null && other.floats != null) {
      return floats == other.floats;
    }
    return doubles == null || other.doubles == null || doubles == other.doubles;
  }

  /** The position of the element at an offset in whichever array there is. */
  int position(long offset) {
    return Math.toIntExact(base + offset);
  }

  /** The element at an offset. */
  double at(long offset) {
    return floats != null ? floats[position(offset)] : tensor.at(offset);
  }

  /** Copies one element to another tensor, bit for bit if the types are the same. */
  void copyElement(long offset, Elements to, long toOffset) {
    if (floats != null && to.floats != null) {
      to.floats[to.position(toOffset)] = floats[position(offset)];
    } else if (to.dtype == dtype) {
      int bytes = dtype.bytes();
      MemorySegment.copy(segment, offset * bytes, to.segment, toOffset * bytes, bytes);
    } else {
      to.tensor.setAt(toOffset, tensor.at(offset));
    }
  }

  /** Rounds a number into the element at an offset. */
  void setAt(long offset, double number) {
    if (floats != null) {
      floats[position(offset)] = (float) number;
    } else {
      tensor.setAt(offset, number);
    }
  }

  /** Sets the element at an offset of a tensor of integers. */
  void setLongAt(long offset, long number) {
    if (longs != null) {
      longs[position(offset)] = number;
    } else {
      tensor.setLongAt(offset, number);
    }
  }

  /** Copies a run of elements to a run of another tensor, bit for bit if the types are the same. */
  void copyRun(long offset, Elements to, long toOffset, long n) {
    if (n > 0 && stride == 1 && to.stride == 1 && to.dtype == dtype) {
      int bytes = dtype.bytes();
      MemorySegment.copy(segment, offset * bytes, to.segment, toOffset * bytes, n * bytes);
      return;
    }
    for (long i = 0; i < n; i++) {
      copyElement(offset + i * stride, to, toOffset + i * to.stride);
    }
  }

  /**
   * Reads a run of F32, F16 or BF16. 16-bit elements in arrays are converted where they lie: with a
   * copy in between, converting took most of the time of decoding over such keys and values.
   *
   * @param bits room for 16-bit elements on their way
   */
  void read(long offset, float[] into, int at, int n, short[] bits) {
    switch (dtype) {
      case F32 -> {
        if (stride == 1) {
          MemorySegment.copy(segment, JAVA_FLOAT_UNALIGNED, offset << 2, into, at, n);
          return;
        }
        for (int i = 0; i < n; i++) {
          into[at + i] = segment.get(JAVA_FLOAT_UNALIGNED, (offset + i * stride) << 2);
        }
      }
      case F16, BF16 -> {
        if (shorts != null) {
          convert(shorts, position(offset), into, at, n);
          return;
        }
        for (int done = 0; done < n; done += bits.length) {
          int part = Math.min(bits.length, n - done);
          readBits(offset + done * stride, bits, part);
          convert(bits, 0, into, at + done, part);
        }
      }
      default -> throw new IllegalStateException("read as float32: " + tensor);
    }
  }

  private void convert(short[] bits, int from, float[] into, int at, int n) {
    if (dtype == DType.BF16) {
      HalfConversions.fromBf16(bits, from, into, at, n);
    } else {
      HalfConversions.fromF16(bits, from, into, at, n);
    }
  }

  private void readBits(long offset, short[] bits, int n) {
    if (stride == 1) {
      MemorySegment.copy(segment, JAVA_SHORT_UNALIGNED, offset << 1, bits, 0, n);
      return;
    }
    for (int i = 0; i < n; i++) {
      bits[i] = segment.get(JAVA_SHORT_UNALIGNED, (offset + i * stride) << 1);
    }
  }

  /** Reads a run of any floating type. */
  void read(long offset, double[] into, int at, int n) {
    if (dtype == DType.F64 && stride == 1) {
      MemorySegment.copy(segment, JAVA_DOUBLE_UNALIGNED, offset << 3, into, at, n);
      return;
    }
    for (int i = 0; i < n; i++) {
      into[at + i] = tensor.at(offset + i * stride);
    }
  }

  /**
   * Writes a run, each element rounded once.
   *
   * @param bits room for 16-bit elements on their way
   */
  void write(float[] from, int at, long offset, int n, short[] bits) {
    switch (dtype) {
      case F32 -> {
        if (stride == 1) {
          MemorySegment.copy(from, at, segment, JAVA_FLOAT_UNALIGNED, offset << 2, n);
          return;
        }
        for (int i = 0; i < n; i++) {
          segment.set(JAVA_FLOAT_UNALIGNED, (offset + i * stride) << 2, from[at + i]);
        }
      }
      case F16, BF16 -> {
        for (int done = 0; done < n; done += bits.length) {
          int part = Math.min(bits.length, n - done);
          if (dtype == DType.BF16) {
            HalfConversions.toBf16(from, at + done, bits, part);
          } else {
            HalfConversions.toF16(from, at + done, bits, part);
          }
          writeBits(bits, offset + done * stride, part);
        }
      }
      default -> {
        for (int i = 0; i < n; i++) {
          tensor.setAt(offset + i * stride, from[at + i]);
        }
      }
    }
  }

  private void writeBits(short[] bits, long offset, int n) {
    if (stride == 1) {
      MemorySegment.copy(bits, 0, segment, JAVA_SHORT_UNALIGNED, offset << 1, n);
      return;
    }
    for (int i = 0; i < n; i++) {
      segment.set(JAVA_SHORT_UNALIGNED, (offset + i * stride) << 1, bits[i]);
    }
  }

  /** Writes a run, each element rounded once. */
  void write(double[] from, int at, long offset, int n) {
    if (dtype == DType.F64 && stride == 1) {
      MemorySegment.copy(from, at, segment, JAVA_DOUBLE_UNALIGNED, offset << 3, n);
      return;
    }
    for (int i = 0; i < n; i++) {
      tensor.setAt(offset + i * stride, from[at + i]);
    }
  }
}
