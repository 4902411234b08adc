package dev.foldmax.cli;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.DoubleConsumer;
import org.jspecify.annotations.Nullable;

/** Measures the ceilings of a machine, and the verbs beside them. */
final class Bench {
  /** Bytes of a copy on a device: far more than a cache holds. */
  private static final long COPY_BYTES = 1L << 29;

  /** Random numbers before they repeat. */
  private static final int BLOCK = 1 << 20;

  /** The share of the time that goes into warming up: the JVM compiles, a device heats. */
  private static final double WARMING = 0.5;

  private static final int CEILINGS_OF_CPU = 3;
  private static final int WORKS = 6;

  private static final String FLOPS = "FLOP/s";
  private static final String BYTES = "B/s";

  private final Backend backend;
  private final BenchSizes sizes;
  private final double seconds;
  private final DoubleConsumer reach;
  private final List<BenchResult> results = new ArrayList<>();
  private int measurements;

  /**
   * A series of measurements.
   *
   * @param seconds about how long it takes
   * @param reach is told how far it has come, from 0 to 1
   */
  Bench(Backend backend, BenchSizes sizes, double seconds, DoubleConsumer reach) {
    this.backend = backend;
    this.sizes = sizes;
    this.seconds = seconds;
    this.reach = reach;
  }

  /** The CPU with so many threads. */
  List<BenchResult> onCpu(int threads) {
    measurements = CEILINGS_OF_CPU + WORKS;
    BenchResult fma;
    BenchResult read;
    BenchResult copy;
    try (CpuCeilings ceilings = new CpuCeilings(threads)) {
      fma = ceiling("multiply-adds, F32", ceilings.flops(), FLOPS, ceilings::multiplyAdd);
      read = ceiling("memory read", ceilings.bytes(), BYTES, ceilings::read);
      copy = ceiling("memory copy", 2.0 * ceilings.bytes(), BYTES, ceilings::copy);
    }
    measureWork(fma, read, copy);
    return results;
  }

  /** A device that copies on its own; reading alone may be faster than the copy that bounds it. */
  List<BenchResult> onDevice() {
    measurements = 1 + WORKS;
    BenchResult copy;
    try (Arena arena = Arena.ofShared()) {
      Tensor from = backend.upload(arena, Tensor.allocate(DType.F32, COPY_BYTES / Float.BYTES));
      Tensor to = backend.allocate(arena, DType.F32, from.shape());
      copy = ceiling("memory copy", 2.0 * COPY_BYTES, BYTES, () -> backend.copy(from, to));
    }
    measureWork(null, copy, copy);
    return results;
  }

  private BenchResult ceiling(String name, double amount, String unit, Runnable job) {
    return add(name, amount, unit, null, job);
  }

  private void measureWork(@Nullable BenchResult arithmetic, BenchResult read, BenchResult copy) {
    rows(read, copy);
    prefill(arithmetic);
    decode(read);
  }

  private void rows(BenchResult read, BenchResult copy) {
    int n = sizes.rows() * sizes.rowLength();
    String size = sizes.rows() + " x " + sizes.rowLength() + " F32";
    try (Arena arena = Arena.ofShared()) {
      Tensor x = random(arena, 1, DType.F32, sizes.rows(), sizes.rowLength());
      Tensor out = backend.allocate(arena, DType.F32, x.shape());
      Tensor lse = backend.allocate(arena, DType.F32, sizes.rows());
      double bytes = (double) n * Float.BYTES;
      add("logsumexp " + size, bytes, BYTES, read, () -> backend.logSumExp(x, lse));
      add("softmax " + size, 2 * bytes, BYTES, copy, () -> backend.softmax(x, out));
    }
  }

  private void prefill(@Nullable BenchResult arithmetic) {
    long heads = sizes.prefillHeads();
    long length = sizes.prefillLength();
    try (Arena arena = Arena.ofShared()) {
      Tensor q = random(arena, 2, sizes.dtype(), 1, heads, length, BenchSizes.DIM);
      Tensor k = random(arena, 3, sizes.dtype(), 1, heads, length, BenchSizes.DIM);
      Tensor v = random(arena, 4, sizes.dtype(), 1, heads, length, BenchSizes.DIM);
      Tensor out = backend.allocate(arena, sizes.dtype(), q.shape());
      KeyValues keyValues = KeyValues.dense(k, v);
      double pairs = (double) heads * length * length;
      double visible = heads * (length * (length + 1) / 2.0);
      String size =
          "prefill L " + length + " H " + heads + " D " + BenchSizes.DIM + " " + sizes.dtype();
      add(
          size + " full",
          4 * pairs * BenchSizes.DIM,
          FLOPS,
          arithmetic,
          () -> backend.attend(q, keyValues, Attention.standard(), out, null));
      add(
          size + " causal",
          4 * visible * BenchSizes.DIM,
          FLOPS,
          arithmetic,
          () -> backend.attend(q, keyValues, Attention.causal(), out, null));
    }
  }

  private void decode(BenchResult read) {
    DType other = sizes.dtype() == DType.BF16 ? DType.F16 : DType.BF16;
    for (DType dtype : new DType[] {sizes.dtype(), other}) {
      long batch = sizes.decodeBatch();
      long length = sizes.decodeLength();
      try (Arena arena = Arena.ofShared()) {
        Tensor q = random(arena, 5, dtype, batch, BenchSizes.DECODE_HEADS, 1, BenchSizes.DIM);
        long[] shape = {batch, BenchSizes.DECODE_KEY_HEADS, length, BenchSizes.DIM};
        KeyValues cache =
            KeyValues.dense(random(arena, 6, dtype, shape), random(arena, 7, dtype, shape));
        Tensor out = backend.allocate(arena, dtype, q.shape());
        String heads = BenchSizes.DECODE_HEADS + "/" + BenchSizes.DECODE_KEY_HEADS;
        add(
            "decode B " + batch + " H " + heads + " Lk " + length + " " + dtype,
            2.0 * cache.keys().elements() * dtype.bytes(),
            BYTES,
            read,
            () -> backend.attend(q, cache, Attention.causal(), out, null));
      }
    }
  }

  /** Measures, for a share of the time: the median of what a warm call takes. */
  private BenchResult add(
      String name, double amount, String unit, @Nullable BenchResult ceiling, Runnable call) {
    Runnable job =
        () -> {
          for (int i = 0; i < sizes.callsOfAJob(); i++) {
            call.run();
          }
          backend.synchronize();
        };
    Stopwatch warm = Stopwatch.time(job, job, WARMING * seconds / measurements);
    Stopwatch time = Stopwatch.time(job, job, (1 - WARMING) * seconds / measurements);
    double each =
        (ceiling == null ? Math.min(warm.best(), time.best()) : time.median())
            / sizes.callsOfAJob();
    BenchResult result = new BenchResult(backend.name(), name, each, amount / each, unit, ceiling);
    results.add(result);
    reach.accept((double) results.size() / measurements);
    return result;
  }

  /**
   * Normal numbers in the backend's memory; a block of them is repeated, for they are slow to make.
   */
  private Tensor random(Arena arena, long seed, DType dtype, long... shape) {
    SplittableRandom random = new SplittableRandom(seed);
    float[] block = new float[BLOCK];
    for (int i = 0; i < BLOCK; i++) {
      block[i] = (float) random.nextGaussian();
    }
    Tensor typed = Tensor.of(block, BLOCK).to(dtype);
    Tensor whole = Tensor.allocate(dtype, shape);
    Tensor flat = whole.reshape(whole.elements());
    for (long i = 0; i < flat.elements(); i += BLOCK) {
      long end = Math.min(i + BLOCK, flat.elements());
      flat.slice(0, i, end).copyFrom(typed.slice(0, 0, end - i));
    }
    return backend.upload(arena, whole);
  }
}
