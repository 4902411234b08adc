package dev.foldmax.cli;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/** What the machine can do: each thread multiplies out of registers, or reads or copies its own. */
final class CpuCeilings implements AutoCloseable {
  private static final VectorSpecies<Float> F32 = FloatVector.SPECIES_PREFERRED;

  /** Sums under way at once: latency times rate of the multiply-add units, with some to spare. */
  private static final int CHAINS = 12;

  private static final int STEPS = 1 << 20;

  /** Elements of all threads' arrays together: far more than caches hold. */
  private static final int ELEMENTS = 1 << 26;

  private final int threads;
  private final ExecutorService executor;
  private final float[][] sources;
  private final float[][] targets;

  CpuCeilings(int threads) {
    this.threads = threads;
    executor = Executors.newFixedThreadPool(threads, Thread.ofPlatform().daemon().factory());
    sources = new float[threads][];
    targets = new float[threads][];
    inParallel(
        thread -> {
          sources[thread] = new float[ELEMENTS / threads];
          targets[thread] = new float[ELEMENTS / threads];
          Arrays.fill(sources[thread], 1); // so that its pages are there
          return 0f;
        });
  }

  /** Gives what its loop comes to, so that the JIT keeps the loop. */
  private interface Job {
    float run(int thread);
  }

  private void inParallel(Job job) {
    List<Callable<Float>> jobs = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      int thread = i;
      jobs.add(() -> job.run(thread));
    }
    try {
      for (Future<Float> done : executor.invokeAll(jobs)) {
        done.get();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new Failure("interrupted", e);
    } catch (ExecutionException e) {
      throw new IllegalStateException(e);
    }
  }

  /** The floating-point operations of {@link #multiplyAdd}. */
  double flops() {
    return 2.0 * threads * CHAINS * STEPS * F32.length();
  }

  /** The bytes that {@link #read} reads, and that {@link #copy} reads and writes. */
  double bytes() {
    int elements = ELEMENTS / threads;
    return (double) elements * threads * Float.BYTES;
  }

  /** Multiply-adds out of registers. */
  void multiplyAdd() {
    inParallel(thread -> multiplyAdd(0.5f + thread, 1));
  }

  private static float multiplyAdd(float factor, float summand) {
    FloatVector a = FloatVector.broadcast(F32, factor);
    FloatVector b = FloatVector.broadcast(F32, summand);
    FloatVector s0 = b;
    FloatVector s1 = b.add(1);
    FloatVector s2 = b.add(2);
    FloatVector s3 = b.add(3);
    FloatVector s4 = b.add(4);
    FloatVector s5 = b.add(5);
    FloatVector s6 = b.add(6);
    FloatVector s7 = b.add(7);
    FloatVector s8 = b.add(8);
    FloatVector s9 = b.add(9);
    FloatVector s10 = b.add(10);
    FloatVector s11 = b.add(11);
    for (int i = 0; i < STEPS; i++) {
      s0 = s0.fma(a, b);
      s1 = s1.fma(a, b);
      s2 = s2.fma(a, b);
      s3 = s3.fma(a, b);
      s4 = s4.fma(a, b);
      s5 = s5.fma(a, b);
      s6 = s6.fma(a, b);
      s7 = s7.fma(a, b);
      s8 = s8.fma(a, b);
      s9 = s9.fma(a, b);
      s10 = s10.fma(a, b);
      s11 = s11.fma(a, b);
    }
    FloatVector low = s0.add(s1).add(s2.add(s3)).add(s4.add(s5));
    FloatVector high = s6.add(s7).add(s8.add(s9)).add(s10.add(s11));
    return low.add(high).reduceLanes(VectorOperators.ADD);
  }

  /** Reads every array, in four parts at once: one alone is slower where pages are small. */
  void read() {
    inParallel(thread -> sum(sources[thread]));
  }

  private static float sum(float[] x) {
    int part = x.length / 4;
    FloatVector s0 = FloatVector.zero(F32);
    FloatVector s1 = s0;
    FloatVector s2 = s0;
    FloatVector s3 = s0;
    for (int i = 0; i <= part - F32.length(); i += F32.length()) {
      s0 = FloatVector.fromArray(F32, x, i).add(s0);
      s1 = FloatVector.fromArray(F32, x, i + part).add(s1);
      s2 = FloatVector.fromArray(F32, x, i + 2 * part).add(s2);
      s3 = FloatVector.fromArray(F32, x, i + 3 * part).add(s3);
    }
    return s0.add(s1).add(s2.add(s3)).reduceLanes(VectorOperators.ADD);
  }

  /** Copies every array to another. */
  void copy() {
    inParallel(
        thread -> {
          System.arraycopy(sources[thread], 0, targets[thread], 0, sources[thread].length);
          return targets[thread][0];
        });
  }

  @Override
  public void close() {
    executor.shutdownNow();
  }
}
