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

  Capture(DevicePool pool, Stream aside) {
    this.pool = pool;
    this.aside = aside;
  }

  /** The stream for allocations and transfers that are not part of the graph. */
  Stream aside() {
    return aside;
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
