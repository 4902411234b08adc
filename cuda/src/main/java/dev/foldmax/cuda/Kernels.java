package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;

/**
 * Kernels by source, entry and macros: compiled when first asked for, then kept, and their code
 * kept on disk. For several threads: of those that ask for the same code one compiles.
 */
final class Kernels implements AutoCloseable {
  private record CodeKey(String source, Map<String, Integer> macros) {}

  private record KernelKey(String source, String entry, Map<String, Integer> macros) {}

  private final Context context;
  private final CodeProvider code;
  private final ConcurrentHashMap<KernelKey, Kernel> kernels = new ConcurrentHashMap<>();
  private final ConcurrentHashMap<CodeKey, FutureTask<Long>> modules = new ConcurrentHashMap<>();

  Kernels(Context context, KernelCompiler compiler, CodeCache cache) {
    this.context = context;
    this.code = new CodeProvider(compiler, cache, context.device().capability());
  }

  /**
   * A kernel.
   *
   * @param source the name of a resource, such as {@code copy.cu}
   * @param entry the name of an {@code extern "C"} kernel in it
   * @param macros definitions for its compilation; not to be changed later
   * @throws CudaException if it does not compile or load
   */
  Kernel get(String source, String entry, Map<String, Integer> macros) {
    KernelKey key = new KernelKey(source, entry, macros);
    Kernel known = kernels.get(key);
    return known != null ? known : load(key);
  }

  /**
   * The constants by which a source tells how it wants to be launched.
   *
   * @param name of an {@code extern "C" __constant__} structure of ints
   * @param count how many ints
   */
  int[] constants(String source, String name, Map<String, Integer> macros, int count) {
    long module = module(source, macros);
    context.makeCurrent();
    long address = CudaDriver.moduleGetGlobal(module, name);
    // On a stream of its own, since the calls' own stream may be recording.
    try (Arena arena = Arena.ofConfined();
        Stream aside = new Stream(context)) {
      MemorySegment ints = arena.allocate(JAVA_INT, count);
      CudaDriver.memcpyDtoHAsync(ints.address(), address, ints.byteSize(), aside.handle());
      aside.synchronize();
      return ints.toArray(JAVA_INT);
    }
  }

  private long module(String source, Map<String, Integer> macros) {
    return once(modules, new CodeKey(source, macros), this::loadModule);
  }

  private Kernel load(KernelKey key) {
    long module = module(key.source, key.macros);
    return kernels.computeIfAbsent(
        key,
        absent -> {
          context.makeCurrent();
          return new Kernel(context, CudaDriver.moduleGetFunction(module, key.entry));
        });
  }

  private long loadModule(CodeKey key) {
    byte[] image = code.get(key.source, key.macros);
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment copy = arena.allocate(image.length + 1L, 16); // PTX ends with a zero
      MemorySegment.copy(MemorySegment.ofArray(image), 0, copy, 0, image.length);
      context.makeCurrent();
      return CudaDriver.moduleLoadData(copy);
    }
  }

  @Override
  public void close() {
    context.makeCurrent();
    for (FutureTask<Long> module : modules.values()) {
      if (module.state() == Future.State.SUCCESS) {
        CudaDriver.moduleUnload(module.resultNow());
      }
    }
    modules.clear();
    kernels.clear();
  }

  /** What makes a value from its key. */
  @FunctionalInterface
  interface Maker<K, V> {
    V make(K key);
  }

  /** A key's value, made by one of the threads that ask; a failure is forgotten. */
  static <K, V> V once(
      ConcurrentHashMap<K, FutureTask<V>> values, K key, Maker<? super K, ? extends V> maker) {
    FutureTask<V> own = new FutureTask<>(() -> maker.make(key));
    FutureTask<V> earlier = values.putIfAbsent(key, own);
    FutureTask<V> task = earlier == null ? own : earlier;
    if (earlier == null) {
      own.run(); // not inside the map, where other keys would wait too
    }
    try {
      return task.get();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new CancellationException("interrupted");
    } catch (ExecutionException e) {
      values.remove(key, task);
      if (e.getCause() instanceof RuntimeException cause) {
        throw cause;
      }
      if (e.getCause() instanceof Error cause) {
        throw cause;
      }
      throw new AssertionError("makers throw nothing else", e);
    }
  }
}
