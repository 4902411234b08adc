package dev.foldmax.cuda;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.locks.ReentrantLock;

/**
 * What the calls of a backend share: a device, a stream, the kernels, memory. One call at a time
 * works here, between {@link #enter} and {@link #leave}; everything else is for the thread of that
 * call, but for {@link #allocate} and the freeing of what it gave.
 */
final class Workplace implements AutoCloseable {
  private final ReentrantLock lock = new ReentrantLock();
  private final Context context;
  private final Stream stream;
  private final DevicePool pool;
  private final Kernels kernels;
  private final HostTransfers transfers;
  private final CallTables tables;
  private final CopyKernel copies;
  private final List<Long> scratch = new ArrayList<>();
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

  /** How the current call's tensors come to the device and back. */
  Staging staging() {
    return new Staging(this, transfers, copies);
  }

  /** See {@link CallTables#send}. */
  long send(MemorySegment table) {
    return tables.send(table);
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
      scratch.forEach(pool::free);
      scratch.clear();
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
    long address = pool.allocate(bytes);
    scratch.add(address);
    return address;
  }

  /** Enqueues zeros for a piece of memory. */
  void zero(long address, long bytes) {
    context.makeCurrent();
    CudaDriver.memsetD8Async(address, (byte) 0, bytes, stream.handle());
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
      long address = pool.allocate(bytes);
      try {
        return Tensor.on(new CudaMemory(this, arena, address, bytes), dtype, shape);
      } catch (RuntimeException e) { // the arena is closed, or another thread's
        pool.free(address);
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
      if (!closed) {
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
      stream.synchronize();
    } finally {
      leave();
    }
  }

  /** How many bytes of device memory are in use. */
  long usedBytes() {
    enter();
    try {
      return pool.usedBytes();
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
      closed = true;
      try (context;
          stream;
          pool;
          kernels;
          transfers;
          tables;
          copies) {
        stream.synchronize();
      }
    } finally {
      lock.unlock();
    }
  }
}
