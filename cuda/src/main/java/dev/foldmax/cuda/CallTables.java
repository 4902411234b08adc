package dev.foldmax.cuda;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The tables that go up with each call: its sequences and block tables. What was sent lately stays
 * on the device and serves every call with the same bytes, as the layers of a model are within one
 * step; so most calls send nothing. For the thread that has the stream.
 */
final class CallTables implements AutoCloseable {
  private static final int KEPT = 8;

  private final Workplace workplace;
  private final HostTransfers transfers;
  private final List<Kept> kept = new ArrayList<>(); // least recently used first
  private @Nullable PinnedRing ring; // made by the first that is sent

  /** A table on the device, and what is in it; its memory serves one table after the other. */
  private static final class Kept {
    private MemorySegment bytes = MemorySegment.NULL; // room for as many as on the device
    private long size = -1; // of the table in it; -1 for none
    private long address;

    boolean holds(MemorySegment table) {
      long wanted = table.byteSize();
      return size == wanted && MemorySegment.mismatch(bytes, 0, size, table, 0, wanted) < 0;
    }
  }

  CallTables(Workplace workplace, HostTransfers transfers) {
    this.workplace = workplace;
    this.transfers = transfers;
  }

  /** The address of a table on the device, for the work that is enqueued before the next call. */
  long send(MemorySegment table) {
    int last = kept.size() - 1;
    for (int i = last; i >= 0; i--) {
      Kept known = kept.get(i);
      if (known.holds(table)) {
        if (i < last) {
          kept.add(kept.remove(i));
        }
        return known.address;
      }
    }
    Kept place = kept.size() < KEPT ? new Kept() : kept.removeFirst();
    place.size = -1; // what is thrown below leaves it empty, and freed or known
    makeRoom(place, table.byteSize());
    kept.add(place);
    upload(table, place.address);
    MemorySegment.copy(table, 0, place.bytes, 0, table.byteSize());
    place.size = table.byteSize();
    return place.address;
  }

  private void makeRoom(Kept place, long bytes) {
    long room = place.bytes.byteSize();
    if (bytes <= room) {
      return;
    }
    if (room > 0) {
      workplace.pool().free(place.address);
      place.bytes = MemorySegment.NULL;
    }
    int more = Math.toIntExact(Math.max(bytes, Math.min(2 * room, PinnedRing.MOST_BYTES)));
    place.address = workplace.pool().allocate(more);
    place.bytes = MemorySegment.ofArray(new byte[more]);
  }

  /** Enqueues a copy of a table to the device; it has been read on return. */
  void upload(MemorySegment table, long address) {
    if (table.byteSize() > PinnedRing.MOST_BYTES) {
      transfers.upload(Tensor.of(table, DType.I8, table.byteSize()), address);
      return;
    }
    if (ring == null) {
      ring = new PinnedRing(workplace);
    }
    ring.upload(table, address);
  }

  /** Frees what lies on the host; nothing is under way. */
  @Override
  public void close() {
    if (ring != null) {
      ring.close();
      ring = null;
    }
  }
}
