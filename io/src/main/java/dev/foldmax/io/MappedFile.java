package dev.foldmax.io;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;

/** A whole file, mapped read-only, with the checks that every format needs. Thread-safe. */
final class MappedFile implements AutoCloseable {
  /** As in NumPy. It bounds what a header can make a reader hold for one tensor. */
  static final int MAX_RANK = 64;

  private final Path path;
  private final Arena arena;
  private final MemorySegment segment;

  private MappedFile(Path path, Arena arena, MemorySegment segment) {
    this.path = path;
    this.arena = arena;
    this.segment = segment;
  }

  /** Maps a file; it stays mapped until {@link #close}. */
  @SuppressWarnings("MustBeClosedChecker") // The result owns the arena.
  static MappedFile open(Path path) throws IOException {
    // Opening a pipe would wait for a writer.
    if (Files.exists(path) && !Files.isRegularFile(path)) {
      throw new FormatException(path, "is not a regular file");
    }
    Arena arena = Arena.ofShared();
    try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
      return new MappedFile(path, arena, channel.map(MapMode.READ_ONLY, 0, channel.size(), arena));
    } catch (Throwable e) {
      arena.close();
      throw e;
    }
  }

  long size() {
    return segment.byteSize();
  }

  /**
   * Some of the file's bytes; the caller has made sure that the file has them.
   *
   * @throws IllegalStateException if the file was closed
   */
  MemorySegment slice(long offset, long length) {
    if (!arena.scope().isAlive()) {
      throw new IllegalStateException(path + ": is closed");
    }
    return segment.asSlice(offset, length);
  }

  /** A copy of a few of the file's bytes, as {@link #slice}. */
  byte[] bytes(long offset, long length) {
    return slice(offset, length).toArray(JAVA_BYTE);
  }

  /** A row-major view; shape and length were checked with {@link #byteSize}. */
  Tensor tensor(long offset, DType dtype, long... shape) {
    long length = dtype.bytes();
    for (long size : shape) {
      length *= size;
    }
    return Tensor.of(slice(offset, length), dtype, shape);
  }

  /** Whether the file begins with these bytes. */
  boolean startsWith(int... magic) {
    if (size() < magic.length) {
      return false;
    }
    for (int i = 0; i < magic.length; i++) {
      if (Byte.toUnsignedInt(segment.get(JAVA_BYTE, i)) != magic[i]) {
        return false;
      }
    }
    return true;
  }

  /** Whether this is a zip archive that is not empty. */
  boolean isZip() {
    return startsWith('P', 'K', 3, 4);
  }

  /**
   * The size in bytes of an array.
   *
   * @param what the array, for the message
   * @throws FormatException if there are too many dimensions, a size is negative, or sizes other
   *     than 0 multiply to more than 64 bits can count: an empty array needs strides, too
   */
  long byteSize(String what, List<Long> shape, int elementBytes) throws FormatException {
    if (shape.size() > MAX_RANK) {
      throw error(what + " has " + shape.size() + " dimensions, more than " + MAX_RANK);
    }
    long bytes = elementBytes;
    boolean empty = false;
    for (long size : shape) {
      if (size < 0) {
        throw error(what + " has a negative size in its shape " + shape);
      }
      empty |= size == 0;
      try {
        bytes = Math.multiplyExact(bytes, Math.max(1, size));
      } catch (ArithmeticException e) {
        throw error(what + " has more bytes than 64 bits can count: shape " + shape);
      }
    }
    return empty ? 0 : bytes;
  }

  FormatException error(String problem) {
    return new FormatException(path, problem);
  }

  FormatException error(String problem, Throwable cause) {
    return new FormatException(path, problem, cause);
  }

  @Override
  public synchronized void close() {
    if (arena.scope().isAlive()) {
      arena.close();
    }
  }

  @Override
  public String toString() {
    return path.toString();
  }
}
