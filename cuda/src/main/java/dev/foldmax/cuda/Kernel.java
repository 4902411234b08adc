package dev.foldmax.cuda;

/** A compiled kernel, loaded on a device. Launches are for the thread that has its stream. */
final class Kernel {
  private final Context context;
  private final long handle;
  private int sharedBytesAllowed; // dynamic ones; more have to be asked for, whatever the sum

  Kernel(Context context, long handle) {
    this.context = context;
    this.handle = handle;
  }

  /**
   * Enqueues a launch.
   *
   * @param gridX how many blocks; none at all if one of the three is 0
   * @param threads of a block
   * @param sharedBytes dynamic shared memory of a block
   * @param parameters in the kernel's order
   */
  void launch(
      Stream stream,
      int gridX,
      int gridY,
      int gridZ,
      int threads,
      int sharedBytes,
      Parameters parameters) {
    if (gridX == 0 || gridY == 0 || gridZ == 0) {
      return;
    }
    allowShared(sharedBytes);
    stream.launches().add(handle, gridX, gridY, gridZ, threads, sharedBytes, false, parameters);
  }

  /**
   * As {@link #launch}, but the kernel may start while the one before it on the stream still runs:
   * it has to wait by griddepcontrol.wait before it reads what that one writes. On devices before
   * compute capability 9.0 it starts in its turn.
   */
  void launchDependent(
      Stream stream, int grid, int threads, int sharedBytes, Parameters parameters) {
    if (grid == 0 || context.device().capability() < DependentLaunch.LEAST_CAPABILITY) {
      launch(stream, grid, 1, 1, threads, sharedBytes, parameters);
      return;
    }
    allowShared(sharedBytes);
    stream.launches().add(handle, grid, 1, 1, threads, sharedBytes, true, parameters);
  }

  /** How many blocks fit on the whole device at once. */
  int residentBlocks(int threads, int sharedBytes) {
    context.makeCurrent();
    allowShared(sharedBytes);
    return context.device().multiprocessors()
        * CudaDriver.occupancyMaxActiveBlocksPerMultiprocessor(handle, threads, sharedBytes);
  }

  /**
   * How many clusters fit on the whole device at once, for a kernel with {@code __cluster_dims__}.
   *
   * @param clusterSize as the kernel says; more than 8 is allowed where the device can
   */
  int residentClusters(int clusterSize, int threads, int sharedBytes) {
    context.makeCurrent();
    allowShared(sharedBytes);
    if (clusterSize > 8) {
      CudaDriver.funcSetAttribute(handle, CudaDriver.NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
    }
    return CudaDriver.occupancyMaxActiveClusters(handle, clusterSize, threads, sharedBytes);
  }

  /** How many registers a thread has. */
  int registers() {
    context.makeCurrent();
    return CudaDriver.funcGetAttribute(CudaDriver.NUM_REGS, handle);
  }

  private void allowShared(int bytes) {
    if (bytes > sharedBytesAllowed) {
      context.makeCurrent();
      CudaDriver.funcSetAttribute(handle, CudaDriver.MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
      sharedBytesAllowed = bytes;
    }
  }
}
