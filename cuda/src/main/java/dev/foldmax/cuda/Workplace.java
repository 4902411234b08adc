package dev.foldmax.cuda;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import dev.foldmax.spi.DeviceMemory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/**
 * What the calls of a backend share: a device, a stream, the kernels, memory. One call at a time
 * works here, between {@link #enter} and {@link #leave}; everything else is for the thread of that
 * call, but for {@link #allocate} and the freeing of what it gave.
 */
final class Workplace implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger("dev.foldmax.cuda");

  /**
   * Scratch memory that stays from call to call: asking the pool for each call's takes longer than
   * a launch. The stream does one call after the other, so the next may have the same.
   */
  private static final long KEPT_SCRATCH_BYTES = 16 << 20;

  private static final long SCRATCH_ALIGNMENT = 256;
  private static final long LEAST_TABLE_BYTES = 16 << 10;

  private final ReentrantLock lock = new ReentrantLock();
  private final Context context;
  private final Stream stream;
  private final DevicePool pool;
  private final Kernels kernels;
  private final HostTransfers transfers;
  private final CallTables tables;
  private final CopyKernel copies;
  private MemorySegment tableMemory = MemorySegment.NULL; // where a call's tables are written
  private final List<Long> scratch = new ArrayList<>();
  private long keptScratch; // 0 before it is first asked for
  private long keptScratchTaken;
  private final Set<CudaGraph> graphs = new HashSet<>();
  private @Nullable Capture capture;
  private volatile boolean closed;

  Workplace(Device device, KernelCompiler compiler, CodeCache cache) {
    context = new Context(device);
    stream = new Stream(context);
    pool = new DevicePool(context, stream);
    kernels = new Kernels(context, compiler, cache);
    transfers = new HostTransfers(this);
    tables = new CallTables(this, transfers);
    copies = new CopyKernel(this);
  }

  Device device() {
    return context.device();
  }

  Context context() {
    return context;
  }

  Stream stream() {
    return stream;
  }

  Kernels kernels() {
    return kernels;
  }

  DevicePool pool() {
    return pool;
  }

  /** The tables of calls. */
  CallTables tables() {
    return tables;
  }

  /** How the current call's tensors come to the device and back. */
  Staging staging() {
    return new Staging(this, transfers, copies);
  }

  /** Where the device finds a table of the current call; a graph fills it anew for each launch. */
  long send(AttentionCall call, CallTable table) {
    if (capture != null) {
      return capture.tables().add(call, table, capture);
    }
    long size = table.byteSize(call);
    if (size > tableMemory.byteSize()) {
      tableMemory = Arena.ofAuto().allocate(Math.max(size, LEAST_TABLE_BYTES), Long.BYTES);
    }
    MemorySegment bytes = tableMemory.asSlice(0, size);
    bytes.fill((byte) 0);
    table.write(call, bytes);
    return tables.send(bytes);
  }

  /** The same for a table that stays what it is. */
  long send(MemorySegment table) {
    return capture == null ? tables.send(table) : sendAside(table, capture);
  }

  private long sendAside(MemorySegment table, Capture current) {
    long address = current.allocate(table.byteSize());
    context.makeCurrent();
    CudaDriver.memcpyHtoDAsync(
        address, table.address(), table.byteSize(), current.aside().handle());
    current.aside().synchronize();
    return address;
  }

  /** Whether calls are recorded, and not done. */
  boolean isCapturing() {
    return capture != null;
  }

  /** Notes that the current call reads or writes a tensor of the user's. */
  void use(DeviceMemory memory) {
    if (capture != null) {
      capture.use(memory);
    }
  }

  /** The device as tensors name it. */
  String name() {
    return "cuda device " + device().number();
  }

  /**
   * Begins a call, after those of other threads.
   *
   * @throws IllegalStateException if the backend is closed
   * @throws CancellationException if the thread is interrupted
   */
  void enter() {
    checkInterrupt();
    try {
      lock.lockInterruptibly();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw interrupted();
    }
    if (closed) {
      lock.unlock();
      throw new IllegalStateException("the backend is closed");
    }
  }

  /** Ends a call: its scratch memory is free once its work is done. */
  void leave() {
    try {
      stream.flush();
      if (!scratch.isEmpty()) {
        scratch.forEach(pool::free);
        scratch.clear();
      }
      keptScratchTaken = 0;
      if (capture != null) {
        capture.endCall();
      }
    } finally {
      lock.unlock();
    }
  }

  /** Stops a call whose thread was interrupted. */
  static void checkInterrupt() {
    if (Thread.currentThread().isInterrupted()) {
      throw interrupted();
    }
  }

  private static CancellationException interrupted() {
    return new CancellationException("interrupted");
  }

  /** Uninitialised memory for the work of the current call, at a multiple of 256 bytes. */
  long scratch(long bytes) {
    if (capture != null) {
      return capture.scratch(bytes);
    }
    if (bytes <= KEPT_SCRATCH_BYTES - keptScratchTaken) {
      if (keptScratch == 0) {
        keptScratch = pool.allocate(KEPT_SCRATCH_BYTES);
      }
      long address = keptScratch + keptScratchTaken;
      keptScratchTaken += Math.ceilDiv(bytes, SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT;
      return address;
    }
    long address = pool.allocate(bytes);
    scratch.add(address);
    return address;
  }

  /** Enqueues zeros for a piece of memory. */
  void zero(long address, long bytes) {
    context.makeCurrent();
    CudaDriver.memsetD8Async(address, (byte) 0, bytes, stream.handle());
  }

  /**
   * Memory that holds zeros and lasts as long as the backend: also if calls are being recorded,
   * whose graph would otherwise own it.
   */
  long lastingZeros(long bytes) {
    Stream target = capture == null ? stream : capture.aside();
    long address = capture == null ? pool.allocate(bytes) : pool.allocate(bytes, target);
    context.makeCurrent();
    CudaDriver.memsetD8Async(address, (byte) 0, bytes, target.handle());
    if (capture != null) {
      target.synchronize();
    }
    return address;
  }

  /** A row-major tensor in such memory. */
  Tensor scratch(DType dtype, long... shape) {
    long bytes = bytes(dtype, shape);
    return Tensor.on(new ScratchMemory(name(), scratch(bytes), bytes), dtype, shape);
  }

  /** A row-major tensor of the user's, freed when the arena is closed, or the backend. */
  Tensor allocate(Arena arena, DType dtype, long... shape) {
    long bytes = bytes(dtype, shape);
    enter();
    try {
      long address = capture == null ? pool.allocate(bytes) : pool.allocate(bytes, capture.aside());
      try {
        return Tensor.on(new CudaMemory(this, arena, address, bytes), dtype, shape);
      } catch (RuntimeException e) { // the arena is closed, or another thread's
        free(address);
        throw e;
      }
    } finally {
      leave();
    }
  }

  private static long bytes(DType dtype, long[] shape) {
    long bytes = dtype.bytes();
    for (long size : shape) {
      if (size < 0) {
        throw new IllegalArgumentException(
            "shape: sizes must be at least 0, got " + Arrays.toString(shape));
      }
      bytes = size == 0 ? 0 : Math.multiplyExact(bytes, size);
    }
    return bytes;
  }

  /** Frees what {@link #allocate} gave; nothing to do once the backend is closed. */
  void free(long address) {
    lock.lock();
    try {
      if (capture != null) {
        capture.freeLater(address);
      } else if (!closed) {
        pool.free(address);
      }
    } finally {
      lock.unlock();
    }
  }

  boolean isClosed() {
    return closed;
  }

  /** Waits for the work under way, and lets nobody enqueue more meanwhile. */
  void synchronize() {
    enter();
    try {
      if (isCapturing()) {
        throw new IllegalStateException("calls that are recorded cannot be waited for");
      }
      stream.synchronize();
    } finally {
      leave();
    }
  }

  /** Times the calls that an action makes; see {@link CudaBackend#time}. */
  double[] time(Runnable calls, int repetitions) {
    enter();
    List<Event> marks = new ArrayList<>();
    try {
      if (isCapturing()) {
        throw new IllegalStateException("calls that are recorded cannot be timed");
      }
      for (int i = 0; i <= repetitions; i++) {
        marks.add(Event.forTiming(context));
      }
      marks.getFirst().record(stream);
      for (int i = 1; i <= repetitions; i++) {
        calls.run();
        marks.get(i).record(stream);
      }
      marks.getLast().synchronize();
      double[] times = new double[repetitions];
      Arrays.setAll(times, i -> marks.get(i + 1).microsecondsSince(marks.get(i)));
      return times;
    } finally {
      marks.forEach(Event::close);
      leave();
    }
  }

  /** Records the calls that an action makes; see {@link CudaBackend#capture}. */
  CudaGraph capture(Runnable calls) {
    enter();
    try (Stream aside = new Stream(context)) {
      if (isCapturing()) {
        throw new IllegalStateException("calls are being recorded already");
      }
      Capture current = new Capture(pool, aside);
      boolean done = false;
      try {
        long graph = record(calls, current);
        CudaGraph captured = instantiate(graph, current);
        graphs.add(captured);
        done = true;
        return captured;
      } finally {
        aside.synchronize();
        if (!done) {
          stream.synchronize();
          current.owned().forEach(pool::free);
        }
        current.freedLater().forEach(pool::free);
      }
    } finally {
      leave();
    }
  }

  private long record(Runnable calls, Capture current) {
    stream.launches().setImmediate(true);
    context.makeCurrent();
    CudaDriver.streamBeginCapture(stream.handle());
    capture = current;
    try {
      calls.run();
    } catch (RuntimeException | Error e) {
      capture = null;
      endBroken();
      throw e;
    } finally {
      stream.launches().setImmediate(false);
    }
    capture = null;
    context.makeCurrent();
    return CudaDriver.streamEndCapture(stream.handle());
  }

  /**
   * The graph of a recording that failed is nobody's, nor is the reason why it may not even end.
   */
  private void endBroken() {
    try {
      context.makeCurrent();
      CudaDriver.graphDestroy(CudaDriver.streamEndCapture(stream.handle()));
    } catch (CudaException e) {
      LOG.log(System.Logger.Level.DEBUG, "a recording that failed", e);
    }
  }

  private CudaGraph instantiate(long graph, Capture current) {
    try {
      return new CudaGraph(this, CudaDriver.graphInstantiate(graph), current);
    } finally {
      CudaDriver.graphDestroy(graph);
    }
  }

  /** Releases a graph; nothing to do once the backend is closed. */
  void forget(CudaGraph graph) {
    lock.lock();
    try {
      if (isCapturing()) {
        throw new IllegalStateException("a graph cannot be closed while calls are recorded");
      }
      if (graphs.remove(graph)) {
        graph.release(pool);
      }
    } finally {
      lock.unlock();
    }
  }

  /** How many bytes of device memory are in use, beside the scratch memory that is kept. */
  long usedBytes() {
    enter();
    try {
      return pool.usedBytes() - (keptScratch == 0 ? 0 : KEPT_SCRATCH_BYTES);
    } finally {
      leave();
    }
  }

  /** Waits for the work under way and frees everything. */
  @Override
  public void close() {
    lock.lock();
    try {
      if (closed) {
        return;
      }
      if (isCapturing()) {
        throw new IllegalStateException("a backend cannot be closed while it records calls");
      }
      closed = true;
      graphs.forEach(graph -> graph.release(pool));
      graphs.clear();
      try (context;
          stream;
          pool;
          kernels;
          transfers;
          tables;
          copies) {
        stream.synchronize();
        stream.releaseLaunches();
      }
    } finally {
      lock.unlock();
    }
  }
}
