package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/**
 * The verbs that write into given tensors allocate nothing on the backend's threads, and next to
 * nothing on the caller's, once they are compiled.
 */
class CpuAllocationTest {
  /** What a call may allocate on the calling thread, beside its tensors: small descriptions. */
  static final long MOST_BYTES_OF_A_CALL = 4096;

  @TestFactory
  Stream<DynamicTest> verbsAllocateNothing() {
    List<String> names = List.copyOf(CallLaws.verbs().keySet());
    List<AllocationProbe.Bytes> results = AllocationProbe.inFreshJvms();
    assertThat(results).hasSameSizeAs(names);
    return IntStream.range(0, names.size())
        .mapToObj(i -> dynamicTest(names.get(i), () -> allocatesNothing(results.get(i))));
  }

  private static void allocatesNothing(AllocationProbe.Bytes bytes) {
    assertThat(bytes.ofHelpers()).as("bytes that the backend's threads allocated").isZero();
    assertThat(bytes.ofCallerInACall())
        .as("bytes that the caller's thread allocated in a call")
        .isLessThanOrEqualTo(MOST_BYTES_OF_A_CALL);
  }
}
