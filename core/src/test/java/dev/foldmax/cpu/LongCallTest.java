package dev.foldmax.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Mask;
import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/**
 * Calls that would take hours, over tensors that repeat one element: they stop, and tell how far.
 */
class LongCallTest {
  private static final long ENDLESS = 1L << 42;

  private static Tensor endless(DType dtype) {
    return Tensor.allocate(dtype, 1).expand(ENDLESS);
  }

  private static Map<String, Consumer<Backend>> endlessCalls() {
    Map<String, Consumer<Backend>> calls = new LinkedHashMap<>();
    for (DType dtype : new DType[] {DType.F32, DType.F16, DType.F64}) {
      Tensor x = endless(dtype);
      calls.put("logSumExp " + dtype, backend -> backend.logSumExp(x));
    }
    Tensor x = endless(DType.F32);
    calls.put("topK 5", backend -> backend.topK(x, 5));
    calls.put("topK 5000", backend -> backend.topK(x, 5000));
    calls.put("sample", backend -> backend.sample(x, Sampling.seeded(1)));
    calls.put("sample topK", backend -> backend.sample(x, Sampling.seeded(1).topK(5000)));
    calls.put("sample topP", backend -> backend.sample(x, Sampling.seeded(1).topP(0.5)));
    calls.put("attend, lanes are dimensions", attend(DType.F32, 1, 1));
    calls.put("attend, lanes are keys", attend(DType.F32, 2, 1));
    calls.put("attend, lanes are queries", attend(DType.F32, 1, 100));
    calls.put("attend in float64", attend(DType.F64, 1, 1));
    return calls;
  }

  private static Consumer<Backend> attend(DType dtype, int heads, int queries) {
    Tensor q = Tensor.allocate(dtype, 1, heads, queries, 8);
    Tensor k = Tensor.allocate(dtype, 1, 1, 1, 8).expand(1, 1, ENDLESS, 8);
    return backend -> backend.attend(q, k, k, Attention.standard());
  }

  @TestFactory
  Stream<DynamicTest> anEndlessCallStopsAtAnInterruption() {
    return endlessCalls().entrySet().stream()
        .flatMap(
            call ->
                Stream.of(1, 2)
                    .map(
                        threads ->
                            DynamicTest.dynamicTest(
                                call.getKey() + ", threads " + threads,
                                () -> stops(call.getValue(), threads))));
  }

  private static void stops(Consumer<Backend> call, int threads) throws InterruptedException {
    AtomicReference<@Nullable Throwable> thrown = new AtomicReference<>();
    try (Backend backend = Backend.cpu(threads)) {
      Thread caller =
          Thread.ofPlatform()
              .daemon()
              .start(
                  () -> {
                    try {
                      call.accept(backend);
                    } catch (Throwable e) {
                      thrown.set(e);
                    }
                  });
      while (Double.isNaN(backend.progress())) {
        Thread.sleep(1);
        assertThat(caller.isAlive()).as("%s", thrown.get()).isTrue();
      }
      caller.interrupt();
      assertThat(caller.join(Duration.ofSeconds(30))).as("ends").isTrue();
      assertThat(thrown.get()).isInstanceOf(CancellationException.class);
      assertThat(backend.progress()).isNaN();
      assertThat(backend.logSumExp(Tensor.of(new float[] {3}, 1)).get()).as("goes on").isEqualTo(3);
    }
  }

  @Test
  void tellsHowFarAnAttentionIs() {
    List<Double> seen = new ArrayList<>();
    try (Backend backend = Backend.cpu(1)) {
      Mask watching =
          Mask.of(
              (sequence, head, query, key) -> {
                seen.add(backend.progress());
                return true;
              });
      Tensor q = Tensor.allocate(DType.F32, 1, 1, 1, 8);
      Tensor k = Tensor.allocate(DType.F32, 1, 1, 20_000, 8);
      assertThat(backend.progress()).isNaN();
      backend.attend(q, k, k, Attention.standard().mask(watching));
      assertThat(backend.progress()).isNaN();
    }
    assertThat(seen).isSorted().allMatch(share -> share >= 0 && share < 1);
    assertThat(seen.getFirst()).isZero();
    assertThat(seen.getLast()).isGreaterThan(0.9);
  }

  @Test
  void tellsHowFarARowIs() throws InterruptedException {
    Tensor x = Tensor.allocate(DType.F32, 1L << 24);
    Tensor out = Tensor.allocate(DType.F32, 1L << 24);
    try (Backend backend = Backend.cpu(2)) {
      Thread caller =
          Thread.ofPlatform()
              .daemon()
              .start(
                  () -> {
                    while (!Thread.currentThread().isInterrupted()) {
                      try {
                        backend.softmax(x, out);
                      } catch (CancellationException e) {
                        return;
                      }
                    }
                  });
      boolean first = false;
      boolean second = false;
      while (!first || !second) { // the pass for the sum, and that for the result
        double share = backend.progress();
        assertThat(Double.isNaN(share) || (share >= 0 && share <= 1)).as("%s", share).isTrue();
        first |= share > 0 && share < 0.5;
        second |= share > 0.5 && share < 1;
        assertThat(caller.isAlive()).isTrue();
      }
      caller.interrupt();
      caller.join();
    }
  }
}
