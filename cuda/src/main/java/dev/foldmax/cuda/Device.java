package dev.foldmax.cuda;

/**
 * What is known of a device.
 *
 * @param number as users count, from 0
 * @param handle the driver's own
 * @param name such as {@code NVIDIA H200}
 * @param capability the compute capability as 10 * major + minor: 90 for Hopper
 * @param multiprocessors how many there are
 * @param sharedBytes the most shared memory that a block may ask for
 * @param l2Bytes the size of the second-level cache
 * @param memoryBytes the size of its memory
 * @param hasPools whether memory can be allocated in a stream's order
 */
record Device(
    int number,
    int handle,
    String name,
    int capability,
    int multiprocessors,
    int sharedBytes,
    long l2Bytes,
    long memoryBytes,
    boolean hasPools) {
  /** The least compute capability that kernels are written for: Ampere. */
  static final int LEAST_CAPABILITY = 80;

  static Device of(int number) {
    int handle = CudaDriver.deviceGet(number);
    return new Device(
        number,
        handle,
        CudaDriver.deviceGetName(handle),
        10 * CudaDriver.deviceGetAttribute(CudaDriver.COMPUTE_CAPABILITY_MAJOR, handle)
            + CudaDriver.deviceGetAttribute(CudaDriver.COMPUTE_CAPABILITY_MINOR, handle),
        CudaDriver.deviceGetAttribute(CudaDriver.MULTIPROCESSOR_COUNT, handle),
        CudaDriver.deviceGetAttribute(CudaDriver.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, handle),
        CudaDriver.deviceGetAttribute(CudaDriver.L2_CACHE_SIZE, handle),
        CudaDriver.deviceTotalMem(handle),
        CudaDriver.deviceGetAttribute(CudaDriver.MEMORY_POOLS_SUPPORTED, handle) != 0);
  }

  /** The compute capability in the usual form, such as 9.0. */
  String capabilityWords() {
    return capability / 10 + "." + capability % 10;
  }
}
