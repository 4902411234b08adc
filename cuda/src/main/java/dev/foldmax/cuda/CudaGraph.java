package dev.foldmax.cuda;

import dev.foldmax.spi.DeviceMemory;
import java.util.List;
import java.util.Set;

/**
 * Calls of a {@link CudaBackend}, recorded once and repeated by a single launch, which takes a few
 * microseconds whatever their number: for small calls in a loop, as decoding makes. Made by {@link
 * CudaBackend#capture}. Safe for use by several threads.
 *
 * <p>A graph repeats the calls on the same tensors, with what is in them at the launch. That holds
 * for those of the host too, that is for lengths, offsets, block tables, first positions and the
 * lengths of a prefix mask: a decoding loop writes the new lengths where the old ones were, and
 * launches. They may grow as far as the keys' tensor or the block table has room, for which the
 * work was laid out when it was recorded. The bits are those of a call. For short lengths in much
 * room, a graph of views with less room ({@code slice}) is faster: record one for each of a few
 * lengths, such as the powers of two, and launch the smallest that suffices.
 *
 * <p>The number of queries of a sequence stays that of the recording. Everything else that the
 * calls were given is recorded as it was: shapes, views and definitions.
 */
public final class CudaGraph implements AutoCloseable {
  private final Workplace workplace;
  private final long executable;
  private final List<Long> owned;
  private final Set<DeviceMemory> used;
  private final GraphTables tables;
  private boolean closed;

  CudaGraph(Workplace workplace, long executable, Capture capture) {
    this.workplace = workplace;
    this.executable = executable;
    this.owned = List.copyOf(capture.owned());
    this.used = Set.copyOf(capture.used());
    this.tables = capture.tables();
  }

  /**
   * Enqueues the calls again; returns before they are done.
   *
   * @throws IllegalArgumentException if lengths, offsets or tables are not what a call would take;
   *     nothing was enqueued
   * @throws IllegalStateException if this, the backend or a tensor's arena is closed, or if offsets
   *     of queries give a sequence another number of them
   */
  public void launch() {
    workplace.enter();
    try {
      if (closed) {
        throw new IllegalStateException("the graph is closed");
      }
      if (workplace.isCapturing()) {
        throw new IllegalStateException("a graph cannot be launched while calls are recorded");
      }
      used.forEach(DeviceMemory::address); // throws where there is none any more
      tables.refresh(workplace.tables());
      workplace.context().makeCurrent();
      CudaDriver.graphLaunch(executable, workplace.stream().handle());
    } finally {
      workplace.leave();
    }
  }

  /** Frees what the graph holds, once launches under way are done. */
  @Override
  public void close() {
    workplace.forget(this);
  }

  /** With the workplace's lock. */
  void release(DevicePool pool) {
    if (!closed) {
      closed = true;
      workplace.context().makeCurrent();
      CudaDriver.graphExecDestroy(executable);
      owned.forEach(pool::free);
    }
  }
}
