package dev.foldmax.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import dev.foldmax.DType;
import java.lang.management.ManagementFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * What is timed allocates nothing in its loops once it is warm. A call leaves a few descriptions
 * behind, and in some JVMs C2 leaves a vector or two of each row boxed; a box in a loop over keys
 * or elements would pass the limit many times over. Vectors are objects until C2 has compiled the
 * loops that they live in, so calls go on until a series of them stays below the limit.
 */
class AllocationTest {
  private static final int MOST_BYTES_OF_A_CALL = 4096;
  private static final int MOST_BYTES_OF_A_ROW = 128;
  private static final int ROWS = 512;
  private static final int QUIET_CALLS = 20;
  private static final long DEADLINE_NANOS = 60_000_000_000L;

  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  @ParameterizedTest
  @EnumSource
  void decode(Storage storage) {
    AttentionCase shape = AttentionCase.decode(2, 1024).heads(4, 2).stored(storage);
    assertFallsSilent(shape.heads(), shape);
  }

  @ParameterizedTest
  @EnumSource
  void prefill(Storage storage) {
    AttentionCase shape = AttentionCase.square(2, 203, 64).variant(Variant.CAUSAL).stored(storage);
    assertFallsSilent(shape.heads() * shape.queries(), shape);
  }

  @ParameterizedTest
  @EnumSource
  void rows(RowVerb verb) {
    for (DType dtype : new DType[] {DType.F64, DType.F32, DType.F16, DType.BF16}) {
      assertFallsSilent(ROWS, new RowCase(ROWS, 1003, dtype, verb));
    }
  }

  @Test
  void merge() {
    assertFallsSilent(ROWS, new MergeCase(5, ROWS, 256));
  }

  /** One thread does all the work here: the calling one. */
  private static void assertFallsSilent(int rows, Case shape) {
    try (Computation computation = Contender.FOLDMAX.prepare(Inputs.of(shape), 1)) {
      assertFallsSilent(rows, computation);
    }
  }

  private static void assertFallsSilent(int rows, Computation computation) {
    long most = MOST_BYTES_OF_A_CALL + (long) rows * MOST_BYTES_OF_A_ROW;
    long deadline = System.nanoTime() + DEADLINE_NANOS;
    int quiet = 0;
    long allocated = 0;
    while (quiet < QUIET_CALLS && System.nanoTime() < deadline) {
      long before = THREADS.getCurrentThreadAllocatedBytes();
      computation.run();
      allocated = THREADS.getCurrentThreadAllocatedBytes() - before;
      quiet = allocated <= most ? quiet + 1 : 0;
    }
    assertThat(quiet)
        .as("calls in a row of at most %d bytes; the last one took %d", most, allocated)
        .isEqualTo(QUIET_CALLS);
  }
}
