package dev.foldmax.cuda;

import dev.foldmax.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * Copies between tensors of the host, of any strides and size, and row-major memory of the device:
 * through two pinned chunks, one of which is packed by the host while the other travels. For the
 * thread that has the stream. Interruption is looked for between chunks.
 */
final class HostTransfers implements AutoCloseable {
  private static final long CHUNK_BYTES = 4L << 20;
  private static final int CHUNKS = 2;

  private final Workplace workplace;
  private final List<Chunk> chunks = new ArrayList<>();

  /** A piece of pinned memory and when the device is done with it. */
  private record Chunk(MemorySegment memory, Event done) {}

  HostTransfers(Workplace workplace) {
    this.workplace = workplace;
  }

  /** Pinned memory is made by the first transfer: it takes milliseconds. */
  private Chunk chunk(long number) {
    if (chunks.isEmpty()) {
      workplace.context().makeCurrent();
      for (int i = 0; i < CHUNKS; i++) {
        chunks.add(
            new Chunk(CudaDriver.memHostAlloc(CHUNK_BYTES), Event.forWaiting(workplace.context())));
      }
    }
    return chunks.get((int) (number % CHUNKS));
  }

  /**
   * Copies a tensor's elements to the device; the tensor has been read on return.
   *
   * @param address of as many bytes as the tensor has elements' bytes
   */
  void upload(Tensor source, long address) {
    HostElements elements = new HostElements(source);
    long total = elements.byteSize();
    long number = 0;
    for (long begin = 0; begin < total; number++) {
      Workplace.checkInterrupt();
      Chunk chunk = chunk(number);
      chunk.done.synchronize();
      long bytes = elements.pack(begin, chunk.memory);
      workplace.context().makeCurrent();
      CudaDriver.memcpyHtoDAsync(
          address + begin, chunk.memory.address(), bytes, workplace.stream().handle());
      chunk.done.record(workplace.stream());
      begin += bytes;
    }
  }

  /** Copies row-major elements of the device to a tensor; it has been written on return. */
  void download(long address, Tensor target) {
    HostElements elements = new HostElements(target);
    long total = elements.byteSize();
    long unpacked = 0;
    long asked = 0;
    for (long number = 0; unpacked < total; number++) {
      Workplace.checkInterrupt();
      for (; asked <= number + 1 && asked * CHUNK_BYTES < total; asked++) {
        ask(asked, address, Math.min(CHUNK_BYTES, total - asked * CHUNK_BYTES));
      }
      Chunk chunk = chunk(number);
      chunk.done.synchronize();
      long bytes = Math.min(CHUNK_BYTES, total - unpacked);
      elements.unpack(unpacked, chunk.memory.asSlice(0, bytes));
      unpacked += bytes;
    }
  }

  private void ask(long number, long address, long bytes) {
    Chunk chunk = chunk(number);
    workplace.context().makeCurrent();
    CudaDriver.memcpyDtoHAsync(
        chunk.memory.address(), address + number * CHUNK_BYTES, bytes, workplace.stream().handle());
    chunk.done.record(workplace.stream());
  }

  /** Frees the chunks; no transfer is under way. */
  @Override
  public void close() {
    workplace.context().makeCurrent();
    for (Chunk chunk : chunks) {
      chunk.done.close();
      CudaDriver.memFreeHost(chunk.memory);
    }
    chunks.clear();
  }
}
