package dev.foldmax.benchmarks.gpu;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;

/**
 * The same random elements as the script has: for each type a file with a block of them, which
 * tensors repeat from different places on. On the device, so that gigabytes are filled at once.
 */
final class RandomData {
  /** Elements between the places at which tensors begin, a large odd multiple of 16 bytes. */
  private static final long STEP = 8L * 1_237_937;

  private final Backend backend;
  private final Arena arena;
  private final Path folder;
  private final Map<DType, Tensor> blocks = new EnumMap<>(DType.class);

  /**
   * With blocks as long as the arena is open.
   *
   * @param folder has files such as {@code bf16.bin}, of elements in the machine's byte order
   */
  RandomData(Backend backend, Arena arena, Path folder) {
    this.backend = backend;
    this.arena = arena;
    this.folder = folder;
  }

  /**
   * A tensor with elements of the block.
   *
   * @param number decides the place at which they begin
   */
  Tensor tensor(Arena lifetime, int number, DType dtype, long... shape) {
    Tensor tensor = backend.allocate(lifetime, dtype, shape);
    Tensor flat = tensor.reshape(tensor.elements());
    Tensor block = blocks.computeIfAbsent(dtype, this::read);
    long length = block.elements();
    long from = number * STEP % length;
    for (long done = 0; done < flat.elements(); ) {
      long count = Math.min(length - from, flat.elements() - done);
      backend.copy(block.slice(0, from, from + count), flat.slice(0, done, done + count));
      done += count;
      from = 0;
    }
    return tensor;
  }

  private Tensor read(DType dtype) {
    Path file = folder.resolve(dtype.name().toLowerCase(Locale.ROOT) + ".bin");
    try (Arena mapping = Arena.ofShared();
        FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
      long bytes = Files.size(file);
      MemorySegment segment = channel.map(FileChannel.MapMode.READ_ONLY, 0, bytes, mapping);
      return backend.upload(arena, Tensor.of(segment, dtype, bytes / dtype.bytes()));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
