package dev.foldmax.cuda;

import java.util.HashSet;
import java.util.Set;

/**
 * Device memory in the order of a stream: what is freed serves the next allocation without a wait,
 * once the work enqueued so far is done. A pool of this module's own, so that closing it takes
 * everything back and nobody else's settings change. For the thread that has the stream.
 */
final class DevicePool implements AutoCloseable {
  /** Memory that is kept between calls: this part of the device's. */
  private static final long KEPT_PART = 8;

  private final Context context;
  private final Stream stream;
  private final long pool;
  private final Set<Long> live = new HashSet<>();

  DevicePool(Context context, Stream stream) {
    this.context = context;
    this.stream = stream;
    context.makeCurrent();
    this.pool = CudaDriver.memPoolCreate(context.device().handle());
    CudaDriver.memPoolSetAttribute(
        pool, CudaDriver.RELEASE_THRESHOLD, context.device().memoryBytes() / KEPT_PART);
  }

  /**
   * Uninitialised memory at a multiple of 256 bytes.
   *
   * @param bytes may be 0
   * @throws CudaException if there is not as much
   */
  long allocate(long bytes) {
    return allocate(bytes, stream);
  }

  /** The same in the order of another stream; before use, that has to be waited for. */
  long allocate(long bytes, Stream other) {
    context.makeCurrent();
    long address;
    try {
      address = CudaDriver.memAllocFromPoolAsync(Math.max(bytes, 1), pool, other.handle());
    } catch (CudaException e) {
      throw e.code() == CudaDriver.OUT_OF_MEMORY ? outOfMemory(bytes) : e;
    }
    live.add(address);
    return address;
  }

  private CudaException outOfMemory(long bytes) {
    return new CudaException(
        outOfMemory(context.device(), bytes, CudaDriver.memGetFree()), CudaDriver.OUT_OF_MEMORY);
  }

  static String outOfMemory(Device device, long asked, long free) {
    return "out of memory on cuda device %d (%s): asked for %,d bytes, %,d of %,d are free"
        .formatted(device.number(), device.name(), asked, free, device.memoryBytes());
  }

  /** Frees memory once the work enqueued so far is done. */
  void free(long address) {
    if (live.remove(address)) {
      context.makeCurrent();
      CudaDriver.memFreeAsync(address, stream.handle());
    }
  }

  /** How many bytes are allocated and not freed. */
  long usedBytes() {
    stream.synchronize();
    return CudaDriver.memPoolGetAttribute(pool, CudaDriver.USED_MEM_CURRENT);
  }

  /** Frees all of it, after the stream's work. */
  @Override
  public void close() {
    for (long address : Set.copyOf(live)) {
      free(address);
    }
    stream.synchronize();
    CudaDriver.memPoolDestroy(pool);
  }
}
