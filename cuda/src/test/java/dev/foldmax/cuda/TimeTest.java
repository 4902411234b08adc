package dev.foldmax.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Times that a device takes. */
class TimeTest {
  private static CudaBackend backend;

  @BeforeAll
  static void open() {
    backend = Gpu.open();
  }

  @AfterAll
  static void close() {
    if (backend != null) {
      backend.close();
    }
  }

  @Test
  void eachRepetitionHasATimeAndItsWorkIsDone() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor x = backend.upload(arena, Tensor.of(new float[] {1, 1, 3, 3}, 2, 2));
      AtomicInteger calls = new AtomicInteger();
      double[] times =
          backend.time(
              () -> {
                calls.incrementAndGet();
                backend.softmax(x, x);
              },
              5);
      assertThat(times).hasSize(5);
      for (double time : times) {
        assertThat(time).isPositive();
      }
      assertThat(calls).hasValue(5);
      assertThat(backend.download(x).toDoubleArray()).containsOnly(0.5);
      try (CudaGraph graph = backend.capture(() -> backend.softmax(x, x))) {
        assertThat(backend.time(graph::launch, 3)).hasSize(3);
      }
    }
  }

  @Test
  void whatCannotBeTimedIsRefusedAndNothingIsBroken() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> backend.time(() -> {}, 0))
        .withMessageContaining("repetitions");
    assertThatIllegalStateException()
        .isThrownBy(() -> backend.capture(() -> backend.time(() -> {}, 1)))
        .withMessageContaining("recorded");
    assertThatExceptionOfType(ArithmeticException.class)
        .isThrownBy(
            () ->
                backend.time(
                    () -> {
                      throw new ArithmeticException();
                    },
                    2));
    assertThat(backend.time(() -> {}, 1)).hasSize(1);
  }
}
