package dev.foldmax.cuda;

import dev.foldmax.spi.DeviceMemory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Device memory that lives as long as an arena, and no longer than its backend. */
final class CudaMemory implements DeviceMemory {
  private final Workplace workplace;

  /** Never read: it has the arena's scope, whose end frees the memory. */
  private final MemorySegment segment;

  private final long byteSize;

  @SuppressWarnings("restricted") // ties an address to an arena, without access by the host
  CudaMemory(Workplace workplace, Arena arena, long address, long byteSize) {
    this.workplace = workplace;
    this.byteSize = byteSize;
    // The action must not hold this object, or an automatic arena would never end.
    this.segment =
        MemorySegment.ofAddress(address)
            .reinterpret(arena, ended -> workplace.free(ended.address()));
  }

  @Override
  public String device() {
    return workplace.name();
  }

  @Override
  public long byteSize() {
    return byteSize;
  }

  @Override
  public long address() {
    if (workplace.isClosed()) {
      throw new IllegalStateException(
          "the backend that the memory on " + device() + " belongs to is closed");
    }
    if (!segment.scope().isAlive()) {
      throw new IllegalStateException(
          "the arena that the memory on " + device() + " belongs to is closed");
    }
    if (!segment.isAccessibleBy(Thread.currentThread())) {
      throw new WrongThreadException(
          "the memory on " + device() + " belongs to an arena confined to another thread");
    }
    return segment.address();
  }

  boolean isOf(Workplace other) {
    return workplace == other;
  }
}
