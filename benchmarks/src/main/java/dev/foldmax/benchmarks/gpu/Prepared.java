package dev.foldmax.benchmarks.gpu;

import dev.foldmax.Tensor;
import dev.foldmax.cuda.CudaBackend;
import dev.foldmax.cuda.CudaGraph;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** A case that is ready to be timed: called set by set, or as a graph with a call of each set. */
final class Prepared implements AutoCloseable {
  private static final int TRIALS = 3;
  private static final int LEAST_REPETITIONS = 5;
  private static final int MOST_REPETITIONS = 2000;
  private static final double MICROS_PER_MILLI = 1000;

  private final CudaBackend backend;
  private final Work work;
  private final @Nullable CudaGraph graph;
  private int turn;

  /** Calls each set once, so that kernels are compiled. */
  Prepared(CudaBackend backend, Work work, boolean inGraph) {
    this.backend = backend;
    this.work = work;
    callEach();
    backend.synchronize();
    graph = inGraph ? backend.capture(this::callEach) : null;
  }

  private void callEach() {
    for (int set = 0; set < work.sets(); set++) {
      work.call(set);
    }
  }

  Work work() {
    return work;
  }

  private void repeat() {
    if (graph != null) {
      graph.launch();
    } else {
      work.call(turn);
      turn = (turn + 1) % work.sets();
    }
  }

  /** The times of calls, after a while of the same. */
  Times time(double heatMillis, double measureMillis) {
    double estimate = Times.of(backend.time(this::repeat, TRIALS), 1).median();
    backend.time(this::repeat, repetitions(heatMillis, estimate));
    double[] measured = backend.time(this::repeat, repetitions(measureMillis, estimate));
    return Times.of(measured, graph == null ? 1 : work.sets());
  }

  private static int repetitions(double millis, double estimate) {
    return (int)
        Math.clamp(millis * MICROS_PER_MILLI / estimate, LEAST_REPETITIONS, MOST_REPETITIONS);
  }

  /** Fills the outputs with NaN (integers with -1), calls set 0, and writes samples of them. */
  void writeSamples(Path file) throws IOException {
    try (Arena arena = Arena.ofShared();
        FileChannel channel =
            FileChannel.open(
                file,
                StandardOpenOption.CREATE,
                StandardOpenOption.TRUNCATE_EXISTING,
                StandardOpenOption.WRITE)) {
      for (Tensor output : work.outputs()) {
        Tensor poison = Tensor.allocate(output.dtype(), 1);
        poison.fill(output.dtype().isFloating() ? Double.NaN : -1);
        backend.copy(backend.upload(arena, poison).expand(output.shape()), output);
      }
      work.call(0);
      for (Tensor sample : work.samples()) {
        MemorySegment bytes =
            arena.allocate(sample.elements() * sample.dtype().bytes(), Long.BYTES);
        backend.copy(sample, Tensor.of(bytes, sample.dtype(), sample.shape()));
        for (ByteBuffer rest = bytes.asByteBuffer(); rest.hasRemaining(); ) {
          channel.write(rest);
        }
      }
    }
  }

  @Override
  public void close() {
    if (graph != null) {
      graph.close();
    }
    work.close();
  }

  /**
   * Times of a call.
   *
   * @param repetitions how many were measured
   */
  record Times(double median, double least, double most, int repetitions) {
    static Times of(double[] micros, int calls) {
      double[] sorted = micros.clone();
      Arrays.sort(sorted);
      int n = sorted.length;
      double median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
      return new Times(median / calls, sorted[0] / calls, sorted[n - 1] / calls, n);
    }
  }
}
