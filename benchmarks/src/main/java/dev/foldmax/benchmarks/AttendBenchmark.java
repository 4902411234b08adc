package dev.foldmax.benchmarks;

import dev.foldmax.Tensor;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** Attention; the parameters are those of {@link AttentionCase}. */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MILLISECONDS)
@Fork(
    value = 3,
    jvmArgs = {
      "--add-modules=jdk.incubator.vector",
      "--sun-misc-unsafe-memory-access=allow",
      "-Xmx4g"
    })
public class AttendBenchmark {
  /** Query heads. */
  @Param("8")
  int heads;

  /** Key heads. */
  @Param("8")
  int keyHeads;

  /** Queries of each head. */
  @Param("512")
  int queries;

  /** Keys of each key head. */
  @Param("512")
  int keys;

  /** The head dimension. */
  @Param("64")
  int dim;

  /** How keys and values are stored. */
  @Param("F32")
  Storage storage;

  /** What is done with the scores. */
  @Param("FULL")
  Variant variant;

  /** How many threads work at once. */
  @Param("1")
  int threads;

  private AttentionWorkload workload;

  /** Makes the tensors. */
  @Setup
  public void open() {
    workload =
        new AttentionWorkload(
            new AttentionCase(heads, keyHeads, queries, keys, dim, storage, variant), threads);
  }

  /** Ends the threads. */
  @TearDown
  public void close() {
    workload.close();
  }

  /** By the CPU backend. */
  @Benchmark
  public Tensor foldmax() {
    return workload.foldmax();
  }

  /** By the naive version. */
  @Benchmark
  public Tensor naive() {
    return workload.naive();
  }
}
