package dev.foldmax.cuda;

import java.lang.foreign.MemorySegment;

/**
 * Pinned memory from which small pieces leave for the device, round and round: a piece is copied
 * here, so that its source is free at once, and travels in the order of the backend's stream. An
 * event for each quarter says when it may be written again. For the thread that has the stream, and
 * not while it is recorded.
 */
final class PinnedRing implements AutoCloseable {
  private static final int QUARTERS = 4;
  private static final long ALIGNMENT = 64;

  /** The most bytes of a piece. */
  static final long MOST_BYTES = 256 << 10;

  private final Workplace workplace;
  private final MemorySegment memory;
  private final Event[] left = new Event[QUARTERS];
  private int quarter;
  private long taken; // of the quarter

  PinnedRing(Workplace workplace) {
    this.workplace = workplace;
    workplace.context().makeCurrent();
    this.memory = CudaDriver.memHostAlloc(QUARTERS * MOST_BYTES);
    for (int i = 0; i < QUARTERS; i++) {
      left[i] = Event.forWaiting(workplace.context());
    }
  }

  /** Enqueues a copy of a piece; it has been read on return. */
  void upload(MemorySegment piece, long address) {
    long bytes = piece.byteSize();
    if (bytes > MOST_BYTES - taken) {
      left[quarter].record(workplace.stream());
      quarter = (quarter + 1) % QUARTERS;
      taken = 0;
      left[quarter].synchronize();
    }
    long place = quarter * MOST_BYTES + taken;
    MemorySegment.copy(piece, 0, memory, place, bytes);
    workplace.context().makeCurrent();
    CudaDriver.memcpyHtoDAsync(
        address, memory.address() + place, bytes, workplace.stream().handle());
    taken += Math.ceilDiv(bytes, ALIGNMENT) * ALIGNMENT;
  }

  /** Frees the memory; nothing is under way. */
  @Override
  public void close() {
    workplace.context().makeCurrent();
    for (Event event : left) {
      event.close();
    }
    CudaDriver.memFreeHost(memory);
  }
}
