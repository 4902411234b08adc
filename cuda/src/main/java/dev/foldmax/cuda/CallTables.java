package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * The tables that go up with each call: its sequences and block tables. What was sent lately stays
 * on the device and serves every call with the same bytes, as the layers of a model are within one
 * step; so most calls send nothing. For the thread that has the stream.
 */
final class CallTables implements AutoCloseable {
  private static final int KEPT = 8;

  /** Tables of more bytes travel through {@link HostTransfers}. */
  private static final long SLOT_BYTES = 32 << 10;

  /** As many tables can be under way before a call waits for one to arrive. */
  private static final int SLOTS = 32;

  private final Workplace workplace;
  private final HostTransfers transfers;
  private final List<Kept> kept = new ArrayList<>(); // least recently used first
  private final List<Slot> slots = new ArrayList<>();
  private int nextSlot;

  private record Kept(MemorySegment bytes, long address) {}

  /** Pinned memory that a table leaves from, and when it has left. */
  private record Slot(MemorySegment memory, Event left) {}

  CallTables(Workplace workplace, HostTransfers transfers) {
    this.workplace = workplace;
    this.transfers = transfers;
  }

  /** The address of a table on the device, for the work that is enqueued before the next call. */
  long send(MemorySegment table) {
    for (int i = kept.size() - 1; i >= 0; i--) {
      Kept known = kept.get(i);
      if (known.bytes.mismatch(table) < 0) {
        kept.add(kept.remove(i));
        return known.address;
      }
    }
    if (kept.size() == KEPT) {
      workplace.pool().free(kept.removeFirst().address);
    }
    byte[] bytes = table.toArray(JAVA_BYTE);
    long address = workplace.pool().allocate(bytes.length);
    if (bytes.length <= SLOT_BYTES) {
      sendFromSlot(bytes, address);
    } else {
      transfers.upload(Tensor.of(bytes, DType.I8, bytes.length), address);
    }
    kept.add(new Kept(MemorySegment.ofArray(bytes), address));
    return address;
  }

  private void sendFromSlot(byte[] bytes, long address) {
    if (slots.size() < SLOTS) {
      workplace.context().makeCurrent();
      slots.add(
          new Slot(CudaDriver.memHostAlloc(SLOT_BYTES), Event.forWaiting(workplace.context())));
      nextSlot = slots.size() - 1;
    }
    Slot slot = slots.get(nextSlot);
    nextSlot = (nextSlot + 1) % SLOTS;
    slot.left.synchronize();
    MemorySegment.copy(MemorySegment.ofArray(bytes), 0, slot.memory, 0, bytes.length);
    workplace.context().makeCurrent();
    CudaDriver.memcpyHtoDAsync(
        address, slot.memory.address(), bytes.length, workplace.stream().handle());
    slot.left.record(workplace.stream());
  }

  /** Frees what lies on the host; nothing is under way. */
  @Override
  public void close() {
    workplace.context().makeCurrent();
    for (Slot slot : slots) {
      slot.left.close();
      CudaDriver.memFreeHost(slot.memory);
    }
    slots.clear();
  }
}
