package dev.foldmax.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Tensors on a device: how they come there and back, and what happens to those who misuse them. */
class DeviceTensorTest {
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

  /** Every test gives back what it took. */
  @AfterEach
  void nothingLeaks() {
    assertThat(backend.usedBytes()).isZero();
  }

  private static Tensor random(DType dtype, long seed, long... shape) {
    Tensor tensor = Tensor.allocate(dtype, shape);
    SplittableRandom random = new SplittableRandom(seed);
    for (long i = 0; i < tensor.elements(); i++) {
      switch (dtype) {
        case I32, I64 -> tensor.setLongAt(i, random.nextInt());
        case I8 -> tensor.setAt(i, random.nextInt(-128, 128));
        case BOOL -> tensor.setAt(i, random.nextInt(2));
        default -> tensor.setAt(i, random.nextDouble(-300, 300));
      }
    }
    return tensor;
  }

  private static void assertSame(Tensor actual, Tensor expected) {
    assertThat(actual.shape()).isEqualTo(expected.shape());
    assertThat(actual.dtype()).isEqualTo(expected.dtype());
    if (expected.dtype().isIndex()) {
      assertThat(actual.toLongArray()).isEqualTo(expected.toLongArray());
    } else {
      assertThat(actual.toDoubleArray()).isEqualTo(expected.toDoubleArray());
    }
  }

  @ParameterizedTest
  @EnumSource
  void everyTypeGoesThereAndBack(DType dtype) {
    Tensor tensor = random(dtype, 1, 3, 5, 7);
    try (Arena arena = Arena.ofConfined()) {
      assertSame(backend.download(backend.upload(arena, tensor)), tensor);
    }
  }

  @ParameterizedTest
  @EnumSource
  void viewsOfTheDeviceAreThoseOfTheHost(DType dtype) {
    Tensor tensor = random(dtype, 2, 6, 70, 33);
    try (Arena arena = Arena.ofConfined()) {
      Tensor there = backend.upload(arena, tensor);
      assertSame(
          backend.download(there.slice(0, 1, 5).slice(1, 3, 60).slice(2, 2, 31)),
          tensor.slice(0, 1, 5).slice(1, 3, 60).slice(2, 2, 31).copy());
      assertSame(backend.download(there.permute(2, 0, 1)), tensor.permute(2, 0, 1).copy());
      assertSame(backend.download(there.permute(1, 0, 2)), tensor.permute(1, 0, 2).copy());
      assertSame(
          backend.download(there.select(1, 4).expand(3, 6, 33)),
          tensor.select(1, 4).expand(3, 6, 33).copy());
      assertSame(backend.download(there.slice(0, 2, 2)), tensor.slice(0, 2, 2).copy());
    }
  }

  @Test
  void viewsOfTheHostAreUploadedAndDownloadedInPlace() {
    Tensor tensor = random(DType.BF16, 3, 5, 9, 40);
    Tensor whole = Tensor.allocate(DType.BF16, 9, 50, 5);
    whole.fill(-1);
    Tensor view = whole.slice(1, 5, 45).permute(2, 0, 1);
    view.copyFrom(tensor);
    Tensor target = Tensor.allocate(DType.BF16, 9, 50, 5);
    target.fill(-1);
    try (Arena arena = Arena.ofConfined()) {
      Tensor there = backend.upload(arena, view);
      assertSame(backend.download(there), tensor);
      backend.copy(there, target.slice(1, 5, 45).permute(2, 0, 1));
    }
    assertSame(target, whole);
  }

  /** By its own way where it can go straight, by another where not. */
  @Test
  void hostTensorsAreCopiedIntoAnyTensorOfTheDevice() {
    Tensor tensor = random(DType.F32, 12, 7, 40, 30);
    try (Arena arena = Arena.ofConfined()) {
      Tensor whole = backend.upload(arena, Tensor.allocate(DType.F32, 7, 40, 30));
      backend.copy(tensor.slice(0, 2, 5), whole.slice(0, 1, 4));
      assertSame(backend.download(whole.slice(0, 1, 4)), tensor.slice(0, 2, 5).copy());
      assertThat(backend.download(whole.slice(0, 4, 7)).toDoubleArray()).containsOnly(0);
      backend.copy(tensor.slice(2, 3, 20), whole.slice(2, 5, 22));
      assertSame(backend.download(whole.slice(2, 5, 22)), tensor.slice(2, 3, 20).copy());
      Tensor row = tensor.select(0, 0).slice(0, 0, 1);
      backend.copy(row.expand(7, 40, 30), whole);
      assertSame(backend.download(whole), row.expand(7, 40, 30).copy());
      Tensor half = backend.allocate(arena, DType.BF16, 7, 40, 30);
      backend.copy(tensor, half);
      assertSame(backend.download(half), tensor.to(DType.BF16));
      backend.copy(tensor.permute(1, 2, 0), whole.reshape(40, 30, 7));
      assertSame(backend.download(whole.reshape(40, 30, 7)), tensor.permute(1, 2, 0).copy());
    }
  }

  /** More than the pinned chunks, and no multiple of them, in rows that straddle them. */
  @Test
  void largeTensorsTravelInChunks() {
    long n = 3 * 1024 * 1024 + 77;
    Tensor tensor = random(DType.F32, 4, 3, n);
    Tensor padded = Tensor.allocate(DType.F32, 3, n + 5);
    try (Arena arena = Arena.ofConfined()) {
      Tensor there = backend.upload(arena, tensor);
      backend.copy(there, padded.slice(1, 2, 2 + n));
      Tensor again = backend.upload(arena, padded.slice(1, 2, 2 + n));
      assertThat(backend.download(again).segment().mismatch(tensor.segment())).isEqualTo(-1);
    }
    assertThat(padded.slice(1, 0, 2).toDoubleArray()).containsOnly(0);
    assertThat(padded.slice(1, n + 2, n + 5).toDoubleArray()).containsOnly(0);
  }

  @Test
  void copiesBetweenTypesRoundOnceAsOnTheHost() {
    double[] special = {
      0,
      -0.0,
      1,
      -1,
      65504,
      65520,
      1e-8,
      5.9e-8,
      3e-39,
      1e300,
      -1e300,
      127.5,
      -128.5,
      0.5,
      1.5,
      1 + 0x1p-11 + 0x1p-40,
      1 + 0x1p-8 + 0x1p-50,
      2147483647.5,
      -3e9,
      1e19,
      Double.POSITIVE_INFINITY,
      Double.NEGATIVE_INFINITY,
      Double.NaN
    };
    for (DType from : DType.values()) {
      Tensor source = Tensor.allocate(from, special.length);
      for (int i = 0; i < special.length; i++) {
        if (from != DType.BOOL) {
          source.set(special[i], i);
        }
      }
      for (DType to : DType.values()) {
        if (from == DType.I64 && to == DType.I32) {
          continue; // the host refuses what does not fit
        }
        Tensor expected = source.to(to);
        try (Arena arena = Arena.ofConfined()) {
          Tensor there = backend.upload(arena, source);
          Tensor converted = backend.allocate(arena, to, special.length);
          backend.copy(there, converted);
          assertThat(backend.download(converted).toDoubleArray())
              .as("%s to %s", from, to)
              .isEqualTo(expected.toDoubleArray());
        }
      }
    }
  }

  @Test
  void scalarsAndEmptyTensorsAreTensors() {
    try (Arena arena = Arena.ofConfined()) {
      assertSame(
          backend.download(backend.upload(arena, random(DType.F64, 5))), random(DType.F64, 5));
      Tensor empty = Tensor.allocate(DType.F32, 0, 4);
      assertSame(backend.download(backend.upload(arena, empty)), empty);
    }
  }

  @Test
  void theHostCannotTouchIt() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor there = backend.allocate(arena, DType.F32, 2);
      assertThatIllegalStateException()
          .isThrownBy(() -> there.get(0))
          .withMessageContaining("cuda device 0");
      assertThatIllegalStateException().isThrownBy(there::segment);
    }
  }

  @Test
  void afterItsArenaNothingUsesIt() {
    Tensor there;
    try (Arena arena = Arena.ofConfined()) {
      there = backend.allocate(arena, DType.F32, 2);
    }
    assertThatIllegalStateException()
        .isThrownBy(() -> backend.download(there))
        .withMessageContaining("arena")
        .withMessageContaining("closed");
  }

  @Test
  void afterItsBackendNothingUsesIt() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor there;
      try (Backend other = Backend.cuda(0)) {
        there = other.upload(arena, random(DType.F32, 6, 100));
      }
      assertThatIllegalStateException()
          .isThrownBy(there::deviceAddress)
          .withMessageContaining("backend")
          .withMessageContaining("closed");
    }
  }

  @Test
  void aTensorServesItsOwnBackendAlone() {
    try (Arena arena = Arena.ofConfined();
        Backend other = Backend.cuda(0)) {
      Tensor there = other.upload(arena, random(DType.F32, 7, 10));
      assertThatIllegalArgumentException()
          .isThrownBy(() -> backend.download(there))
          .withMessageContaining("another backend");
      assertThatIllegalArgumentException()
          .isThrownBy(() -> backend.copy(random(DType.F32, 7, 10), there))
          .withMessageContaining("another backend");
    }
  }

  @Test
  void confinedMemoryServesItsThreadAlone() throws InterruptedException {
    try (Arena arena = Arena.ofConfined()) {
      Tensor there = backend.allocate(arena, DType.F32, 10);
      AtomicReference<Throwable> thrown = new AtomicReference<>();
      Thread thread =
          Thread.ofPlatform()
              .start(
                  () -> {
                    try {
                      backend.download(there);
                    } catch (WrongThreadException e) {
                      thrown.set(e);
                    }
                  });
      thread.join();
      assertThat(thrown.get()).isInstanceOf(WrongThreadException.class);
    }
  }

  @Test
  @SuppressWarnings("MustBeClosedChecker") // it is, before its time
  void aClosedArenaGetsNoMemory() {
    Arena arena = Arena.ofConfined();
    arena.close();
    assertThatIllegalStateException().isThrownBy(() -> backend.allocate(arena, DType.F32, 1000));
  }

  @Test
  void tooMuchIsRefusedWithNumbers() {
    try (Arena arena = Arena.ofConfined()) {
      assertThatExceptionOfType(CudaException.class)
          .isThrownBy(() -> backend.allocate(arena, DType.F64, 1L << 42))
          .withMessageContaining("out of memory")
          .withMessageContaining("35,184,372,088,832")
          .withMessageContaining("are free");
      backend.allocate(arena, DType.F64, 10); // nothing is broken
    }
  }

  @Test
  void wrongCopiesAreNamed() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor there = backend.allocate(arena, DType.F32, 2, 3);
      assertThatIllegalArgumentException()
          .isThrownBy(() -> backend.copy(there, Tensor.allocate(DType.F32, 3, 2)))
          .withMessageContaining("F32(3, 2)");
      assertThatIllegalArgumentException()
          .isThrownBy(() -> backend.copy(there, Tensor.allocate(DType.F32, 3).expand(2, 3)))
          .withMessageContaining("stride 0");
      Tensor readOnly =
          Tensor.of(MemorySegment.ofArray(new float[6]).asReadOnly(), DType.F32, 2, 3);
      assertThatIllegalArgumentException()
          .isThrownBy(() -> backend.copy(there, readOnly))
          .withMessageContaining("read-only");
    }
  }

  @Test
  void anInterruptedTransferStops() {
    try (Arena arena = Arena.ofConfined()) {
      Tensor there = backend.allocate(arena, DType.F32, 10);
      Thread.currentThread().interrupt();
      assertThatExceptionOfType(CancellationException.class)
          .isThrownBy(() -> backend.download(there));
      assertThat(Thread.interrupted()).isTrue();
      backend.download(there);
    }
  }

  @Test
  void severalThreadsShareABackend() throws Exception {
    try (ExecutorService threads = Executors.newFixedThreadPool(6)) {
      List<Future<?>> all = new ArrayList<>();
      for (int i = 0; i < 6; i++) {
        int seed = i;
        all.add(
            threads.submit(
                () -> {
                  for (int n = 0; n < 20; n++) {
                    Tensor tensor = random(DType.F32, seed, 40, 50 + n);
                    try (Arena arena = Arena.ofShared()) {
                      Tensor there = backend.upload(arena, tensor);
                      assertSame(
                          backend.download(there.permute(1, 0)), tensor.permute(1, 0).copy());
                    }
                  }
                }));
      }
      for (Future<?> one : all) {
        one.get();
      }
    }
  }

  @Test
  void virtualThreadsDoTheSame() throws Exception {
    try (ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor()) {
      List<Future<?>> all = new ArrayList<>();
      for (int i = 0; i < 50; i++) {
        int seed = i;
        all.add(
            threads.submit(
                () -> {
                  Tensor tensor = random(DType.F16, seed, 30, 17);
                  try (Arena arena = Arena.ofShared()) {
                    assertSame(backend.download(backend.upload(arena, tensor)), tensor);
                  }
                }));
      }
      for (Future<?> one : all) {
        one.get();
      }
    }
  }
}
