package dev.foldmax.io;

import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_SHORT_UNALIGNED;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;

/**
 * A {@code .npy} file of NumPy, memory-mapped: one tensor that is read from disk when it is first
 * touched.
 *
 * <p>Versions 1.0, 2.0 and 3.0 of the format are read, with element types f2, f4, f8, i1, i4, i8
 * and b1, in C order and in Fortran order (a view with permuted strides), of any size. Big-endian
 * elements alone are copied, once, when the file is opened. Bytes after the array are ignored, as
 * NumPy ignores them.
 *
 * <p>Thread-safe. A file must not be shortened while it is open, or access to the lost part ends in
 * an {@link InternalError}; to replace it by {@link #write} is safe, and leaves the open one as it
 * was.
 *
 * @see <a href="https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html">The
 *     format</a>
 */
public final class NpyFile implements AutoCloseable {
  private final MappedFile file;
  private final Tensor tensor;

  private NpyFile(MappedFile file, Tensor tensor) {
    this.file = file;
    this.tensor = tensor;
  }

  /**
   * Opens and maps a file. It stays mapped until it is closed.
   *
   * @throws FormatException if the file is not a {@code .npy} file, is damaged, or has another
   *     element type
   * @throws IOException if it cannot be read
   */
  public static NpyFile open(Path path) throws IOException {
    MappedFile file = MappedFile.open(path);
    try {
      return new NpyFile(file, map(file));
    } catch (Throwable e) {
      file.close();
      throw e;
    }
  }

  /**
   * The array, valid until the file is closed: a read-only view of the mapped file, or a copy in
   * memory's byte order if the file is big-endian.
   */
  public Tensor tensor() {
    return tensor;
  }

  private static Tensor map(MappedFile file) throws FormatException {
    NpyHeader header = NpyHeader.read(file);
    long[] shape = header.shape().stream().mapToLong(Long::longValue).toArray();
    int[] axes = new int[shape.length];
    for (int i = 0; i < axes.length; i++) {
      axes[i] = header.fortranOrder() ? axes.length - 1 - i : i;
    }
    // Fortran order is row-major order of the axes in reverse.
    long[] stored = Arrays.stream(axes).mapToLong(i -> shape[i]).toArray();
    Tensor elements = file.tensor(header.dataOffset(), header.dtype(), stored);
    return (header.bigEndian() ? swapped(elements) : elements).permute(axes);
  }

  private static Tensor swapped(Tensor elements) {
    ValueLayout layout =
        switch (elements.dtype().bytes()) {
          case Short.BYTES -> JAVA_SHORT_UNALIGNED;
          case Integer.BYTES -> JAVA_INT_UNALIGNED;
          default -> JAVA_LONG_UNALIGNED;
        };
    Tensor copy = Tensor.allocate(elements.dtype(), elements.shape());
    MemorySegment.copy(
        elements.segment(),
        layout.withOrder(ByteOrder.BIG_ENDIAN),
        0,
        copy.segment(),
        layout.withOrder(ByteOrder.LITTLE_ENDIAN),
        0,
        elements.elements());
    return copy;
  }

  /** Unmaps the file; its tensor's memory is gone. Does nothing when it was closed before. */
  @Override
  public void close() {
    file.close();
  }

  /**
   * Writes a tensor of any strides, in any memory, in C order and little-endian to a new file or in
   * place of one, in one step: a failure leaves no file, or the one that was there. The tensor may
   * lie in the very file that is replaced. Memory use is one buffer.
   *
   * @param tensor of any type; NumPy has no BF16, which is written as f4, exactly
   * @throws IOException if the file cannot be written
   */
  public static void write(Path path, Tensor tensor) throws IOException {
    byte[] header = NpyHeader.encode(tensor.dtype(), tensor.shape());
    AtomicFile.write(
        path,
        channel -> {
          ElementWriter writer = new ElementWriter(channel);
          writer.write(header);
          if (tensor.dtype() == DType.BF16) {
            writer.writeWidened(tensor);
          } else {
            writer.write(tensor);
          }
        });
  }

  /**
   * Begins a new file, to replace what has the name, whose array is computed in place: a view of
   * the mapped file. {@link MappedOutput} says what happens to it.
   *
   * @param dtype any type that NumPy has: not BF16
   * @throws IllegalArgumentException if a size is negative, or there are more bytes than 64 bits
   *     can count
   * @throws IOException if it cannot be made, or the disk lacks room for it
   */
  public static MappedOutput create(Path path, DType dtype, long... shape) throws IOException {
    if (dtype == DType.BF16) {
      throw new IllegalArgumentException("dtype: NumPy has no BF16; take F32");
    }
    SafeTensors.Description array;
    try {
      array = SafeTensors.Description.of(dtype, shape);
    } catch (ArithmeticException e) {
      throw new IllegalArgumentException(e.getMessage(), e);
    }
    byte[] header = NpyHeader.encode(dtype, shape);
    return MappedOutput.create(
        path, header, List.of(new MappedOutput.Place("", dtype, array.shape(), 0)));
  }
}
