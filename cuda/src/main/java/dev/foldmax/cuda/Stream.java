package dev.foldmax.cuda;

import org.jspecify.annotations.Nullable;

/**
 * A queue of work on a device, done in order. Launches wait in {@link #launches} until something
 * else is enqueued or {@link #flush} is called. Not for several threads at once.
 */
final class Stream implements AutoCloseable {
  private final Context context;
  private final long handle;
  private @Nullable LaunchQueue launches; // made by the first launch

  Stream(Context context) {
    this.context = context;
    context.makeCurrent();
    this.handle = CudaDriver.streamCreate();
  }

  /** The context that it belongs to. */
  Context context() {
    return context;
  }

  /** The driver's name for it, for what comes after the launches so far. */
  long handle() {
    flush();
    return handle;
  }

  /** Where launches go. */
  LaunchQueue launches() {
    if (launches == null) {
      launches = new LaunchQueue(context, handle);
    }
    return launches;
  }

  /** Enqueues the launches so far. */
  void flush() {
    if (launches != null) {
      launches.flush();
    }
  }

  /** Waits until everything that was enqueued is done. */
  void synchronize() {
    flush();
    context.makeCurrent();
    CudaDriver.streamSynchronize(handle);
  }

  /** Releases what launches keep of kernels, before these are unloaded. */
  void releaseLaunches() {
    if (launches != null) {
      launches.close();
      launches = null;
    }
  }

  @Override
  public void close() {
    releaseLaunches();
    context.makeCurrent();
    CudaDriver.streamDestroy(handle);
  }
}
