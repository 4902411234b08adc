package dev.foldmax.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import dev.foldmax.DType;
import java.lang.management.ManagementFactory;
import java.util.LinkedHashSet;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The CPU backend allocates nothing once it is warm. Vectors are objects until C2 has compiled the
 * loops that they live in, so calls go on until a series of them allocated nothing; what allocates
 * at each call never gets there.
 */
class AllocationTest {
  private static final int QUIET_CALLS = 20;
  private static final long DEADLINE_NANOS = 60_000_000_000L;

  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  static Set<AttentionCase> attentions() {
    Set<AttentionCase> cases = new LinkedHashSet<>();
    for (Storage storage : Storage.values()) {
      cases.add(new AttentionCase(4, 2, 200, 200, 64, storage, Variant.CAUSAL));
      cases.add(new AttentionCase(4, 2, 1, 400, 64, storage, Variant.FULL));
    }
    for (Variant variant : Variant.values()) {
      cases.add(new AttentionCase(2, 2, 200, 600, 64, Storage.F32, variant));
    }
    return cases;
  }

  @ParameterizedTest
  @MethodSource("attentions")
  void attention(AttentionCase shape) {
    try (AttentionWorkload workload = new AttentionWorkload(shape, 1)) {
      assertFallsSilent(workload::foldmax);
    }
  }

  @ParameterizedTest
  @EnumSource
  void rows(RowVerb verb) {
    for (DType dtype : new DType[] {DType.F32, DType.BF16}) {
      try (RowWorkload workload = new RowWorkload(new RowCase(64, 1003, dtype, verb), 1)) {
        assertFallsSilent(workload::foldmax);
      }
    }
  }

  @Test
  void merge() {
    try (MergeWorkload workload = new MergeWorkload(5, 67, 64, 1)) {
      assertFallsSilent(workload::foldmax);
    }
  }

  /** One thread does all the work here: the calling one. */
  private static void assertFallsSilent(Runnable call) {
    long deadline = System.nanoTime() + DEADLINE_NANOS;
    int quiet = 0;
    long allocated = 0;
    while (quiet < QUIET_CALLS && System.nanoTime() < deadline) {
      long before = THREADS.getCurrentThreadAllocatedBytes();
      call.run();
      allocated = THREADS.getCurrentThreadAllocatedBytes() - before;
      quiet = allocated == 0 ? quiet + 1 : 0;
    }
    assertThat(quiet)
        .as("calls in a row that allocate nothing; the last one allocated %d bytes", allocated)
        .isEqualTo(QUIET_CALLS);
  }
}
