package dev.foldmax.benchmarks.natives;

import static dev.foldmax.benchmarks.natives.NativeFunctions.DOUBLE;
import static dev.foldmax.benchmarks.natives.NativeFunctions.INT;
import static dev.foldmax.benchmarks.natives.NativeFunctions.LONG;
import static dev.foldmax.benchmarks.natives.NativeFunctions.POINTER;

import dev.foldmax.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;

/**
 * PyTorch's {@code libtorch_cpu}, 2.7 or later. Tensors are handles, each an {@code at::Tensor *},
 * to be {@linkplain #delete deleted}.
 *
 * <p>Attention and top-k are called through the library's C interface. That has no variants that
 * write into a given output, so the verbs on rows go to the operators themselves, whose C++
 * signatures ({@code const Tensor &}, {@code int64_t}, {@code bool}, {@code Tensor &}) are plain
 * pointers and integers to a linker; their names are those of the Itanium ABI. A C++ exception
 * there would end the process, so the shapes have to be right.
 *
 * <p>Not thread-safe, and {@link #setThreads} counts for the calling thread only.
 */
@SuppressWarnings("restricted") // native code is what this is for
public final class TorchLibrary {
  private static final int CPU = 0;
  private static final ValueLayout.OfBoolean BOOL = ValueLayout.JAVA_BOOLEAN;

  private final MethodHandle setThreads;
  private final MethodHandle create;
  private final MethodHandle delete;
  private final MethodHandle dataPointer;
  private final MethodHandle strides;
  private final MethodHandle flashAttention;
  private final MethodHandle topK;
  private final MethodHandle softmax;
  private final MethodHandle logSoftmax;
  private final MethodHandle logSumExp;

  /** Where calls leave the handles that they return: two pointers. */
  private final MemorySegment results = Arena.ofAuto().allocate(POINTER, 2);

  /** The axes of a reduction: the last one. */
  private final MemorySegment lastAxis = Arena.ofAuto().allocateFrom(LONG, -1);

  private TorchLibrary(NativeFunctions library) {
    setThreads = library.procedure("_ZN2at15set_num_threadsEi", INT);
    create =
        library.function(
            "aoti_torch_create_tensor_from_blob",
            INT,
            POINTER,
            LONG,
            POINTER,
            POINTER,
            LONG,
            INT,
            INT,
            INT,
            POINTER);
    delete = library.function("aoti_torch_delete_tensor_object", INT, POINTER);
    dataPointer = library.function("aoti_torch_get_data_ptr", INT, POINTER, POINTER);
    strides = library.function("aoti_torch_get_strides", INT, POINTER, POINTER);
    flashAttention =
        library.function(
            "aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu",
            INT,
            POINTER,
            POINTER,
            POINTER,
            DOUBLE,
            INT,
            POINTER,
            POINTER,
            POINTER,
            POINTER);
    topK =
        library.function(
            "aoti_torch_cpu_topk", INT, POINTER, LONG, LONG, INT, INT, POINTER, POINTER);
    softmax = mapOverRows(library, "12_softmax_out");
    logSoftmax = mapOverRows(library, "16_log_softmax_out");
    logSumExp =
        library.function(
            "_ZN2at4_ops13logsumexp_out4callERKNS_6TensorEN3c108ArrayRefIlEEbRS2_",
            POINTER,
            POINTER,
            POINTER,
            LONG,
            BOOL,
            POINTER);
  }

  private static MethodHandle mapOverRows(NativeFunctions library, String operator) {
    return library.function(
        "_ZN2at4_ops" + operator + "4callERKNS_6TensorElbRS2_",
        POINTER,
        POINTER,
        LONG,
        BOOL,
        POINTER);
  }

  /**
   * Loads it.
   *
   * @param file {@code libtorch_cpu.so}, beside the libraries that it needs
   * @param avx2 whether it is to keep to AVX2 on a machine with AVX-512
   */
  public static TorchLibrary load(Path file, boolean avx2) {
    if (avx2) {
      setEnvironment("ATEN_CPU_CAPABILITY", "avx2");
      setEnvironment("MKL_ENABLE_INSTRUCTIONS", "AVX2");
    }
    return new TorchLibrary(NativeFunctions.load(file));
  }

  /** As seen by native code; the library reads it when it starts. */
  private static void setEnvironment(String name, String value) {
    MethodHandle setenv =
        NativeFunctions.standard("setenv", FunctionDescriptor.of(INT, POINTER, POINTER, INT));
    try (Arena arena = Arena.ofConfined()) {
      int rc = (int) setenv.invokeExact(arena.allocateFrom(name), arena.allocateFrom(value), 1);
      check("setenv", rc);
    } catch (Throwable e) {
      throw NativeFunctions.failed("setenv", e);
    }
  }

  /** How many threads an operator that the calling thread starts may use. */
  public void setThreads(int threads) {
    try {
      setThreads.invokeExact(threads);
    } catch (Throwable e) {
      throw NativeFunctions.failed("set_num_threads", e);
    }
  }

  /**
   * A tensor over native memory, which has to outlive it.
   *
   * @param strides in elements, one for each size
   */
  public MemorySegment tensor(MemorySegment data, DType dtype, long[] sizes, long[] strides) {
    try (Arena arena = Arena.ofConfined()) {
      int rc =
          (int)
              create.invokeExact(
                  data,
                  (long) sizes.length,
                  arena.allocateFrom(LONG, sizes),
                  arena.allocateFrom(LONG, strides),
                  0L,
                  scalarType(dtype),
                  CPU,
                  0,
                  results);
      check("create_tensor_from_blob", rc);
      return results.getAtIndex(POINTER, 0);
    } catch (Throwable e) {
      throw NativeFunctions.failed("create_tensor_from_blob", e);
    }
  }

  /** As {@code c10::ScalarType} numbers them. */
  private static int scalarType(DType dtype) {
    return switch (dtype) {
      case I64 -> 4;
      case F16 -> 5;
      case F32 -> 6;
      case F64 -> 7;
      case BF16 -> 15;
      case I8, BOOL, I32 -> throw new IllegalArgumentException("dtype: " + dtype);
    };
  }

  /** Ends a handle, and the tensor's memory if the library allocated it. */
  public void delete(MemorySegment tensor) {
    try {
      check("delete_tensor_object", (int) delete.invokeExact(tensor));
    } catch (Throwable e) {
      throw NativeFunctions.failed("delete_tensor_object", e);
    }
  }

  /** The first {@code bytes} bytes of a tensor's memory. */
  public MemorySegment data(MemorySegment tensor, long bytes) {
    try {
      check("get_data_ptr", (int) dataPointer.invokeExact(tensor, results));
      return results.getAtIndex(POINTER, 0).reinterpret(bytes);
    } catch (Throwable e) {
      throw NativeFunctions.failed("get_data_ptr", e);
    }
  }

  /** The strides of a tensor of some rank, in elements. */
  public long[] strides(MemorySegment tensor, int rank) {
    try {
      check("get_strides", (int) strides.invokeExact(tensor, results));
      return results.getAtIndex(POINTER, 0).reinterpret(rank * LONG.byteSize()).toArray(LONG);
    } catch (Throwable e) {
      throw NativeFunctions.failed("get_strides", e);
    }
  }

  /**
   * What {@code scaled_dot_product_attention} ends in on a CPU, with the default scale.
   *
   * @param q (batch, heads, queries, dim)
   * @param k (batch, heads, keys, dim)
   * @param v (batch, heads, keys, dim)
   * @param causal aligned top-left
   * @return a new tensor (batch, heads, queries, dim), of strides that the library chooses
   */
  public MemorySegment attention(
      MemorySegment q, MemorySegment k, MemorySegment v, boolean causal) {
    try {
      int rc =
          (int)
              flashAttention.invokeExact(
                  q,
                  k,
                  v,
                  0.0,
                  causal ? 1 : 0,
                  MemorySegment.NULL,
                  MemorySegment.NULL,
                  results,
                  results.asSlice(POINTER.byteSize()));
      check("scaled_dot_product_flash_attention_for_cpu", rc);
    } catch (Throwable e) {
      throw NativeFunctions.failed("scaled_dot_product_flash_attention_for_cpu", e);
    }
    MemorySegment out = results.getAtIndex(POINTER, 0);
    delete(results.getAtIndex(POINTER, 1)); // the logarithms of the sums
    return out;
  }

  /** Softmax over the last axis, into a tensor of the same type and shape. */
  public void softmax(MemorySegment x, MemorySegment out) {
    map(softmax, x, out);
  }

  /** The logarithm of the softmax over the last axis, into a tensor of the same type and shape. */
  public void logSoftmax(MemorySegment x, MemorySegment out) {
    map(logSoftmax, x, out);
  }

  private static void map(MethodHandle operator, MemorySegment x, MemorySegment out) {
    try {
      MemorySegment same = (MemorySegment) operator.invokeExact(x, -1L, false, out);
      check("softmax_out", same.equals(out) ? 0 : 1);
    } catch (Throwable e) {
      throw NativeFunctions.failed("softmax_out", e);
    }
  }

  /** The logarithm of the sum of exponentials over the last axis. */
  public void logSumExp(MemorySegment x, MemorySegment out) {
    try {
      MemorySegment same = (MemorySegment) logSumExp.invokeExact(x, lastAxis, 1L, false, out);
      check("logsumexp_out", same.equals(out) ? 0 : 1);
    } catch (Throwable e) {
      throw NativeFunctions.failed("logsumexp_out", e);
    }
  }

  /** The k largest along the last axis, in order: new tensors of values and I64 indices. */
  public TopK topK(MemorySegment x, long k) {
    try {
      int rc =
          (int) topK.invokeExact(x, k, -1L, 1, 1, results, results.asSlice(POINTER.byteSize()));
      check("topk", rc);
      return new TopK(results.getAtIndex(POINTER, 0), results.getAtIndex(POINTER, 1));
    } catch (Throwable e) {
      throw NativeFunctions.failed("topk", e);
    }
  }

  /**
   * The result of {@link TorchLibrary#topK}.
   *
   * @param values a tensor
   * @param indices a tensor
   */
  public record TopK(MemorySegment values, MemorySegment indices) {}

  private static void check(String function, int rc) {
    if (rc != 0) {
      throw new IllegalStateException(function + " returned " + rc + "; it printed why");
    }
  }
}
