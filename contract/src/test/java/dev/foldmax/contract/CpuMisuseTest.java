package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What users do to a CPU backend that they should not, and what they may and seldom do. */
class CpuMisuseTest {
  private static Tensor random(long seed, long... shape) {
    Random random = new Random(seed);
    Tensor tensor = Tensor.allocate(DType.F32, shape);
    for (long i = 0; i < tensor.elements(); i++) {
      tensor.setAt(i, random.nextGaussian());
    }
    return tensor;
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 3})
  @SuppressWarnings("try") // closing where it must not be is what is tested
  void aMaskMayNotCallTheBackendThatCallsIt(int threads) {
    Tensor q = random(1, 1, 4, 40, 16);
    try (Backend backend = Backend.cpu(threads)) {
      Mask mask =
          Mask.of(
              (sequence, head, query, key) -> {
                backend.softmax(q);
                return true;
              });
      assertThatIllegalStateException()
          .isThrownBy(() -> backend.attend(q, q, q, Attention.standard().mask(mask)))
          .withMessageContaining("must not call the backend");
      Mask closing =
          Mask.of(
              (sequence, head, query, key) -> {
                backend.close();
                return true;
              });
      assertThatIllegalStateException()
          .isThrownBy(() -> backend.attend(q, q, q, Attention.standard().mask(closing)));
      assertThat(backend.attend(q, q, q, Attention.standard()).get(0, 0, 0, 0)).isFinite();
    }
  }

  @Test
  void aMaskMayCallAnotherBackend() {
    Tensor q = random(2, 1, 1, 20, 8);
    try (Backend backend = Backend.cpu(2);
        Backend other = Backend.cpu(2)) {
      Mask mask =
          Mask.of((sequence, head, query, key) -> other.softmax(q).get(0, 0, query, 0) >= 0);
      assertThat(backend.attend(q, q, q, Attention.standard().mask(mask)).toFloatArray())
          .isEqualTo(backend.attend(q, q, q, Attention.standard()).toFloatArray());
    }
  }

  @Test
  void whatAMaskThrowsTheVerbThrows() {
    Tensor q = random(3, 1, 1, 20, 8);
    Mask mask =
        Mask.of(
            (sequence, head, query, key) -> {
              CpuMisuseTest.<RuntimeException>throwAsIs(new IOException("no such key"));
              return true;
            });
    for (int threads : new int[] {1, 2}) {
      try (Backend backend = Backend.cpu(threads)) {
        assertThatThrownBy(() -> backend.attend(q, q, q, Attention.standard().mask(mask)))
            .isInstanceOf(IOException.class)
            .hasMessage("no such key");
      }
    }
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> void throwAsIs(Throwable thrown) throws E {
    throw (E) thrown;
  }

  @Test
  void anExecutorThatFailsMeansFewerHelpers() {
    AtomicInteger calls = new AtomicInteger();
    Executor failing =
        task -> {
          if (calls.incrementAndGet() % 2 == 0) {
            throw new OutOfMemoryError("unable to create native thread");
          }
          Thread.ofPlatform().start(task);
        };
    Tensor q = random(4, 1, 8, 100, 16);
    try (Backend backend = Backend.cpu(failing, 4);
        Backend one = Backend.cpu(1)) {
      float[] expected = one.attend(q, q, q, Attention.causal()).toFloatArray();
      for (int repeat = 0; repeat < 20; repeat++) {
        assertThat(backend.attend(q, q, q, Attention.causal()).toFloatArray()).isEqualTo(expected);
      }
    }
  }

  @Test
  void aConfinedArenaServesOneThreadAlone() {
    try (Arena arena = Arena.ofConfined();
        Backend one = Backend.cpu(1);
        Backend two = Backend.cpu(2)) {
      Tensor x = Tensor.of(arena.allocate(4 * 1000), DType.F32, 10, 100);
      Tensor out = Tensor.allocate(DType.F32, 10, 100);
      one.softmax(x, out);
      assertThat(out.get(3, 7)).isEqualTo(1f / 100);
      assertThatIllegalArgumentException()
          .isThrownBy(() -> two.softmax(x, out))
          .withMessageStartingWith("x: F32(10, 100)")
          .withMessageContaining("confined");
      Tensor q = Tensor.of(arena.allocate(4 * 1000), DType.F32, 1, 1, 10, 100);
      assertThatIllegalArgumentException()
          .isThrownBy(() -> two.attend(q, q, q, Attention.standard()))
          .withMessageStartingWith("q: ");
      Tensor shared = Tensor.allocate(DType.F32, 1, 1, 10, 100);
      Mask dense = Mask.of(Tensor.of(arena.allocate(10 * 10), DType.BOOL, 10, 10));
      assertThatIllegalArgumentException()
          .isThrownBy(() -> two.attend(shared, shared, shared, Attention.standard().mask(dense)))
          .withMessageStartingWith("mask: BOOL(10, 10)")
          .withMessageContaining("confined");
      Mask prefix = Mask.prefix(Tensor.of(arena.allocate(8), DType.I64, 1));
      assertThatIllegalArgumentException()
          .isThrownBy(
              () ->
                  two.attend(
                      shared, shared, shared, Attention.standard().mask(Mask.causal().and(prefix))))
          .withMessageStartingWith("prefix: I64(1)")
          .withMessageContaining("confined");
      KeyValues kv = KeyValues.dense(shared, shared);
      one.attendPartial(arena, shared, kv, Attention.standard(), 0, 10);
      assertThatIllegalArgumentException()
          .isThrownBy(() -> two.attendPartial(arena, shared, kv, Attention.standard(), 0, 10))
          .withMessageStartingWith("arena: ")
          .withMessageContaining("confined");
    }
  }

  /** Each on its own in a confined arena, beside tensors that are not. */
  @TestFactory
  Stream<DynamicTest> aConfinedArenaServesNoHelperWithSmallTensorsEither() {
    Tensor q = random(9, 2, 2, 4, 8);
    KeyValues dense = KeyValues.dense(q, q);
    Tensor packed = random(10, 2, 8, 8);
    Tensor two = Tensor.of(new int[] {1, 1}, 2);
    Tensor pages = Tensor.of(new int[] {0, 1}, 2, 1);
    Tensor ends = Tensor.of(new int[] {0, 4, 8}, 3);
    Attention plain = Attention.standard();
    Map<String, BiConsumer<Backend, UnaryOperator<Tensor>>> calls = new LinkedHashMap<>();
    calls.put(
        "lengths", (b, own) -> b.attend(q, dense.lengths(own.apply(two)), plain, output(), null));
    calls.put(
        "blockTable",
        (b, own) ->
            b.attend(q, KeyValues.paged(q, q, own.apply(pages), two), plain, output(), null));
    calls.put(
        "lengths of pages",
        (b, own) ->
            b.attend(q, KeyValues.paged(q, q, pages, own.apply(two)), plain, output(), null));
    calls.put(
        "first",
        (b, own) -> b.attend(q, KeyValues.ring(q, q, own.apply(two), two), plain, output(), null));
    calls.put(
        "lengths of a ring",
        (b, own) -> b.attend(q, KeyValues.ring(q, q, two, own.apply(two)), plain, output(), null));
    calls.put(
        "offsets",
        (b, own) ->
            b.attend(
                packed,
                KeyValues.ragged(packed, packed, own.apply(ends)).queryOffsets(ends),
                plain,
                Tensor.allocate(DType.F32, 2, 8, 8),
                null));
    calls.put(
        "queryOffsets",
        (b, own) ->
            b.attend(
                packed,
                dense.queryOffsets(own.apply(ends)),
                plain,
                Tensor.allocate(DType.F32, 2, 8, 8),
                null));
    Tensor scales = random(11, 2, 2, 4);
    calls.put(
        "keyScales",
        (b, own) -> b.attend(q, dense.scales(own.apply(scales), null), plain, output(), null));
    calls.put(
        "valueScales",
        (b, own) -> b.attend(q, dense.scales(null, own.apply(scales)), plain, output(), null));
    calls.put(
        "mask",
        (b, own) ->
            b.attend(
                q,
                dense,
                plain.mask(Mask.causal().and(Mask.of(own.apply(Tensor.of(new boolean[4], 1, 4))))),
                output(),
                null));
    calls.put(
        "prefix",
        (b, own) -> b.attend(q, dense, plain.mask(Mask.prefix(own.apply(two))), output(), null));
    calls.put(
        "bias",
        (b, own) -> b.attend(q, dense, plain.bias(own.apply(random(12, 4))), output(), null));
    calls.put(
        "alibi",
        (b, own) -> b.attend(q, dense, plain.alibi(own.apply(random(13, 2))), output(), null));
    calls.put(
        "sinks",
        (b, own) -> b.attend(q, dense, plain.sinks(own.apply(random(14, 2))), output(), null));
    return calls.entrySet().stream()
        .map(
            call ->
                dynamicTest(
                    call.getKey(),
                    () -> {
                      try (Arena arena = Arena.ofConfined();
                          Backend one = Backend.cpu(1);
                          Backend several = Backend.cpu(2)) {
                        UnaryOperator<Tensor> own = tensor -> confined(arena, tensor);
                        call.getValue().accept(one, own);
                        assertThatIllegalArgumentException()
                            .isThrownBy(() -> call.getValue().accept(several, own))
                            .withMessageStartingWith(call.getKey().replaceAll(" .*", "") + ": ")
                            .withMessageContaining("lies in a confined arena");
                      }
                    }));
  }

  private static Tensor output() {
    return Tensor.allocate(DType.F32, 2, 2, 4, 8);
  }

  private static Tensor confined(Arena arena, Tensor tensor) {
    Tensor copy =
        Tensor.of(
            arena.allocate(tensor.elements() * tensor.dtype().bytes()),
            tensor.dtype(),
            tensor.shape());
    copy.copyFrom(tensor);
    return copy;
  }

  @Test
  void anOutputMayNotShareMemoryWithAnInput() {
    Tensor q = random(5, 1, 1, 20, 8);
    Tensor keys = random(6, 1, 1, 20, 8);
    Tensor row = random(7, 200);
    try (Backend backend = Backend.cpu(2)) {
      assertThatIllegalArgumentException()
          .isThrownBy(
              () -> backend.attend(q, KeyValues.dense(keys, keys), Attention.causal(), q, null))
          .withMessageContaining("shares memory with q");
      assertThatIllegalArgumentException()
          .isThrownBy(
              () -> backend.attend(q, KeyValues.dense(keys, keys), Attention.causal(), keys, null))
          .withMessageContaining("shares memory with keys");
      assertThatIllegalArgumentException()
          .isThrownBy(() -> backend.softmax(row.slice(0, 0, 100), row.slice(0, 1, 101)))
          .withMessageContaining("shares memory with x");
      backend.softmax(row.slice(0, 0, 100), row.slice(0, 0, 100));
      backend.softmax(row.slice(0, 0, 100), row.slice(0, 100, 200));
    }
  }

  @Test
  void anEmptyBatchTakesAnyBias() {
    Tensor none = Tensor.allocate(DType.F32, 0, 2, 3, 8);
    Attention attention = Attention.standard().bias(Tensor.allocate(DType.F32, 0, 2, 3, 3));
    try (Backend backend = Backend.cpu(1)) {
      assertThat(backend.attend(none, none, none, attention).elements()).isZero();
    }
  }

  @ParameterizedTest
  @ValueSource(doubles = {1e-300, 1e-45, 1e-3, 1, 1e30, 1e39, 1e300})
  void anySoftCapIsTaken(double cap) {
    Tensor q = Tensor.of(new float[] {1}, 1, 1);
    Tensor keys = Tensor.of(new float[] {0, 1, 2}, 3, 1);
    Tensor values = Tensor.of(new float[] {1, 2, 3}, 3, 1);
    Attention attention = Attention.standard().softCap(cap);
    try (Backend backend = Backend.cpu(1);
        Backend reference = Backend.reference()) {
      assertThat(backend.attend(q, keys, values, attention).get(0, 0))
          .isCloseTo(reference.attend(q, keys, values, attention).get(0, 0), within(1e-6));
    }
  }

  @ParameterizedTest
  @ValueSource(doubles = {1e-300, 1e39, -1e300})
  void aScaleBeyondFloat32IsRefusedInFloat32(double scale) {
    Tensor q = random(8, 4, 8);
    Tensor wide = q.to(DType.F64);
    try (Backend backend = Backend.cpu(1)) {
      assertThatIllegalArgumentException()
          .isThrownBy(() -> backend.attend(q, q, q, Attention.standard().scale(scale)))
          .withMessageStartingWith("scale: ");
      backend.attend(wide, wide, wide, Attention.standard().scale(scale));
    }
  }

  @Test
  void parallelismHasABound() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Backend.cpu(Runnable::run, Integer.MAX_VALUE))
        .withMessageStartingWith("threads: ");
  }
}
