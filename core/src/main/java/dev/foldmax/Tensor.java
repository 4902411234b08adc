package dev.foldmax;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_SHORT_UNALIGNED;

import dev.foldmax.spi.DeviceMemory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * A view of a {@link MemorySegment} as an array of any number of dimensions: a {@link DType}, a
 * shape, and a stride for each dimension.
 *
 * <p>Nothing is ever copied on the way in: {@code Tensor.of(array, shape)} wraps a heap array,
 * {@code Tensor.of(segment, dtype, shape)} wraps native or mapped memory, and {@link #slice},
 * {@link #permute} and {@link #expand} give other views of the same memory. Sizes, offsets and
 * strides are 64-bit and count elements; a segment need not be aligned to the element size.
 *
 * <p>A tensor of a device ({@link Backend#upload}) has the same views, but only that device's
 * backend reads and writes its elements: {@link #segment} and all access to elements is an {@link
 * IllegalStateException}.
 *
 * <p>A tensor is immutable, its memory is not: it is as thread-safe as the memory behind it. The
 * tensor keeps a heap array alive; whoever wraps a segment of an {@link Arena} keeps that arena
 * open (access after it is closed is an {@link IllegalStateException}, never a crash).
 */
public final class Tensor {
  private final DType dtype;
  private final long[] shape;
  private final long[] strides;
  private final MemorySegment segment; // of length 0 where the elements lie on a device
  private final @Nullable DeviceMemory device;
  private final long deviceOffset; // of the first element, in bytes

  private Tensor(DType dtype, long[] shape, long[] strides, MemorySegment segment) {
    this(dtype, shape, strides, segment, null, 0);
  }

  private Tensor(
      DType dtype,
      long[] shape,
      long[] strides,
      MemorySegment segment,
      @Nullable DeviceMemory device,
      long deviceOffset) {
    this.dtype = dtype;
    this.shape = shape;
    this.strides = strides;
    this.segment = segment;
    this.device = device;
    this.deviceOffset = deviceOffset;
  }

  /** Another view of the same memory, from a byte of it on. */
  private Tensor view(long[] newShape, long[] newStrides, long skippedBytes) {
    return device == null
        ? new Tensor(
            dtype,
            newShape,
            newStrides,
            skippedBytes == 0 ? segment : segment.asSlice(skippedBytes))
        : new Tensor(dtype, newShape, newStrides, segment, device, deviceOffset + skippedBytes);
  }

  /** Wraps a heap array as F32, row-major; the array's length must be the shape's product. */
  public static Tensor of(float[] array, long... shape) {
    return ofArray(MemorySegment.ofArray(array), DType.F32, array.length, shape);
  }

  /** Wraps a heap array as F64, row-major; the array's length must be the shape's product. */
  public static Tensor of(double[] array, long... shape) {
    return ofArray(MemorySegment.ofArray(array), DType.F64, array.length, shape);
  }

  /** Wraps a heap array as I32, row-major; the array's length must be the shape's product. */
  public static Tensor of(int[] array, long... shape) {
    return ofArray(MemorySegment.ofArray(array), DType.I32, array.length, shape);
  }

  /** Wraps a heap array as I64, row-major; the array's length must be the shape's product. */
  public static Tensor of(long[] array, long... shape) {
    return ofArray(MemorySegment.ofArray(array), DType.I64, array.length, shape);
  }

  /**
   * Wraps a heap array of 16-bit floats, row-major.
   *
   * @param dtype F16 or BF16
   */
  public static Tensor of(short[] array, DType dtype, long... shape) {
    if (dtype.bytes() != Short.BYTES) {
      throw new IllegalArgumentException("dtype: a short[] holds F16 or BF16, not " + dtype);
    }
    return ofArray(MemorySegment.ofArray(array), dtype, array.length, shape);
  }

  /**
   * Wraps a heap array of bytes, row-major.
   *
   * @param dtype I8 or BOOL
   */
  public static Tensor of(byte[] array, DType dtype, long... shape) {
    if (dtype.bytes() != Byte.BYTES) {
      throw new IllegalArgumentException("dtype: a byte[] holds I8 or BOOL, not " + dtype);
    }
    return ofArray(MemorySegment.ofArray(array), dtype, array.length, shape);
  }

  /** A new BOOL tensor with a copy of the given values, row-major. */
  public static Tensor of(boolean[] values, long... shape) {
    byte[] bytes = new byte[values.length];
    for (int i = 0; i < values.length; i++) {
      bytes[i] = (byte) (values[i] ? 1 : 0);
    }
    return of(bytes, DType.BOOL, shape);
  }

  /**
   * Wraps a segment, row-major from its first byte. The segment may be longer than the tensor, on
   * or off the heap, read-only, and unaligned.
   */
  public static Tensor of(MemorySegment segment, DType dtype, long... shape) {
    return strided(segment, dtype, shape, rowMajor(shape));
  }

  /**
   * Wraps a segment with strides of the caller's.
   *
   * @param shape at least 0 each
   * @param strides in elements, at least 0 each; 0 repeats the same elements along a dimension
   * @throws IllegalArgumentException if the last element would lie outside the segment
   */
  public static Tensor strided(MemorySegment segment, DType dtype, long[] shape, long[] strides) {
    if (shape.length != strides.length) {
      throw new IllegalArgumentException(
          "strides: expected one for each dimension of shape "
              + Arrays.toString(shape)
              + ", got "
              + Arrays.toString(strides));
    }
    long elements = elements(shape);
    long last = 0;
    try {
      for (int i = 0; i < shape.length; i++) {
        if (strides[i] < 0) {
          throw new IllegalArgumentException(
              "strides: must be at least 0, got " + Arrays.toString(strides));
        }
        if (elements > 0) {
          last = Math.addExact(last, Math.multiplyExact(shape[i] - 1, strides[i]));
        }
      }
      checkFits("segment", segment.byteSize(), dtype, elements == 0 ? 0 : last + 1, shape);
    } catch (ArithmeticException e) {
      throw new IllegalArgumentException(
          "shape: "
              + Arrays.toString(shape)
              + " with strides "
              + Arrays.toString(strides)
              + " is beyond 64-bit offsets",
          e);
    }
    return new Tensor(dtype, shape.clone(), strides.clone(), segment);
  }

  /**
   * A new tensor of zeros, row-major: in a heap array where one is large enough, else in native
   * memory that the garbage collector frees.
   */
  public static Tensor allocate(DType dtype, long... shape) {
    long elements = elements(shape);
    MemorySegment segment;
    if (elements <= Integer.MAX_VALUE - 8) {
      int n = (int) elements;
      segment =
          switch (dtype) {
            case F64 -> MemorySegment.ofArray(new double[n]);
            case F32 -> MemorySegment.ofArray(new float[n]);
            case F16, BF16 -> MemorySegment.ofArray(new short[n]);
            case I8, BOOL -> MemorySegment.ofArray(new byte[n]);
            case I32 -> MemorySegment.ofArray(new int[n]);
            case I64 -> MemorySegment.ofArray(new long[n]);
          };
    } else {
      segment = Arena.ofAuto().allocate(bytes(dtype, shape), 64);
    }
    return of(segment, dtype, shape);
  }

  /**
   * A view of a device's memory, row-major from its first byte; for authors of backends.
   *
   * @throws IllegalArgumentException if the memory is too small
   */
  public static Tensor on(DeviceMemory memory, DType dtype, long... shape) {
    long[] strides = rowMajor(shape);
    checkFits("device memory", memory.byteSize(), dtype, elements(shape), shape);
    return new Tensor(dtype, shape.clone(), strides, MemorySegment.NULL, memory, 0);
  }

  private static void checkFits(
      String name, long available, DType dtype, long elements, long[] shape) {
    long needed = Math.multiplyExact(elements, dtype.bytes());
    if (needed > available) {
      throw new IllegalArgumentException(
          name
              + ": "
              + dtype
              + Arrays.toString(shape)
              + " needs "
              + needed
              + " bytes, the "
              + name
              + " has "
              + available);
    }
  }

  private static Tensor ofArray(MemorySegment segment, DType dtype, int length, long[] shape) {
    if (elements(shape) != length) {
      throw new IllegalArgumentException(
          "shape: "
              + Arrays.toString(shape)
              + " has "
              + elements(shape)
              + " elements, the array has "
              + length);
    }
    return of(segment, dtype, shape);
  }

  /** The size in bytes of a contiguous tensor. */
  static long bytes(DType dtype, long[] shape) {
    long elements = elements(shape);
    if (elements > Long.MAX_VALUE / dtype.bytes()) {
      throw new IllegalArgumentException(
          "shape: " + dtype + Arrays.toString(shape) + " has more bytes than 64 bits can count");
    }
    return elements * dtype.bytes();
  }

  private static long elements(long[] shape) {
    long product = 1;
    boolean empty = false;
    for (long size : shape) {
      if (size < 0) {
        throw new IllegalArgumentException(
            "shape: sizes must be at least 0, got " + Arrays.toString(shape));
      }
      empty |= size == 0;
    }
    if (empty) {
      return 0;
    }
    for (long size : shape) {
      try {
        product = Math.multiplyExact(product, size);
      } catch (ArithmeticException e) {
        throw new IllegalArgumentException(
            "shape: " + Arrays.toString(shape) + " has more elements than 64 bits can count", e);
      }
    }
    return product;
  }

  private static long[] rowMajor(long[] shape) {
    boolean empty = elements(shape) == 0;
    long[] strides = new long[shape.length];
    long stride = 1;
    for (int i = shape.length - 1; i >= 0; i--) {
      strides[i] = stride;
      stride = empty ? 1 : stride * shape[i]; // nothing is ever addressed; the product may overflow
    }
    return strides;
  }

  /** The element type. */
  public DType dtype() {
    return dtype;
  }

  /** The number of dimensions. */
  public int rank() {
    return shape.length;
  }

  /**
   * The size of a dimension.
   *
   * @param axis 0 for the first; negative counts from the end, -1 for the last
   */
  public long shape(int axis) {
    return shape[checkAxis(axis)];
  }

  /** A copy of the shape. */
  public long[] shape() {
    return shape.clone();
  }

  /** The stride of a dimension in elements; {@code axis} as in {@link #shape(int)}. */
  public long stride(int axis) {
    return strides[checkAxis(axis)];
  }

  /** The number of elements: the product of the shape; 1 for a scalar. */
  public long elements() {
    long product = 1;
    for (long size : shape) {
      product *= size;
    }
    return product;
  }

  /**
   * The memory: element {@code (i, j, ...)} lies at byte {@code (i * stride(0) + j * stride(1) +
   * ...) * dtype().bytes()} of it.
   *
   * @throws IllegalStateException for a tensor on a device
   */
  public MemorySegment segment() {
    if (device != null) {
      throw new IllegalStateException(
          this + " cannot be read or written by the host: Backend.download makes a copy");
    }
    return segment;
  }

  /** Whether the elements lie in memory of this process, and not on a device. */
  public boolean isOnHost() {
    return device == null;
  }

  /** The device memory that this is a view of, or null for a tensor on the host. */
  public @Nullable DeviceMemory deviceMemory() {
    return device;
  }

  /**
   * The address of the first element of a tensor on a device.
   *
   * @throws IllegalStateException for a tensor on the host, and after the memory was freed
   */
  public long deviceAddress() {
    if (device == null) {
      throw new IllegalStateException(this + " lies on the host: Backend.upload copies it");
    }
    return device.address() + deviceOffset;
  }

  /** Whether the elements lie without gaps in row-major order. */
  public boolean isContiguous() {
    long expected = 1;
    for (int i = shape.length - 1; i >= 0; i--) {
      if (shape[i] != 1 && strides[i] != expected) {
        return elements() == 0;
      }
      expected *= shape[i];
    }
    return true;
  }

  /** Whether two tensors have the same shape. */
  public boolean hasShapeOf(Tensor other) {
    return Arrays.equals(shape, other.shape);
  }

  /**
   * A view of part of a dimension.
   *
   * @param axis as in {@link #shape(int)}
   * @param begin the first index, inclusive
   * @param end one past the last index
   */
  public Tensor slice(int axis, long begin, long end) {
    int dimension = checkAxis(axis);
    if (begin < 0 || end < begin || end > shape[dimension]) {
      throw new IndexOutOfBoundsException(
          "slice: " + begin + ".." + end + " does not lie within axis " + axis + " of " + this);
    }
    long[] sliced = shape.clone();
    sliced[dimension] = end - begin;
    long skipped = elements(sliced) == 0 ? 0 : begin * strides[dimension] * dtype.bytes();
    return view(sliced, strides, skipped);
  }

  /** A view without a dimension, at one index of it. */
  public Tensor select(int axis, long index) {
    int dimension = checkAxis(axis);
    Tensor one = slice(axis, index, index + 1);
    return one.view(without(one.shape, dimension), without(strides, dimension), 0);
  }

  /**
   * A view with the dimensions in another order: dimension {@code i} of the result is dimension
   * {@code axes[i]} of this tensor. {@code permute(0, 2, 1, 3)} turns (batch, length, heads, dim)
   * into (batch, heads, length, dim).
   */
  public Tensor permute(int... axes) {
    long[] permutedShape = new long[shape.length];
    long[] permutedStrides = new long[shape.length];
    boolean[] seen = new boolean[shape.length];
    if (axes.length != shape.length) {
      throw new IllegalArgumentException(
          "axes: expected " + shape.length + " of them, got " + Arrays.toString(axes));
    }
    for (int i = 0; i < axes.length; i++) {
      int axis = checkAxis(axes[i]);
      if (seen[axis]) {
        throw new IllegalArgumentException(
            "axes: each dimension once, got " + Arrays.toString(axes));
      }
      seen[axis] = true;
      permutedShape[i] = shape[axis];
      permutedStrides[i] = strides[axis];
    }
    return view(permutedShape, permutedStrides, 0);
  }

  /**
   * A view in a larger shape, by the broadcasting rules of NumPy: missing leading dimensions are
   * added, and dimensions of size 1 repeat.
   */
  public Tensor expand(long... target) {
    elements(target);
    if (!broadcastsTo(target)) {
      throw new IllegalArgumentException(
          "expand: " + this + " does not broadcast to " + Arrays.toString(target));
    }
    int added = target.length - shape.length;
    long[] expanded = new long[target.length];
    for (int i = 0; i < shape.length; i++) {
      expanded[i + added] = shape[i] == target[i + added] ? strides[i] : 0;
    }
    return view(target.clone(), expanded, 0);
  }

  /** Whether {@link #expand} to the given shape would succeed. */
  public boolean broadcastsTo(long... target) {
    int added = target.length - shape.length;
    for (int i = 0; i < shape.length; i++) {
      if (added < 0 || (shape[i] != 1 && shape[i] != target[i + added])) {
        return false;
      }
    }
    return true;
  }

  /** A view with another shape of as many elements; only for a contiguous tensor. */
  public Tensor reshape(long... target) {
    if (!isContiguous() || elements(target) != elements()) {
      throw new IllegalArgumentException(
          "reshape: "
              + this
              + (isContiguous() ? "" : ", which is not contiguous,")
              + " cannot be viewed as "
              + Arrays.toString(target));
    }
    return view(target.clone(), rowMajor(target), 0);
  }

  /**
   * The offset, in elements, of an index into the broadcast of this tensor to four dimensions:
   * leading dimensions that it lacks and dimensions of size 1 are ignored.
   */
  public long broadcastOffset(long a, long b, long c, long d) {
    int n = shape.length;
    long offset = 0;
    if (n > 0 && shape[n - 1] != 1) {
      offset += d * strides[n - 1];
    }
    if (n > 1 && shape[n - 2] != 1) {
      offset += c * strides[n - 2];
    }
    if (n > 2 && shape[n - 3] != 1) {
      offset += b * strides[n - 3];
    }
    if (n > 3 && shape[n - 4] != 1) {
      offset += a * strides[n - 4];
    }
    return offset;
  }

  /** The offset, in elements, of an index; checked against the shape. */
  public long offset(long... index) {
    if (index.length != shape.length) {
      throw new IndexOutOfBoundsException("index: " + Arrays.toString(index) + " into " + this);
    }
    long offset = 0;
    for (int i = 0; i < index.length; i++) {
      if (index[i] < 0 || index[i] >= shape[i]) {
        throw new IndexOutOfBoundsException("index: " + Arrays.toString(index) + " into " + this);
      }
      offset += index[i] * strides[i];
    }
    return offset;
  }

  /** The element at an index, as a float64; exact for every type but I64 beyond 2^53. */
  public double get(long... index) {
    return at(offset(index));
  }

  /** Sets the element at an index, rounded once to this tensor's type. */
  public void set(double value, long... index) {
    setAt(offset(index), value);
  }

  /** The element at an offset in elements, as a float64. */
  public double at(long offset) {
    return switch (dtype) {
      case F64 -> segment().get(JAVA_DOUBLE_UNALIGNED, offset << 3);
      case F32 -> segment().get(JAVA_FLOAT_UNALIGNED, offset << 2);
      case F16 -> Float.float16ToFloat(segment().get(JAVA_SHORT_UNALIGNED, offset << 1));
      case BF16 -> DType.bf16ToFloat(segment().get(JAVA_SHORT_UNALIGNED, offset << 1));
      case I8 -> segment().get(JAVA_BYTE, offset);
      case BOOL -> segment().get(JAVA_BYTE, offset) == 0 ? 0 : 1;
      case I32 -> segment().get(JAVA_INT_UNALIGNED, offset << 2);
      case I64 -> segment().get(JAVA_LONG_UNALIGNED, offset << 3);
    };
  }

  /**
   * Sets the element at an offset in elements, rounded once to this tensor's type; integers take
   * the nearest value in their range.
   */
  public void setAt(long offset, double value) {
    switch (dtype) {
      case F64 -> segment().set(JAVA_DOUBLE_UNALIGNED, offset << 3, value);
      case F32 -> segment().set(JAVA_FLOAT_UNALIGNED, offset << 2, (float) value);
      case F16 -> segment().set(JAVA_SHORT_UNALIGNED, offset << 1, DType.doubleToF16(value));
      case BF16 -> segment().set(JAVA_SHORT_UNALIGNED, offset << 1, DType.doubleToBf16(value));
      case I8 -> segment().set(JAVA_BYTE, offset, (byte) Math.clamp(Math.rint(value), -128, 127));
      case BOOL -> segment().set(JAVA_BYTE, offset, (byte) (value == 0 ? 0 : 1));
      case I32 -> segment().set(JAVA_INT_UNALIGNED, offset << 2, (int) Math.rint(value));
      case I64 -> segment().set(JAVA_LONG_UNALIGNED, offset << 3, (long) Math.rint(value));
    }
  }

  /** The element of an I32 or I64 tensor at an offset in elements. */
  public long longAt(long offset) {
    return switch (dtype) {
      case I32 -> segment().get(JAVA_INT_UNALIGNED, offset << 2);
      case I64 -> segment().get(JAVA_LONG_UNALIGNED, offset << 3);
      default -> throw new IllegalStateException("expected I32 or I64, got " + this);
    };
  }

  /** Sets the element of an I32 or I64 tensor at an offset in elements. */
  public void setLongAt(long offset, long value) {
    switch (dtype) {
      case I32 -> segment().set(JAVA_INT_UNALIGNED, offset << 2, Math.toIntExact(value));
      case I64 -> segment().set(JAVA_LONG_UNALIGNED, offset << 3, value);
      default -> throw new IllegalStateException("expected I32 or I64, got " + this);
    }
  }

  /** Whether the element of a BOOL tensor at an offset in elements is true. */
  public boolean booleanAt(long offset) {
    return segment().get(JAVA_BYTE, offset) != 0;
  }

  /** A new, contiguous tensor with the same elements in another type, each rounded once. */
  public Tensor to(DType target) {
    Tensor copy = allocate(target, shape);
    copy.copyFrom(this);
    return copy;
  }

  /** A new, contiguous tensor with the same elements. */
  public Tensor copy() {
    return to(dtype);
  }

  /**
   * Copies the elements of a tensor of the same shape into this one, each rounded once to this
   * tensor's type. The two must not overlap unless they are the same view.
   */
  public void copyFrom(Tensor source) {
    if (!hasShapeOf(source)) {
      throw new IllegalArgumentException("copyFrom: " + source + " into " + this);
    }
    if (dtype == source.dtype && isContiguous() && source.isContiguous()) {
      long bytes = elements() * dtype.bytes();
      MemorySegment.copy(source.segment(), 0, segment(), 0, bytes);
      return;
    }
    boolean integers = dtype.isIndex() && source.dtype.isIndex();
    long[] index = new long[shape.length];
    long n = elements();
    for (long i = 0; i < n; i++) {
      if (integers) {
        setLongAt(offset(index), source.longAt(source.offset(index)));
      } else {
        setAt(offset(index), source.at(source.offset(index)));
      }
      increment(index);
    }
  }

  /** Sets every element, rounded once to this tensor's type. */
  public void fill(double value) {
    long[] index = new long[shape.length];
    long n = elements();
    for (long i = 0; i < n; i++) {
      setAt(offset(index), value);
      increment(index);
    }
  }

  /** The elements in row-major order as float32. */
  public float[] toFloatArray() {
    int n = Math.toIntExact(elements());
    float[] array = new float[n];
    of(array, n).reshape(shape).copyFrom(this);
    return array;
  }

  /** The elements in row-major order as float64. */
  public double[] toDoubleArray() {
    int n = Math.toIntExact(elements());
    double[] array = new double[n];
    of(array, n).reshape(shape).copyFrom(this);
    return array;
  }

  /**
   * The elements of a tensor of integers in row-major order.
   *
   * @throws IllegalArgumentException if the type is floating, whose fractions would be lost
   */
  public long[] toLongArray() {
    if (dtype.isFloating()) {
      throw new IllegalArgumentException(
          "toLongArray: expected integers, got " + this + "; toDoubleArray takes any type");
    }
    int n = Math.toIntExact(elements());
    long[] array = new long[n];
    of(array, n).reshape(shape).copyFrom(this);
    return array;
  }

  private void increment(long[] index) {
    for (int i = index.length - 1; i >= 0 && ++index[i] == shape[i]; i--) {
      index[i] = 0;
    }
  }

  private int checkAxis(int axis) {
    int dimension = axis < 0 ? axis + shape.length : axis;
    if (dimension < 0 || dimension >= shape.length) {
      throw new IndexOutOfBoundsException("axis: " + axis + " of " + this);
    }
    return dimension;
  }

  private static long[] without(long[] values, int index) {
    long[] rest = new long[values.length - 1];
    System.arraycopy(values, 0, rest, 0, index);
    System.arraycopy(values, index + 1, rest, index, rest.length - index);
    return rest;
  }

  /** The dtype and the shape, such as {@code F32(1, 8, 512, 64)}; not the elements. */
  @Override
  public String toString() {
    StringBuilder text = new StringBuilder(dtype.name()).append('(');
    for (int i = 0; i < shape.length; i++) {
      text.append(i == 0 ? "" : ", ").append(shape[i]);
    }
    text.append(')');
    return device == null ? text.toString() : text + " on " + device.device();
  }
}
