package dev.foldmax;

import dev.foldmax.cpu.CpuBackend;
import dev.foldmax.reference.ReferenceBackend;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.ServiceLoader;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;

/** Finds and opens backends for the factory methods of {@link Backend}. */
final class Backends {
  private static final System.Logger LOG = System.getLogger("dev.foldmax");
  private static final String VECTOR_MODULE = "jdk.incubator.vector";
  private static final String NO_VECTOR_MODULE =
      "the CPU backend needs the module "
          + VECTOR_MODULE
          + ": start java with --add-modules "
          + VECTOR_MODULE;

  private static final long CACHE_LINE = 64;

  private Backends() {}

  private static final AtomicBoolean WARNED = new AtomicBoolean();

  static Backend best() {
    Backend onTheHost;
    if (hasVectorModule()) {
      onTheHost = Backend.cpu();
    } else {
      onTheHost = reference();
      if (WARNED.compareAndSet(false, true)) {
        LOG.log(
            System.Logger.Level.WARNING, NO_VECTOR_MODULE + "; using the slow reference backend");
      }
    }
    List<Backend> order = new ArrayList<>();
    for (BackendProvider provider : providers()) {
      switch (provider.availability()) {
        case Availability.Available available -> open(provider).ifPresent(order::add);
        case Availability.Absent absent -> {}
        case Availability.Unusable unusable ->
            LOG.log(System.Logger.Level.WARNING, provider.name() + ": " + unusable.reason());
      }
    }
    if (order.isEmpty()) {
      return onTheHost;
    }
    order.add(onTheHost);
    return new FallbackBackend(order);
  }

  /** A provider that promised more than it can keep must not take the CPU backend down with it. */
  private static Optional<Backend> open(BackendProvider provider) {
    try {
      return Optional.of(provider.open(0));
    } catch (RuntimeException e) {
      LOG.log(System.Logger.Level.WARNING, provider.name() + ": " + e.getMessage(), e);
      return Optional.empty();
    }
  }

  static Backend reference() {
    return new ReferenceBackend();
  }

  static Backend cpu(int threads) {
    requireVectorModule();
    return CpuBackend.withThreads(threads);
  }

  static Backend cpu(Executor executor, int parallelism) {
    requireVectorModule();
    return CpuBackend.withExecutor(executor, parallelism);
  }

  static Backend provided(String name, int device) {
    for (BackendProvider provider : providers()) {
      if (provider.name().equals(name)) {
        return switch (provider.availability()) {
          case Availability.Available available -> provider.open(device);
          case Availability.Absent absent -> throw new BackendUnavailableException(absent.reason());
          case Availability.Unusable unusable ->
              throw new BackendUnavailableException(unusable.reason());
        };
      }
    }
    throw new BackendUnavailableException(
        name + ": no such backend; add the module foldmax-" + name + " to the application");
  }

  /** Looked up from this module's own class loader, whichever thread asks. */
  static List<BackendProvider> providers() {
    List<BackendProvider> providers = new ArrayList<>();
    ServiceLoader.load(BackendProvider.class, Backends.class.getClassLoader())
        .forEach(providers::add);
    return providers;
  }

  static Map<String, Availability> availabilities() {
    Map<String, Availability> all = new LinkedHashMap<>();
    for (BackendProvider provider : providers()) {
      all.put(provider.name(), provider.availability());
    }
    all.putIfAbsent(
        "cuda", new Availability.Absent("the module foldmax-cuda is not part of this application"));
    all.put(
        "cpu",
        hasVectorModule()
            ? new Availability.Available(CpuBackend.vectorDescription())
            : new Availability.Unusable(NO_VECTOR_MODULE));
    all.put("reference", new Availability.Available("float64, scalar"));
    return all;
  }

  private static boolean hasVectorModule() {
    return ModuleLayer.boot().findModule(VECTOR_MODULE).isPresent();
  }

  private static void requireVectorModule() {
    if (!hasVectorModule()) {
      throw new BackendUnavailableException(NO_VECTOR_MODULE);
    }
  }

  static UnsupportedOperationException noPartials(Backend backend) {
    return new UnsupportedOperationException(
        backend.name() + ": serves no partials; Backend.cpu() and Backend.reference() do");
  }

  static long[] withoutLast(String name, Tensor tensor) {
    if (tensor.rank() == 0) {
      throw new IllegalArgumentException(name + ": expected at least one dimension, got " + tensor);
    }
    return Arrays.copyOf(tensor.shape(), tensor.rank() - 1);
  }

  static Tensor allocate(Arena arena, DType dtype, long... shape) {
    long bytes = Tensor.bytes(dtype, shape);
    return Tensor.of(arena.allocate(bytes, CACHE_LINE), dtype, shape);
  }
}
