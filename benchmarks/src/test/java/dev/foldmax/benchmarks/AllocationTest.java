package dev.foldmax.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import dev.foldmax.DType;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.stream.Stream;
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
  private static final long DEADLINE_NANOS = 20_000_000_000L;

  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  /** Fresh JVMs that a case gets when this one's compiler has had bad luck with it. */
  private static final int FRESH_JVMS = 3;

  /** What is computed. */
  private enum Kind {
    DECODE,
    PREFILL,
    ROWS,
    MERGE
  }

  @ParameterizedTest
  @EnumSource
  void decode(Storage storage) throws Exception {
    assertFallsSilent(Kind.DECODE, storage.name());
  }

  @ParameterizedTest
  @EnumSource
  void prefill(Storage storage) throws Exception {
    assertFallsSilent(Kind.PREFILL, storage.name());
  }

  @ParameterizedTest
  @EnumSource
  void rows(RowVerb verb) throws Exception {
    assertFallsSilent(Kind.ROWS, verb.name());
  }

  @Test
  void merge() throws Exception {
    assertFallsSilent(Kind.MERGE, "");
  }

  /**
   * On a busy machine the JVM now and then compiles a loop from a poor profile, boxes its vectors
   * and stays so; then only another JVM can tell.
   */
  private static void assertFallsSilent(Kind kind, String name) throws Exception {
    boolean isSilent = fallsSilent(kind, name);
    for (int i = 0; i < FRESH_JVMS && !isSilent; i++) {
      isSilent = fallsSilentInAFreshJvm(kind, name);
    }
    assertThat(isSilent).as("calls that allocate next to nothing, some time").isTrue();
  }

  private static boolean fallsSilentInAFreshJvm(Kind kind, String name) throws Exception {
    Process java =
        FreshJvm.of(AllocationTest.class, List.of(), kind.name(), name).inheritIO().start();
    return java.waitFor() == 0;
  }

  /** Exits with 0 if the calls of a case fall silent. */
  public static void main(String[] args) {
    System.exit(fallsSilent(Kind.valueOf(args[0]), args[1]) ? 0 : 1);
  }

  private static boolean fallsSilent(Kind kind, String name) {
    return switch (kind) {
      case DECODE -> {
        AttentionCase shape = AttentionCase.decode(2, 1024).heads(4, 2);
        yield fallsSilent(shape.heads(), shape.stored(Storage.valueOf(name)));
      }
      case PREFILL -> {
        AttentionCase shape = AttentionCase.square(2, 203, 64).variant(Variant.CAUSAL);
        yield fallsSilent(shape.heads() * shape.queries(), shape.stored(Storage.valueOf(name)));
      }
      case ROWS ->
          Stream.of(DType.F64, DType.F32, DType.F16, DType.BF16)
              .allMatch(
                  dtype ->
                      fallsSilent(ROWS, new RowCase(ROWS, 1003, dtype, RowVerb.valueOf(name))));
      case MERGE -> fallsSilent(ROWS, new MergeCase(5, ROWS, 256));
    };
  }

  /** One thread does all the work here: the calling one. */
  private static boolean fallsSilent(int rows, Case shape) {
    long most = MOST_BYTES_OF_A_CALL + (long) rows * MOST_BYTES_OF_A_ROW;
    try (Computation computation = Contender.FOLDMAX.prepare(Inputs.of(shape), 1)) {
      long deadline = System.nanoTime() + DEADLINE_NANOS;
      int quiet = 0;
      while (quiet < QUIET_CALLS && System.nanoTime() < deadline) {
        long before = THREADS.getCurrentThreadAllocatedBytes();
        computation.run();
        long allocated = THREADS.getCurrentThreadAllocatedBytes() - before;
        quiet = allocated <= most ? quiet + 1 : 0;
      }
      return quiet == QUIET_CALLS;
    }
  }
}
