package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.sun.management.ThreadMXBean;
import dev.foldmax.Backend;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/**
 * The verbs that write into given tensors allocate nothing on the backend's threads, and next to
 * nothing on the caller's, once they are compiled. In a JVM of its own: vectors stay in registers
 * only where C2 inlines all that touches them, and what ten thousand other tests have taught the
 * profiles of shared methods is not what an application's warm-up would.
 */
class CpuAllocationTest {
  /** What a call may allocate on the calling thread, beside its tensors: small descriptions. */
  private static final long MOST_BYTES_OF_A_CALL = 4096;

  /** How long a verb may take to be compiled before it must allocate nothing. */
  private static final long MOST_SECONDS_OF_WARM_UP = 20;

  private static final int CALLS = 20;

  @TestFactory
  Stream<DynamicTest> verbsAllocateNothing() {
    return CallLaws.verbs().entrySet().stream()
        .map(verb -> dynamicTest(verb.getKey(), () -> allocatesNothing(verb.getValue())));
  }

  private static void allocatesNothing(Consumer<Backend> verb) {
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    List<Thread> others = CallLaws.helpers();
    try (Backend backend = Backend.cpu(3)) {
      List<Thread> own = CallLaws.helpers();
      own.removeAll(others);
      long end = System.nanoTime() + MOST_SECONDS_OF_WARM_UP * 1_000_000_000L;
      long helpers;
      long caller;
      do {
        long helpersBefore = bytesOf(own, threads);
        long callerBefore = threads.getCurrentThreadAllocatedBytes();
        for (int call = 0; call < CALLS; call++) {
          verb.accept(backend);
        }
        caller = (threads.getCurrentThreadAllocatedBytes() - callerBefore) / CALLS;
        helpers = bytesOf(own, threads) - helpersBefore;
      } while ((helpers > 0 || caller > MOST_BYTES_OF_A_CALL) && System.nanoTime() < end);
      assertThat(helpers).as("bytes that the backend's threads allocated").isZero();
      assertThat(caller)
          .as("bytes that the caller's thread allocated in a call")
          .isLessThanOrEqualTo(MOST_BYTES_OF_A_CALL);
    }
  }

  private static long bytesOf(List<Thread> own, ThreadMXBean threads) {
    return own.stream().mapToLong(t -> threads.getThreadAllocatedBytes(t.threadId())).sum();
  }
}
