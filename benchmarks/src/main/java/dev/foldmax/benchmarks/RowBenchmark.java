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

/** The verbs on rows; the parameters are those of {@link RowCase}. */
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
public class RowBenchmark {
  /** How many rows. */
  @Param("4096")
  int rows;

  /** Elements of each row. */
  @Param("1024")
  int columns;

  /** Their type. */
  @Param("F32")
  DType dtype;

  /** What is done with them. */
  @Param RowVerb verb;

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
    computation = contender.prepare(Inputs.of(new RowCase(rows, columns, dtype, verb)), threads);
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
