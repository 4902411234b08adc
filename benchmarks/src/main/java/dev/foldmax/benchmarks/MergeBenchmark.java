package dev.foldmax.benchmarks;

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

/** Merging partial results of attention; the parameters are those of {@link MergeCase}. */
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
public class MergeBenchmark {
  /** How many partial results. */
  @Param("8")
  int partials;

  /** Rows of each. */
  @Param("4096")
  int rows;

  /** Elements of a row. */
  @Param("128")
  int dim;

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
    computation = contender.prepare(Inputs.of(new MergeCase(partials, rows, dim)), threads);
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
