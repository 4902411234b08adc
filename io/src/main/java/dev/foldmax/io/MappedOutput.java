package dev.foldmax.io;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * A new file of tensors under way, mapped for writing, so that results of any size are computed
 * where they will lie and take no memory but pages that the system can write out. Its tensors hold
 * zeros at first.
 *
 * <pre>{@code
 * try (MappedOutput file = NpyFile.create(path, DType.F32, x.shape())) {
 *   backend.softmax(x, file.tensor());
 *   file.commit();
 * }
 * }</pre>
 *
 * <p>The file is whole or not there: until {@link #commit} it has a temporary name, {@code
 * .foldmax-*.tmp}, in the target's folder, and {@link #close} without it removes that and leaves
 * what was there before. Only a process that is killed leaves it behind. Tensors are valid until
 * {@link #close}, after {@link #commit} too.
 *
 * <p>Room on the disk is reserved when the file is made, on Linux where this module has native
 * access ({@code --enable-native-access=dev.foldmax.io}); elsewhere the free space is compared
 * once, and a disk that fills up meanwhile shows as an {@link InternalError} where a tensor is
 * written. Reserved, a file of several GiB is also written in less time.
 *
 * <p>Thread-safe, but for {@link #close} while others use the tensors.
 */
public final class MappedOutput implements AutoCloseable {
  private final Path path;
  private final AtomicFile file;
  private final Arena arena;
  private final MemorySegment segment;
  private final Map<String, Tensor> tensors;

  private MappedOutput(
      Path path, AtomicFile file, Arena arena, MemorySegment segment, Map<String, Tensor> tensors) {
    this.path = path;
    this.file = file;
    this.arena = arena;
    this.segment = segment;
    this.tensors = tensors;
  }

  /**
   * Where a tensor is to lie.
   *
   * @param offset of its first byte from the end of the header
   */
  record Place(String name, DType dtype, List<Long> shape, long offset) {}

  /** Makes and maps the file and writes its header. */
  @SuppressWarnings("MustBeClosedChecker") // The result owns file and arena.
  static MappedOutput create(Path path, byte[] header, List<Place> places) throws IOException {
    long size = size(header.length, places);
    AtomicFile file = AtomicFile.open(path);
    Arena arena = Arena.ofShared();
    try {
      DiskSpace.reserve(file, size);
      FileChannel channel = file.channel();
      MemorySegment segment = channel.map(MapMode.READ_WRITE, 0, size, arena);
      MemorySegment.copy(header, 0, segment, JAVA_BYTE, 0, header.length);
      Map<String, Tensor> tensors = new LinkedHashMap<>();
      for (Place place : places) {
        long begin = header.length + place.offset();
        long[] shape = place.shape().stream().mapToLong(Long::longValue).toArray();
        MemorySegment part = segment.asSlice(begin, end(place) - place.offset());
        tensors.put(place.name(), Tensor.of(part, place.dtype(), shape));
      }
      return new MappedOutput(path, file, arena, segment, tensors);
    } catch (Throwable e) {
      arena.close();
      try (file) {
        throw e;
      } catch (IOException failure) {
        throw AtomicFile.named(path, failure);
      }
    }
  }

  private static long size(long header, List<Place> places) {
    long size = header;
    for (Place place : places) {
      long end = end(place);
      if (end > Long.MAX_VALUE - header) {
        throw new IllegalArgumentException(
            "shape: " + place.shape() + " makes a file of more bytes than 64 bits can count");
      }
      size = Math.max(size, header + end);
    }
    return size;
  }

  private static long end(Place place) {
    SafeTensors.Description tensor = new SafeTensors.Description(place.dtype(), place.shape());
    return Math.addExact(place.offset(), tensor.bytes());
  }

  /**
   * A tensor to write into.
   *
   * @throws IllegalArgumentException if the file is to have none of that name
   */
  public Tensor tensor(String name) {
    Tensor tensor = tensors.get(name);
    if (tensor == null) {
      throw new IllegalArgumentException(
          FormatException.oneLine(
              path + ": is to have no tensor \"" + name + "\", only " + tensors.keySet()));
    }
    return tensor;
  }

  /**
   * The only tensor, as that of an {@code .npy} file.
   *
   * @throws IllegalStateException if there are several, or none
   */
  public Tensor tensor() {
    if (tensors.size() != 1) {
      throw new IllegalStateException(path + ": is to have " + tensors.size() + " tensors, not 1");
    }
    return tensors.values().iterator().next();
  }

  /**
   * Brings what was written to the disk, which takes a while for a large file, and gives the file
   * its name, in one step where the file system can.
   *
   * @throws IllegalStateException if it was committed or discarded before, or a commit has failed
   * @throws IOException if that fails; {@link #close} removes the file then
   */
  public void commit() throws IOException {
    file.checkUnderWay();
    try {
      segment.force();
    } catch (UncheckedIOException e) {
      throw AtomicFile.named(path, Objects.requireNonNull(e.getCause()));
    }
    file.commit();
  }

  /**
   * Removes the temporary file, from whichever thread, while tensors are written or {@link #commit}
   * is at work, which fails then: what a handler of signals can do that must not wait.
   *
   * @throws IOException if it cannot be removed
   */
  public void discard() throws IOException {
    file.discard();
  }

  /** Unmaps the file, and removes it unless it was committed. Does nothing the second time. */
  @Override
  public void close() throws IOException {
    if (arena.scope().isAlive()) {
      arena.close();
    }
    try {
      file.close();
    } catch (FileSystemException e) {
      throw AtomicFile.named(path, e);
    }
  }
}
