package dev.foldmax.benchmarks;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.util.List;
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
      "--enable-native-access=ALL-UNNAMED",
      "--sun-misc-unsafe-memory-access=allow",
      "-Xmx4g"
    })
public class AttendBenchmark {
  /** Sequences. */
  @Param("1")
  int batch;

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

  /** The head dimension of queries and keys. */
  @Param("64")
  int dim;

  /** The head dimension of values. */
  @Param("64")
  int valueDim;

  /** The type of queries and output. */
  @Param("F32")
  DType queryType;

  /** How keys and values are stored. */
  @Param("F32")
  Storage storage;

  /** How the batch lies in memory. */
  @Param("DENSE")
  Layout layout;

  /** What is done with the scores. */
  @Param("FULL")
  Variant variant;

  /** How many threads work at once. */
  @Param("1")
  int threads;

  /** Who computes. */
  @Param({"FOLDMAX", "NAIVE"})
  Contender contender;

  private Computation computation;

  /** Makes the tensors. */
  @Setup
  public void open() {
    AttentionCase shape =
        new AttentionCase(
            batch, heads, keyHeads, queries, keys, dim, valueDim, queryType, storage, layout,
            variant);
    computation = contender.prepare(Inputs.of(shape), threads);
  }

  /** Ends the threads. */
  @TearDown
  public void close() {
    computation.close();
  }

  /** Computes it once. */
  @Benchmark
  public List<Tensor> run() {
    return computation.run();
  }
}
