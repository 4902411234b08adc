package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * The functions of the CUDA driver that this module uses, one method each, under their own names
 * without the prefix. Handles and device addresses are longs; every return code is checked and an
 * error becomes a {@link CudaException}. See the CUDA Driver API manual for what each one does.
 *
 * <p>To be touched only where {@link DriverLibrary} found a driver that is recent enough: binding
 * fails as a whole where one function is missing.
 */
final class CudaDriver {
  static final int OUT_OF_MEMORY = 2;

  /** CUdevice_attribute. */
  static final int MULTIPROCESSOR_COUNT = 16;

  static final int L2_CACHE_SIZE = 38;
  static final int COMPUTE_CAPABILITY_MAJOR = 75;
  static final int COMPUTE_CAPABILITY_MINOR = 76;
  static final int MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97;
  static final int MEMORY_POOLS_SUPPORTED = 115;

  /** CUfunction_attribute. */
  static final int NUM_REGS = 4;

  static final int MAX_DYNAMIC_SHARED_SIZE_BYTES = 8;
  static final int NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14;

  /** CUmemPool_attribute. */
  static final int RELEASE_THRESHOLD = 4;

  static final int USED_MEM_CURRENT = 7;

  private static final int STREAM_NON_BLOCKING = 1;
  private static final int EVENT_DEFAULT = 0;
  private static final int EVENT_DISABLE_TIMING = 2;

  /** Lets other calls of the thread and of others be: kernels may be loaded meanwhile. */
  private static final int CAPTURE_MODE_RELAXED = 2;

  private static final int ALLOCATION_TYPE_PINNED = 1;
  private static final int LOCATION_TYPE_DEVICE = 1;
  private static final long MEM_POOL_PROPS_BYTES = 88;
  private static final long LAUNCH_CONFIG_BYTES = 56;
  private static final int LONGEST_NAME = 256;

  private static final ValueLayout.OfLong HANDLE = JAVA_LONG;
  private static final ValueLayout.OfLong SIZE = JAVA_LONG;

  /** Without a transition of the thread's state: for functions that neither block nor call back. */
  private static final Linker.Option[] BRIEF = {Linker.Option.critical(false)};

  private static final MethodHandle INIT = bind("cuInit", JAVA_INT);
  private static final MethodHandle GET_ERROR_NAME = bind("cuGetErrorName", JAVA_INT, ADDRESS);
  private static final MethodHandle GET_ERROR_STRING = bind("cuGetErrorString", JAVA_INT, ADDRESS);

  private static final MethodHandle DEVICE_GET_COUNT = bind("cuDeviceGetCount", ADDRESS);
  private static final MethodHandle DEVICE_GET = bind("cuDeviceGet", ADDRESS, JAVA_INT);
  private static final MethodHandle DEVICE_GET_NAME =
      bind("cuDeviceGetName", ADDRESS, JAVA_INT, JAVA_INT);
  private static final MethodHandle DEVICE_GET_ATTRIBUTE =
      bind("cuDeviceGetAttribute", ADDRESS, JAVA_INT, JAVA_INT);
  private static final MethodHandle DEVICE_TOTAL_MEM =
      bind("cuDeviceTotalMem_v2", ADDRESS, JAVA_INT);

  private static final MethodHandle PRIMARY_CTX_RETAIN =
      bind("cuDevicePrimaryCtxRetain", ADDRESS, JAVA_INT);
  private static final MethodHandle PRIMARY_CTX_RELEASE =
      bind("cuDevicePrimaryCtxRelease_v2", JAVA_INT);
  private static final MethodHandle CTX_SET_CURRENT =
      NativeLibraries.bind(DriverLibrary.lookup(), "cuCtxSetCurrent", BRIEF, HANDLE);

  private static final MethodHandle STREAM_CREATE = bind("cuStreamCreate", ADDRESS, JAVA_INT);
  private static final MethodHandle STREAM_DESTROY = bind("cuStreamDestroy_v2", HANDLE);
  private static final MethodHandle STREAM_SYNCHRONIZE = bind("cuStreamSynchronize", HANDLE);
  private static final MethodHandle STREAM_BEGIN_CAPTURE =
      bind("cuStreamBeginCapture_v2", HANDLE, JAVA_INT);
  private static final MethodHandle STREAM_END_CAPTURE =
      bind("cuStreamEndCapture", HANDLE, ADDRESS);

  private static final MethodHandle STREAM_GET_CAPTURE_INFO =
      bind("cuStreamGetCaptureInfo_v2", HANDLE, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);

  private static final MethodHandle EVENT_CREATE = bind("cuEventCreate", ADDRESS, JAVA_INT);
  private static final MethodHandle EVENT_RECORD = bind("cuEventRecord", HANDLE, HANDLE);
  private static final MethodHandle EVENT_SYNCHRONIZE = bind("cuEventSynchronize", HANDLE);
  private static final MethodHandle EVENT_ELAPSED_TIME =
      bind("cuEventElapsedTime", ADDRESS, HANDLE, HANDLE);
  private static final MethodHandle EVENT_DESTROY = bind("cuEventDestroy_v2", HANDLE);

  private static final MethodHandle MEM_GET_INFO = bind("cuMemGetInfo_v2", ADDRESS, ADDRESS);
  private static final MethodHandle MEM_POOL_CREATE = bind("cuMemPoolCreate", ADDRESS, ADDRESS);
  private static final MethodHandle MEM_POOL_DESTROY = bind("cuMemPoolDestroy", HANDLE);
  private static final MethodHandle MEM_POOL_SET_ATTRIBUTE =
      bind("cuMemPoolSetAttribute", HANDLE, JAVA_INT, ADDRESS);
  private static final MethodHandle MEM_POOL_GET_ATTRIBUTE =
      bind("cuMemPoolGetAttribute", HANDLE, JAVA_INT, ADDRESS);
  private static final MethodHandle MEM_ALLOC_FROM_POOL_ASYNC =
      bind("cuMemAllocFromPoolAsync", ADDRESS, SIZE, HANDLE, HANDLE);
  private static final MethodHandle MEM_FREE_ASYNC = bind("cuMemFreeAsync", HANDLE, HANDLE);
  private static final MethodHandle MEM_HOST_ALLOC =
      bind("cuMemHostAlloc", ADDRESS, SIZE, JAVA_INT);
  private static final MethodHandle MEM_FREE_HOST = bind("cuMemFreeHost", HANDLE);
  private static final MethodHandle MEMCPY_HTOD_ASYNC =
      bind("cuMemcpyHtoDAsync_v2", HANDLE, HANDLE, SIZE, HANDLE);
  private static final MethodHandle MEMCPY_DTOH_ASYNC =
      bind("cuMemcpyDtoHAsync_v2", HANDLE, HANDLE, SIZE, HANDLE);
  private static final MethodHandle MEMSET_D8_ASYNC =
      bind("cuMemsetD8Async", HANDLE, JAVA_BYTE, SIZE, HANDLE);

  private static final MethodHandle MODULE_LOAD_DATA = bind("cuModuleLoadData", ADDRESS, ADDRESS);
  private static final MethodHandle MODULE_UNLOAD = bind("cuModuleUnload", HANDLE);
  private static final MethodHandle MODULE_GET_FUNCTION =
      bind("cuModuleGetFunction", ADDRESS, HANDLE, ADDRESS);
  private static final MethodHandle MODULE_GET_GLOBAL =
      bind("cuModuleGetGlobal_v2", ADDRESS, ADDRESS, HANDLE, ADDRESS);
  private static final MethodHandle FUNC_GET_ATTRIBUTE =
      bind("cuFuncGetAttribute", ADDRESS, JAVA_INT, HANDLE);
  private static final MethodHandle FUNC_SET_ATTRIBUTE =
      bind("cuFuncSetAttribute", HANDLE, JAVA_INT, JAVA_INT);
  private static final MethodHandle OCCUPANCY_MAX_ACTIVE_BLOCKS =
      bind("cuOccupancyMaxActiveBlocksPerMultiprocessor", ADDRESS, HANDLE, JAVA_INT, SIZE);
  private static final MethodHandle OCCUPANCY_MAX_ACTIVE_CLUSTERS =
      bind("cuOccupancyMaxActiveClusters", ADDRESS, HANDLE, ADDRESS);
  private static final MemoryLayout[] LAUNCH = {
    HANDLE, // function
    JAVA_INT, // grid x, y, z
    JAVA_INT,
    JAVA_INT,
    JAVA_INT, // block x, y, z
    JAVA_INT,
    JAVA_INT,
    JAVA_INT, // shared bytes
    HANDLE, // stream
    ADDRESS, // parameters
    ADDRESS // extra
  };
  private static final MethodHandle LAUNCH_KERNEL = bind("cuLaunchKernel", LAUNCH);
  private static final MethodHandle LAUNCH_KERNEL_EX =
      bind("cuLaunchKernelEx", ADDRESS, HANDLE, ADDRESS, ADDRESS);
  private static final MethodHandle TENSOR_MAP_ENCODE_TILED =
      bind(
          "cuTensorMapEncodeTiled",
          ADDRESS, // map
          JAVA_INT, // type
          JAVA_INT, // rank
          HANDLE, // address
          ADDRESS, // sizes
          ADDRESS, // strides
          ADDRESS, // box
          ADDRESS, // element strides
          JAVA_INT, // interleave
          JAVA_INT, // swizzle
          JAVA_INT, // L2 promotion
          JAVA_INT); // fill outside

  private static final MethodHandle GRAPH_INSTANTIATE =
      bind("cuGraphInstantiateWithFlags", ADDRESS, HANDLE, JAVA_LONG);
  private static final MethodHandle GRAPH_DESTROY = bind("cuGraphDestroy", HANDLE);
  private static final MethodHandle GRAPH_LAUNCH = bind("cuGraphLaunch", HANDLE, HANDLE);
  private static final MethodHandle GRAPH_EXEC_KERNEL_NODE_SET_PARAMS =
      bind("cuGraphExecKernelNodeSetParams_v2", HANDLE, HANDLE, ADDRESS);
  private static final MethodHandle GRAPH_EXEC_DESTROY = bind("cuGraphExecDestroy", HANDLE);

  private CudaDriver() {}

  private static MethodHandle bind(String function, MemoryLayout... parameters) {
    return NativeLibraries.bind(DriverLibrary.lookup(), function, new Linker.Option[0], parameters);
  }

  private static void check(String function, NativeLibraries.Native call) {
    int code = NativeLibraries.call(call);
    if (code != 0) {
      throw new CudaException(function + ": " + describe(code), code);
    }
  }

  /** CUDA's name, number and text for an error. */
  static String describe(int code) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment text = arena.allocate(ADDRESS);
      String name =
          NativeLibraries.call(() -> (int) GET_ERROR_NAME.invokeExact(code, text)) == 0
              ? string(text)
              : "unknown error";
      String words =
          NativeLibraries.call(() -> (int) GET_ERROR_STRING.invokeExact(code, text)) == 0
              ? ": " + string(text)
              : "";
      return name + " (" + code + ")" + words;
    }
  }

  @SuppressWarnings("restricted") // the driver's own constant, ended by a zero
  private static String string(MemorySegment pointer) {
    return pointer.get(ADDRESS, 0).reinterpret(LONGEST_NAME).getString(0);
  }

  static void init() {
    check("cuInit", () -> (int) INIT.invokeExact(0));
  }

  // Devices and contexts

  static int deviceGetCount() {
    return returnedInt("cuDeviceGetCount", out -> (int) DEVICE_GET_COUNT.invokeExact(out));
  }

  static int deviceGet(int number) {
    return returnedInt("cuDeviceGet", out -> (int) DEVICE_GET.invokeExact(out, number));
  }

  static String deviceGetName(int device) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment name = arena.allocate(LONGEST_NAME);
      check("cuDeviceGetName", () -> (int) DEVICE_GET_NAME.invokeExact(name, LONGEST_NAME, device));
      return name.getString(0);
    }
  }

  static int deviceGetAttribute(int attribute, int device) {
    return returnedInt(
        "cuDeviceGetAttribute",
        out -> (int) DEVICE_GET_ATTRIBUTE.invokeExact(out, attribute, device));
  }

  static long deviceTotalMem(int device) {
    return returnedLong("cuDeviceTotalMem", out -> (int) DEVICE_TOTAL_MEM.invokeExact(out, device));
  }

  static long devicePrimaryCtxRetain(int device) {
    return returnedLong(
        "cuDevicePrimaryCtxRetain", out -> (int) PRIMARY_CTX_RETAIN.invokeExact(out, device));
  }

  static void devicePrimaryCtxRelease(int device) {
    check("cuDevicePrimaryCtxRelease", () -> (int) PRIMARY_CTX_RELEASE.invokeExact(device));
  }

  static void ctxSetCurrent(long context) {
    check("cuCtxSetCurrent", () -> (int) CTX_SET_CURRENT.invokeExact(context));
  }

  // Streams and events

  /** A stream that does not wait for the default one. */
  static long streamCreate() {
    return returnedLong(
        "cuStreamCreate", out -> (int) STREAM_CREATE.invokeExact(out, STREAM_NON_BLOCKING));
  }

  static void streamDestroy(long stream) {
    check("cuStreamDestroy", () -> (int) STREAM_DESTROY.invokeExact(stream));
  }

  static void streamSynchronize(long stream) {
    check("cuStreamSynchronize", () -> (int) STREAM_SYNCHRONIZE.invokeExact(stream));
  }

  static void streamBeginCapture(long stream) {
    check(
        "cuStreamBeginCapture",
        () -> (int) STREAM_BEGIN_CAPTURE.invokeExact(stream, CAPTURE_MODE_RELAXED));
  }

  static long streamEndCapture(long stream) {
    return returnedLong(
        "cuStreamEndCapture", out -> (int) STREAM_END_CAPTURE.invokeExact(stream, out));
  }

  /** The node of the graph being recorded that came last. */
  @SuppressWarnings("restricted") // an array of the driver's with at least one element
  static long streamGetLastCaptured(long stream) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment status = arena.allocate(JAVA_INT);
      MemorySegment id = arena.allocate(JAVA_LONG);
      MemorySegment graph = arena.allocate(HANDLE);
      MemorySegment nodes = arena.allocate(ADDRESS);
      MemorySegment count = arena.allocate(SIZE);
      check(
          "cuStreamGetCaptureInfo",
          () -> (int) STREAM_GET_CAPTURE_INFO.invokeExact(stream, status, id, graph, nodes, count));
      long found = count.get(SIZE, 0);
      if (found != 1) {
        throw new CudaException("cuStreamGetCaptureInfo: expected 1 node, got " + found, 0);
      }
      return nodes.get(ADDRESS, 0).reinterpret(HANDLE.byteSize()).get(HANDLE, 0);
    }
  }

  static long eventCreate(boolean timing) {
    int flags = timing ? EVENT_DEFAULT : EVENT_DISABLE_TIMING;
    return returnedLong("cuEventCreate", out -> (int) EVENT_CREATE.invokeExact(out, flags));
  }

  static void eventRecord(long event, long stream) {
    check("cuEventRecord", () -> (int) EVENT_RECORD.invokeExact(event, stream));
  }

  static void eventSynchronize(long event) {
    check("cuEventSynchronize", () -> (int) EVENT_SYNCHRONIZE.invokeExact(event));
  }

  /** In milliseconds. */
  static float eventElapsedTime(long start, long end) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(JAVA_FLOAT);
      check("cuEventElapsedTime", () -> (int) EVENT_ELAPSED_TIME.invokeExact(out, start, end));
      return out.get(JAVA_FLOAT, 0);
    }
  }

  static void eventDestroy(long event) {
    check("cuEventDestroy", () -> (int) EVENT_DESTROY.invokeExact(event));
  }

  // Memory

  /** How many bytes of the current context's device are free. */
  static long memGetFree() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment free = arena.allocate(SIZE);
      MemorySegment total = arena.allocate(SIZE);
      check("cuMemGetInfo", () -> (int) MEM_GET_INFO.invokeExact(free, total));
      return free.get(SIZE, 0);
    }
  }

  static long memPoolCreate(int device) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment properties = arena.allocate(MEM_POOL_PROPS_BYTES, Long.BYTES); // zeros
      properties.set(JAVA_INT, 0, ALLOCATION_TYPE_PINNED);
      properties.set(JAVA_INT, 8, LOCATION_TYPE_DEVICE);
      properties.set(JAVA_INT, 12, device);
      return returnedLong(
          "cuMemPoolCreate", out -> (int) MEM_POOL_CREATE.invokeExact(out, properties));
    }
  }

  static void memPoolDestroy(long pool) {
    check("cuMemPoolDestroy", () -> (int) MEM_POOL_DESTROY.invokeExact(pool));
  }

  static void memPoolSetAttribute(long pool, int attribute, long value) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment in = arena.allocateFrom(JAVA_LONG, value);
      check(
          "cuMemPoolSetAttribute",
          () -> (int) MEM_POOL_SET_ATTRIBUTE.invokeExact(pool, attribute, in));
    }
  }

  static long memPoolGetAttribute(long pool, int attribute) {
    return returnedLong(
        "cuMemPoolGetAttribute",
        out -> (int) MEM_POOL_GET_ATTRIBUTE.invokeExact(pool, attribute, out));
  }

  static long memAllocFromPoolAsync(long bytes, long pool, long stream) {
    return returnedLong(
        "cuMemAllocFromPoolAsync",
        out -> (int) MEM_ALLOC_FROM_POOL_ASYNC.invokeExact(out, bytes, pool, stream));
  }

  static void memFreeAsync(long address, long stream) {
    check("cuMemFreeAsync", () -> (int) MEM_FREE_ASYNC.invokeExact(address, stream));
  }

  /** Page-locked host memory, to be freed by {@link #memFreeHost}. */
  @SuppressWarnings("restricted") // the size is what was asked for
  static MemorySegment memHostAlloc(long bytes) {
    long address =
        returnedLong("cuMemHostAlloc", out -> (int) MEM_HOST_ALLOC.invokeExact(out, bytes, 0));
    return MemorySegment.ofAddress(address).reinterpret(bytes);
  }

  static void memFreeHost(MemorySegment memory) {
    long address = memory.address();
    check("cuMemFreeHost", () -> (int) MEM_FREE_HOST.invokeExact(address));
  }

  static void memcpyHtoDAsync(long device, long host, long bytes, long stream) {
    check(
        "cuMemcpyHtoDAsync",
        () -> (int) MEMCPY_HTOD_ASYNC.invokeExact(device, host, bytes, stream));
  }

  static void memcpyDtoHAsync(long host, long device, long bytes, long stream) {
    check(
        "cuMemcpyDtoHAsync",
        () -> (int) MEMCPY_DTOH_ASYNC.invokeExact(host, device, bytes, stream));
  }

  static void memsetD8Async(long address, byte value, long bytes, long stream) {
    check(
        "cuMemsetD8Async", () -> (int) MEMSET_D8_ASYNC.invokeExact(address, value, bytes, stream));
  }

  // Code

  static long moduleLoadData(MemorySegment image) {
    return returnedLong("cuModuleLoadData", out -> (int) MODULE_LOAD_DATA.invokeExact(out, image));
  }

  static void moduleUnload(long module) {
    check("cuModuleUnload", () -> (int) MODULE_UNLOAD.invokeExact(module));
  }

  static long moduleGetFunction(long module, String name) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment text = arena.allocateFrom(name);
      return returnedLong(
          "cuModuleGetFunction(" + name + ")",
          out -> (int) MODULE_GET_FUNCTION.invokeExact(out, module, text));
    }
  }

  /** The address of a variable of a module. */
  static long moduleGetGlobal(long module, String name) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment text = arena.allocateFrom(name);
      MemorySegment bytes = arena.allocate(SIZE);
      return returnedLong(
          "cuModuleGetGlobal(" + name + ")",
          out -> (int) MODULE_GET_GLOBAL.invokeExact(out, bytes, module, text));
    }
  }

  static int funcGetAttribute(int attribute, long function) {
    return returnedInt(
        "cuFuncGetAttribute",
        out -> (int) FUNC_GET_ATTRIBUTE.invokeExact(out, attribute, function));
  }

  static void funcSetAttribute(long function, int attribute, int value) {
    check(
        "cuFuncSetAttribute",
        () -> (int) FUNC_SET_ATTRIBUTE.invokeExact(function, attribute, value));
  }

  static int occupancyMaxActiveBlocksPerMultiprocessor(long function, int threads, long shared) {
    return returnedInt(
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        out -> (int) OCCUPANCY_MAX_ACTIVE_BLOCKS.invokeExact(out, function, threads, shared));
  }

  /** For a kernel that says its cluster's size itself. */
  static int occupancyMaxActiveClusters(long function, int grid, int threads, int sharedBytes) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment config = arena.allocate(LAUNCH_CONFIG_BYTES, Long.BYTES); // zeros
      config.set(JAVA_INT, 0, grid);
      config.set(JAVA_INT, 4, 1);
      config.set(JAVA_INT, 8, 1);
      config.set(JAVA_INT, 12, threads);
      config.set(JAVA_INT, 16, 1);
      config.set(JAVA_INT, 20, 1);
      config.set(JAVA_INT, 24, sharedBytes);
      return returnedInt(
          "cuOccupancyMaxActiveClusters",
          out -> (int) OCCUPANCY_MAX_ACTIVE_CLUSTERS.invokeExact(out, function, config));
    }
  }

  static void launchKernel(
      long function,
      int gridX,
      int gridY,
      int gridZ,
      int threads,
      int sharedBytes,
      long stream,
      MemorySegment parameters) {
    check(
        "cuLaunchKernel",
        () ->
            (int)
                LAUNCH_KERNEL.invokeExact(
                    function,
                    gridX,
                    gridY,
                    gridZ,
                    threads,
                    1,
                    1,
                    sharedBytes,
                    stream,
                    parameters,
                    MemorySegment.NULL));
  }

  /**
   * Launches as {@code config} says, a CUlaunchConfig; see {@link DependentLaunch}.
   *
   * @param config with its attributes
   */
  static void launchKernelEx(MemorySegment config, long function, MemorySegment parameters) {
    check(
        "cuLaunchKernelEx",
        () -> (int) LAUNCH_KERNEL_EX.invokeExact(config, function, parameters, MemorySegment.NULL));
  }

  /** See {@link TensorMap}, which says what the numbers mean. */
  static void tensorMapEncodeTiled(
      MemorySegment map,
      int type,
      int rank,
      long address,
      MemorySegment sizes,
      MemorySegment strides,
      MemorySegment box,
      MemorySegment elementStrides,
      int swizzle,
      int promotion) {
    check(
        "cuTensorMapEncodeTiled",
        () ->
            (int)
                TENSOR_MAP_ENCODE_TILED.invokeExact(
                    map,
                    type,
                    rank,
                    address,
                    sizes,
                    strides,
                    box,
                    elementStrides,
                    0,
                    swizzle,
                    promotion,
                    0));
  }

  // Graphs

  static long graphInstantiate(long graph) {
    return returnedLong(
        "cuGraphInstantiate", out -> (int) GRAPH_INSTANTIATE.invokeExact(out, graph, 0L));
  }

  static void graphDestroy(long graph) {
    check("cuGraphDestroy", () -> (int) GRAPH_DESTROY.invokeExact(graph));
  }

  static void graphLaunch(long executable, long stream) {
    check("cuGraphLaunch", () -> (int) GRAPH_LAUNCH.invokeExact(executable, stream));
  }

  /**
   * Changes a node for launches to come.
   *
   * @param parameters CUDA_KERNEL_NODE_PARAMS
   */
  static void graphExecKernelNodeSetParams(long executable, long node, MemorySegment parameters) {
    check(
        "cuGraphExecKernelNodeSetParams",
        () -> (int) GRAPH_EXEC_KERNEL_NODE_SET_PARAMS.invokeExact(executable, node, parameters));
  }

  static void graphExecDestroy(long executable) {
    check("cuGraphExecDestroy", () -> (int) GRAPH_EXEC_DESTROY.invokeExact(executable));
  }

  /** A call that returns its result through a pointer. */
  @FunctionalInterface
  private interface Returning {
    int call(MemorySegment out) throws Throwable;
  }

  private static int returnedInt(String function, Returning call) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(JAVA_INT);
      check(function, () -> call.call(out));
      return out.get(JAVA_INT, 0);
    }
  }

  private static long returnedLong(String function, Returning call) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(JAVA_LONG);
      check(function, () -> call.call(out));
      return out.get(JAVA_LONG, 0);
    }
  }
}
