package dev.foldmax.cuda;

import dev.foldmax.spi.DeviceMemory;
import java.util.List;
import java.util.Set;

/**
 * Calls of a {@link CudaBackend}, recorded once and repeated by a single launch, which takes a few
 * microseconds whatever their number: for small calls in a loop, as decoding makes. Made by {@link
 * CudaBackend#capture}. A graph repeats the calls on the same tensors, with what lies in them then;
 * the masks, lengths, offsets and block tables are those of the recording. Safe for use by several
 * threads.
 */
public final class CudaGraph implements AutoCloseable {
  private final Workplace workplace;
  private final long executable;
  private final List<Long> owned;
  private final Set<DeviceMemory> used;
  private boolean closed;

  CudaGraph(Workplace workplace, long executable, Capture capture) {
    this.workplace = workplace;
    this.executable = executable;
    this.owned = List.copyOf(capture.owned());
    this.used = Set.copyOf(capture.used());
  }

  /**
   * Enqueues the calls again; returns before they are done.
   *
   * @throws IllegalStateException if this, the backend or a tensor's arena is closed
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
