package dev.foldmax.cuda;

/** A point in a stream's work. */
final class Event implements AutoCloseable {
  private final Context context;
  private final long handle;

  private Event(Context context, boolean timing) {
    this.context = context;
    context.makeCurrent();
    this.handle = CudaDriver.eventCreate(timing);
  }

  /** One to wait for. */
  static Event forWaiting(Context context) {
    return new Event(context, false);
  }

  /** One to measure by. */
  static Event forTiming(Context context) {
    return new Event(context, true);
  }

  /** Marks the end of what the stream has been given so far. */
  void record(Stream stream) {
    context.makeCurrent();
    CudaDriver.eventRecord(handle, stream.handle());
  }

  /** Waits until the device has come here; at once if nothing was recorded. */
  void synchronize() {
    context.makeCurrent();
    CudaDriver.eventSynchronize(handle);
  }

  /** The time from another event to this one, both reached, in microseconds. */
  double microsecondsSince(Event start) {
    context.makeCurrent();
    return 1000.0 * CudaDriver.eventElapsedTime(start.handle, handle);
  }

  @Override
  public void close() {
    context.makeCurrent();
    CudaDriver.eventDestroy(handle);
  }
}
