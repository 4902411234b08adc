package dev.foldmax.benchmarks.natives;

import static dev.foldmax.benchmarks.natives.NativeFunctions.INT;
import static dev.foldmax.benchmarks.natives.NativeFunctions.LONG;
import static dev.foldmax.benchmarks.natives.NativeFunctions.POINTER;

import dev.foldmax.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;

/**
 * ONNX Runtime's C interface: a table of functions, each at a number that never changes
 * (onnxruntime_c_api.h, {@code OrtApi}). Failures carry the library's message.
 */
@SuppressWarnings("restricted") // native code is what this is for
public final class OnnxLibrary {
  /** The first version whose table has all that is called here. */
  private static final int API_VERSION = 17;

  private static final int WARNING = 2;
  private static final int DEVICE_ALLOCATOR = 0;
  private static final int DEFAULT_MEMORY = 0;

  private final MemorySegment table;
  private final MethodHandle errorMessage;
  private final MethodHandle createSessionOptions;
  private final MethodHandle setThreads;
  private final MethodHandle createSession;
  private final MethodHandle run;
  private final MethodHandle createTensor;
  private final MethodHandle releaseSession;
  private final MethodHandle releaseValue;
  private final MethodHandle releaseSessionOptions;
  private final MemorySegment environment;
  private final MemorySegment memory;

  private OnnxLibrary(MemorySegment table) {
    this.table = table;
    this.errorMessage = function(2, FunctionDescriptor.of(POINTER, POINTER));
    this.createSession = fallible(8, POINTER, POINTER, LONG, POINTER, POINTER);
    this.run = fallible(9, POINTER, POINTER, POINTER, POINTER, LONG, POINTER, LONG, POINTER);
    this.createSessionOptions = fallible(10, POINTER);
    this.setThreads = fallible(24, POINTER, INT);
    this.createTensor = fallible(49, POINTER, POINTER, LONG, POINTER, LONG, INT, POINTER);
    this.releaseSession = function(95, FunctionDescriptor.ofVoid(POINTER));
    this.releaseValue = function(96, FunctionDescriptor.ofVoid(POINTER));
    this.releaseSessionOptions = function(100, FunctionDescriptor.ofVoid(POINTER));
    MethodHandle createEnvironment = fallible(3, INT, POINTER, POINTER);
    MethodHandle createCpuMemory = fallible(69, INT, INT, POINTER);
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment result = arena.allocate(POINTER);
      MemorySegment name = arena.allocateFrom("foldmax");
      check((MemorySegment) createEnvironment.invokeExact(WARNING, name, result));
      environment = result.get(POINTER, 0);
      check((MemorySegment) createCpuMemory.invokeExact(DEVICE_ALLOCATOR, DEFAULT_MEMORY, result));
      memory = result.get(POINTER, 0);
    } catch (Throwable e) {
      throw NativeFunctions.failed("ONNX Runtime", e);
    }
  }

  /** Loads {@code libonnxruntime.so}. */
  public static OnnxLibrary load(Path file) {
    MethodHandle base = NativeFunctions.load(file).function("OrtGetApiBase", POINTER);
    try {
      MemorySegment getters = ((MemorySegment) base.invokeExact()).reinterpret(POINTER.byteSize());
      MethodHandle getTable =
          NativeFunctions.handle(getters.get(POINTER, 0), FunctionDescriptor.of(POINTER, INT));
      MemorySegment table = (MemorySegment) getTable.invokeExact(API_VERSION);
      if (table.equals(MemorySegment.NULL)) {
        throw new IllegalStateException(file + " is older than its interface " + API_VERSION);
      }
      return new OnnxLibrary(table.reinterpret(101 * POINTER.byteSize()));
    } catch (Throwable e) {
      throw NativeFunctions.failed("OrtGetApiBase", e);
    }
  }

  private MethodHandle function(int number, FunctionDescriptor descriptor) {
    return NativeFunctions.handle(table.getAtIndex(POINTER, number), descriptor);
  }

  /** A function that returns null or a failure. */
  private MethodHandle fallible(int number, MemoryLayout... parameters) {
    return function(number, FunctionDescriptor.of(POINTER, parameters));
  }

  private void check(MemorySegment status) throws Throwable {
    if (!status.equals(MemorySegment.NULL)) {
      MemorySegment text = (MemorySegment) errorMessage.invokeExact(status);
      throw new IllegalStateException(text.reinterpret(Long.MAX_VALUE).getString(0));
    }
  }

  /** A model made ready for a number of threads; to be {@linkplain #releaseSession released}. */
  MemorySegment createSession(byte[] model, int threads) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment result = arena.allocate(POINTER);
      check((MemorySegment) createSessionOptions.invokeExact(result));
      MemorySegment options = result.get(POINTER, 0);
      check((MemorySegment) setThreads.invokeExact(options, threads));
      MemorySegment bytes = arena.allocateFrom(ValueLayout.JAVA_BYTE, model);
      long size = model.length;
      check((MemorySegment) createSession.invokeExact(environment, bytes, size, options, result));
      releaseSessionOptions.invokeExact(options);
      return result.get(POINTER, 0);
    } catch (Throwable e) {
      throw NativeFunctions.failed("CreateSession", e);
    }
  }

  /** A value over native memory, which has to outlive it; to be released. */
  MemorySegment createTensor(MemorySegment data, DType dtype, long... shape) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment result = arena.allocate(POINTER);
      check(
          (MemorySegment)
              createTensor.invokeExact(
                  memory,
                  data,
                  data.byteSize(),
                  arena.allocateFrom(LONG, shape),
                  (long) shape.length,
                  OnnxModel.elementType(dtype),
                  result));
      return result.get(POINTER, 0);
    } catch (Throwable e) {
      throw NativeFunctions.failed("CreateTensor", e);
    }
  }

  /** Runs a session; names and values are arrays of pointers. */
  void run(
      MemorySegment session,
      MemorySegment inputNames,
      MemorySegment inputs,
      long inputCount,
      MemorySegment outputNames,
      MemorySegment outputs,
      long outputCount) {
    try {
      check(
          (MemorySegment)
              run.invokeExact(
                  session,
                  MemorySegment.NULL,
                  inputNames,
                  inputs,
                  inputCount,
                  outputNames,
                  outputCount,
                  outputs));
    } catch (Throwable e) {
      throw NativeFunctions.failed("Run", e);
    }
  }

  void releaseSession(MemorySegment session) {
    release(releaseSession, session);
  }

  void releaseTensor(MemorySegment tensor) {
    release(releaseValue, tensor);
  }

  private static void release(MethodHandle function, MemorySegment handle) {
    try {
      function.invokeExact(handle);
    } catch (Throwable e) {
      throw NativeFunctions.failed("Release", e);
    }
  }
}
