package dev.foldmax.examples.decoder;

import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** One piece of memory for all layers: outside of the heap, or a mapped file. */
final class BufferCache extends KvCache {
  private static final int KEYS = 0;
  private static final int VALUES = 1;

  private final Arena arena;
  private final Tensor all; // (layers, keys and values, capacity, key heads, dim)

  private BufferCache(
      ModelShape shape, int capacity, DType dtype, Arena arena, MemorySegment memory) {
    super(shape);
    this.arena = arena;
    all = Tensor.of(memory, dtype, shape.layers(), 2, capacity, shape.keyHeads(), shape.dim());
  }

  /** Memory outside of the heap, as float32. */
  @SuppressWarnings("MustBeClosedChecker") // the result owns the arena
  static BufferCache offHeap(ModelShape shape, int capacity) {
    Arena arena = Arena.ofShared(); // not ofConfined: the backend's threads read it
    MemorySegment memory = arena.allocate(bytes(shape, capacity, DType.F32), 64);
    return new BufferCache(shape, capacity, DType.F32, arena, memory);
  }

  /** A file, as float16, which is made if it does not exist. */
  @SuppressWarnings("MustBeClosedChecker") // the result owns the arena
  static BufferCache mapped(ModelShape shape, int capacity, Path file) throws IOException {
    Arena arena = Arena.ofShared();
    try (FileChannel channel =
        FileChannel.open(
            file, StandardOpenOption.READ, StandardOpenOption.WRITE, StandardOpenOption.CREATE)) {
      long bytes = bytes(shape, capacity, DType.F16);
      MemorySegment memory = channel.map(MapMode.READ_WRITE, 0, bytes, arena);
      return new BufferCache(shape, capacity, DType.F16, arena, memory);
    }
  }

  private static long bytes(ModelShape shape, int capacity, DType dtype) {
    return 2L * shape.layers() * capacity * shape.rowSize() * dtype.bytes();
  }

  @Override
  KeyValues write(int layer, Tensor keys, Tensor values) {
    int end = endOf(keys, (int) all.shape(2));
    Tensor both = all.select(0, layer);
    return KeyValues.dense(
        write(both.select(0, KEYS), keys, end), write(both.select(0, VALUES), values, end));
  }

  private Tensor write(Tensor capacity, Tensor rows, int end) {
    capacity.slice(0, length(), end).copyFrom(rows);
    return capacity.slice(0, 0, end).permute(1, 0, 2);
  }

  @Override
  public void close() {
    arena.close();
  }
}
