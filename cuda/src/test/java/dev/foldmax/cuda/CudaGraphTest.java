package dev.foldmax.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import dev.foldmax.Attention;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import java.util.SplittableRandom;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Recorded calls, on a device. */
class CudaGraphTest {
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

  private static Tensor random(long seed, DType dtype, long... shape) {
    SplittableRandom random = new SplittableRandom(seed);
    Tensor tensor = Tensor.allocate(dtype, shape);
    for (long i = 0; i < tensor.elements(); i++) {
      tensor.setAt(i, random.nextDouble(-1, 1));
    }
    return tensor;
  }

  @Test
  void aGraphRepeatsCallsOnWhatLiesInTheirTensorsThen() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor k = backend.upload(arena, random(1, DType.BF16, 2, 2, 700, 64));
      Tensor v = backend.upload(arena, random(2, DType.BF16, 2, 2, 700, 64));
      Tensor q = backend.upload(arena, random(3, DType.BF16, 2, 8, 1, 64));
      Tensor out = backend.allocate(arena, DType.BF16, 2, 8, 1, 64);
      Tensor rows = backend.allocate(arena, DType.BF16, 2, 8, 1, 64);
      KeyValues keyValues = KeyValues.dense(k, v).lengths(Tensor.of(new int[] {700, 333}, 2));
      try (CudaGraph graph =
          backend.capture(
              () -> {
                backend.attend(q, keyValues, Attention.causal(), out, null);
                backend.softmax(out, rows);
              })) {
        for (int n = 0; n < 3; n++) {
          Tensor queries = random(10 + n, DType.BF16, 2, 8, 1, 64);
          backend.copy(queries, q);
          graph.launch();
          double[] replayed = backend.download(rows).toDoubleArray();
          backend.attend(q, keyValues, Attention.causal(), out, null);
          backend.softmax(out, rows);
          assertThat(replayed).isEqualTo(backend.download(rows).toDoubleArray());
        }
      }
    }
  }

  @Test
  void whatAGraphHoldsIsFreedWithIt() {
    try (CudaBackend own = Gpu.open();
        Arena arena = Arena.ofConfined()) {
      Tensor x = own.upload(arena, random(1, DType.F32, 3, 1000));
      Tensor out = own.allocate(arena, DType.F32, 1000, 3).permute(1, 0);
      long before = own.usedBytes();
      try (CudaGraph graph = own.capture(() -> own.softmax(x, out))) {
        graph.launch();
        assertThat(own.usedBytes()).isGreaterThan(before);
      }
      assertThat(own.usedBytes()).isEqualTo(before);
    }
  }

  @Test
  void hostTensorsAndWaitsAreRefusedAndNothingIsBroken() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor x = backend.upload(arena, random(1, DType.F32, 3, 10));
      assertThatIllegalStateException()
          .isThrownBy(() -> backend.capture(() -> backend.softmax(x, random(2, DType.F32, 3, 10))))
          .withMessageContaining("host");
      assertThatIllegalStateException()
          .isThrownBy(() -> backend.capture(() -> backend.download(x)))
          .withMessageContaining("lies on the host");
      assertThatIllegalStateException().isThrownBy(() -> backend.capture(backend::synchronize));
      assertThatIllegalStateException()
          .isThrownBy(() -> backend.capture(() -> backend.capture(() -> {})));
      assertThatExceptionOfType(ArithmeticException.class)
          .isThrownBy(
              () ->
                  backend.capture(
                      () -> {
                        throw new ArithmeticException();
                      }));
      assertThat(backend.download(x).toDoubleArray()).hasSize(30);
      backend.synchronize();
    }
  }

  @Test
  @SuppressWarnings("MustBeClosedChecker") // what happens after closing is the question
  void aGraphOutlivesNeitherItsTensorsNorItsBackend() {
    CudaBackend own = Gpu.open();
    Arena arena = Arena.ofConfined();
    Tensor x = own.upload(arena, random(1, DType.F32, 3, 10));
    CudaGraph graph = own.capture(() -> own.softmax(x, x));
    CudaGraph other = own.capture(() -> {});
    graph.launch();
    arena.close();
    assertThatIllegalStateException().isThrownBy(graph::launch).withMessageContaining("arena");
    graph.close();
    graph.close();
    assertThatIllegalStateException().isThrownBy(graph::launch).withMessageContaining("closed");
    own.close();
    assertThatIllegalStateException().isThrownBy(other::launch).withMessageContaining("closed");
    other.close();
  }
}
