package dev.foldmax.cuda;

/** A queue of work on a device, done in order. Not for several threads at once. */
final class Stream implements AutoCloseable {
  private final Context context;
  private final long handle;

  Stream(Context context) {
    this.context = context;
    context.makeCurrent();
    this.handle = CudaDriver.streamCreate();
  }

  /** The context that it belongs to. */
  Context context() {
    return context;
  }

  long handle() {
    return handle;
  }

  /** Waits until everything that was enqueued is done. */
  void synchronize() {
    context.makeCurrent();
    CudaDriver.streamSynchronize(handle);
  }

  @Override
  public void close() {
    context.makeCurrent();
    CudaDriver.streamDestroy(handle);
  }
}
