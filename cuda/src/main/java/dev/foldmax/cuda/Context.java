package dev.foldmax.cuda;

/**
 * The primary context of a device, which all CUDA code of a process shares. It has to be the
 * calling thread's current one for most functions of the driver; a virtual thread may come to
 * another carrier at any wait, so {@link #makeCurrent} (some 20 ns) goes in front of each use.
 */
final class Context implements AutoCloseable {
  private final Device device;
  private final long handle;

  Context(Device device) {
    this.device = device;
    this.handle = CudaDriver.devicePrimaryCtxRetain(device.handle());
  }

  Device device() {
    return device;
  }

  void makeCurrent() {
    CudaDriver.ctxSetCurrent(handle);
  }

  @Override
  public void close() {
    CudaDriver.devicePrimaryCtxRelease(device.handle());
  }
}
