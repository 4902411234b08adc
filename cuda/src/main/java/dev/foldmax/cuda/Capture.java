package dev.foldmax.cuda;

import dev.foldmax.spi.DeviceMemory;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/**
 * What calls take while they are recorded instead of done: memory that stays theirs until the graph
 * is closed, so that a replay allocates and sends nothing. A stream beside the recorded one does
 * what cannot wait.
 */
final class Capture {
  private final DevicePool pool;
  private final Stream aside;
  private final List<Long> owned = new ArrayList<>();
  private final List<Long> freedLater = new ArrayList<>();
  private final Set<DeviceMemory> used = new LinkedHashSet<>();
  private final List<Scratch> free = new ArrayList<>();
  private final List<Scratch> taken = new ArrayList<>();
  private final GraphTables tables = new GraphTables();

  private record Scratch(long address, long bytes) {}

  Capture(DevicePool pool, Stream aside) {
    this.pool = pool;
    this.aside = aside;
  }

  /** The stream for allocations and transfers that are not part of the graph. */
  Stream aside() {
    return aside;
  }

  /** Uninitialised memory for the current call; the next may have the same. */
  long scratch(long bytes) {
    Scratch best = null;
    for (Scratch piece : free) {
      if (piece.bytes >= bytes && (best == null || piece.bytes < best.bytes)) {
        best = piece;
      }
    }
    if (best == null) {
      best = new Scratch(allocate(bytes), bytes);
    } else {
      free.remove(best);
    }
    taken.add(best);
    return best.address;
  }

  /** Ends a call: its scratch memory is free, since a graph does one call after the other. */
  void endCall() {
    free.addAll(taken);
    taken.clear();
  }

  /** Memory of the graph's own. */
  long allocate(long bytes) {
    long address = pool.allocate(bytes, aside);
    owned.add(address);
    return address;
  }

  /** Notes that the graph reads or writes a tensor of the user's. */
  void use(DeviceMemory memory) {
    used.add(memory);
  }

  /** Notes that memory is to be freed, which a stream that is recorded cannot do. */
  void freeLater(long address) {
    freedLater.add(address);
  }

  /** The tables of the calls. */
  GraphTables tables() {
    return tables;
  }

  List<Long> owned() {
    return owned;
  }

  List<Long> freedLater() {
    return freedLater;
  }

  Set<DeviceMemory> used() {
    return used;
  }
}
