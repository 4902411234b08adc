package dev.foldmax.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import dev.foldmax.Attention;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

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

  /** Keys and values somewhere, and tensors of the host that say where. */
  private record Cache(KeyValues keyValues, Tensor lengths, Runnable change) {}

  private static final int BATCH = 3;
  private static final int ROOM = 1500;
  private static final int PAGE = 16;
  private static final int PAGES = 100; // of a sequence at most

  private static Cache cache(String layout, Arena arena, DType dtype, SplittableRandom random) {
    Tensor lengths = Tensor.of(new int[] {5, 1, 300}, BATCH);
    Runnable anyLengths =
        () -> {
          for (int b = 0; b < BATCH; b++) {
            lengths.setLongAt(b, random.nextInt(ROOM + 1));
          }
        };
    return switch (layout) {
      case "dense" ->
          new Cache(
              KeyValues.dense(
                      keys(arena, dtype, 1, BATCH, 2, ROOM, 64),
                      keys(arena, dtype, 2, BATCH, 2, ROOM, 64))
                  .lengths(lengths),
              lengths,
              anyLengths);
      case "ring" -> {
        Tensor first = Tensor.of(new long[] {0, 7, 1000}, BATCH);
        yield new Cache(
            KeyValues.ring(
                keys(arena, dtype, 1, BATCH, 2, ROOM, 64),
                keys(arena, dtype, 2, BATCH, 2, ROOM, 64),
                first,
                lengths),
            lengths,
            () -> {
              anyLengths.run();
              first.setLongAt(random.nextInt(BATCH), random.nextInt(1 << 20));
            });
      }
      case "ragged" -> {
        Tensor offsets = Tensor.of(new int[] {0, 3, 9, 50}, BATCH + 1);
        yield new Cache(
            KeyValues.ragged(
                keys(arena, dtype, 1, 2, BATCH * ROOM, 64),
                keys(arena, dtype, 2, 2, BATCH * ROOM, 64),
                offsets),
            offsets,
            () -> {
              int[] cuts = random.ints(BATCH + 1, 0, BATCH * ROOM + 1).sorted().toArray();
              offsets.copyFrom(Tensor.of(cuts, BATCH + 1));
            });
      }
      default -> {
        Tensor table = Tensor.allocate(DType.I32, PAGES, BATCH).permute(1, 0);
        yield new Cache(
            KeyValues.paged(
                keys(arena, dtype, 1, 500, 2, PAGE, 64),
                keys(arena, dtype, 2, 500, 2, PAGE, 64),
                table,
                lengths),
            lengths,
            () -> {
              anyLengths.run();
              for (int b = 0; b < BATCH; b++) {
                for (int n = 0; n < PAGES; n++) {
                  table.setLongAt(table.offset(b, n), random.nextInt(500));
                }
              }
            });
      }
    };
  }

  private static Tensor keys(Arena arena, DType dtype, long seed, long... shape) {
    return backend.upload(arena, random(seed, dtype, shape));
  }

  /** One query, some, and more than decoding takes. */
  @ParameterizedTest
  @CsvSource({
    "dense, BF16, 1",
    "dense, F32, 3",
    "dense, F16, 40",
    "dense, F32, 40",
    "paged, BF16, 1",
    "paged, F32, 2",
    "paged, BF16, 33",
    "ring, BF16, 1",
    "ring, F32, 4",
    "ring, F16, 50",
    "ragged, BF16, 1",
    "ragged, F16, 20"
  })
  void eachLaunchReadsLengthsAndTablesAnew(String layout, DType dtype, int queries) {
    SplittableRandom random = new SplittableRandom(layout.hashCode() + queries);
    List<Tensor> prefix = List.of(Tensor.of(new long[] {4, 0, 90}, BATCH));
    try (Arena arena = Arena.ofConfined()) {
      Cache cache = cache(layout, arena, dtype, random);
      KeyValues keyValues =
          layout.equals("ragged")
              ? cache.keyValues.queryOffsets(
                  Tensor.of(new int[] {0, queries, 2 * queries, 3 * queries}, BATCH + 1))
              : cache.keyValues;
      Tensor q =
          layout.equals("ragged")
              ? keys(arena, dtype, 3, 8, 3L * queries, 64)
              : keys(arena, dtype, 3, BATCH, 8, queries, 64);
      Tensor out = backend.allocate(arena, DType.F32, q.shape());
      List<Attention> definitions =
          List.of(
              Attention.causal(),
              Attention.standard(),
              Attention.standard().mask(Mask.window(300, 10)),
              Attention.standard().mask(Mask.prefix(prefix.getFirst())));
      for (Attention attention : definitions) {
        Runnable twice =
            () -> {
              backend.attend(q, keyValues, attention, out, null);
              backend.attend(q, keyValues, attention, out, null);
            };
        try (CudaGraph graph = backend.capture(twice)) {
          for (int n = 0; n < 4; n++) {
            cache.change.run();
            prefix.getFirst().setLongAt(random.nextInt(BATCH), random.nextInt(ROOM));
            backend.copy(backend.upload(arena, poison()).expand(out.shape()), out);
            graph.launch();
            double[] replayed = backend.download(out).toDoubleArray();
            backend.attend(q, keyValues, attention, out, null);
            assertThat(replayed).isEqualTo(backend.download(out).toDoubleArray());
          }
        }
      }
    }
  }

  private static Tensor poison() {
    return Tensor.of(new float[] {Float.NaN}, 1);
  }

  @Test
  void whatNoCallWouldTakeNoLaunchTakes() {
    try (Arena arena = Arena.ofConfined()) {
      Cache cache = cache("dense", arena, DType.BF16, new SplittableRandom(1));
      Tensor offsets = Tensor.of(new int[] {0, 1, 2, 3}, BATCH + 1);
      KeyValues keyValues = cache.keyValues.queryOffsets(offsets);
      Tensor q = keys(arena, DType.BF16, 3, 8, BATCH, 64);
      Tensor out = backend.allocate(arena, DType.BF16, q.shape());
      Runnable call = () -> backend.attend(q, keyValues, Attention.causal(), out, null);
      try (CudaGraph graph = backend.capture(call)) {
        cache.lengths.setLongAt(1, ROOM + 1);
        assertThatIllegalArgumentException()
            .isThrownBy(graph::launch)
            .withMessageContaining("lengths: entry 1");
        cache.lengths.setLongAt(1, ROOM);
        offsets.setLongAt(1, 2);
        assertThatIllegalStateException()
            .isThrownBy(graph::launch)
            .withMessageContaining("sequence 0 has 2 queries and had 1");
        offsets.setLongAt(1, 1);
        graph.launch();
        double[] replayed = backend.download(out).toDoubleArray();
        call.run();
        assertThat(replayed).isEqualTo(backend.download(out).toDoubleArray());
      }
    }
  }

  /** Layers of one shape share scratch memory and tables. */
  @Test
  void aGraphOfManyCallsHoldsLittleMoreThanOfOne() {
    try (CudaBackend own = Gpu.open();
        Arena arena = Arena.ofConfined()) {
      Tensor k = own.upload(arena, random(1, DType.BF16, 2, 2, 4096, 64));
      Tensor q = own.upload(arena, random(2, DType.BF16, 2, 8, 1, 64));
      Tensor out = own.allocate(arena, DType.BF16, 2, 8, 1, 64);
      KeyValues keyValues = KeyValues.dense(k, k).lengths(Tensor.of(new int[] {4000, 1}, 2));
      Runnable call = () -> own.attend(q, keyValues, Attention.causal(), out, null);
      call.run();
      long before = own.usedBytes();
      try (CudaGraph one = own.capture(call)) {
        long ofOne = own.usedBytes() - before;
        try (CudaGraph many =
            own.capture(
                () -> {
                  for (int n = 0; n < 50; n++) {
                    call.run();
                  }
                })) {
          one.launch();
          many.launch();
          assertThat(own.usedBytes() - before - ofOne).isEqualTo(ofOne);
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
