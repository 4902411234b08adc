package dev.foldmax.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.Attention;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import java.util.SplittableRandom;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What the contract has no case for, on a device. */
class AttentionKernelsTest {
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

  /** Rows of 134 bytes, were there any: nothing that a load could begin at. */
  @ParameterizedTest
  @ValueSource(ints = {1, 70})
  void noKeysAtAllHaveAnyStrides(int queries) {
    try (Arena arena = Arena.ofConfined()) {
      Tensor q = backend.allocate(arena, DType.BF16, 2, 4, queries, 64);
      Tensor whole = backend.allocate(arena, DType.BF16, 2, 2, 10, 67);
      Tensor none = whole.slice(3, 1, 65).slice(2, 3, 3);
      Tensor noPages = whole.slice(3, 1, 65).slice(0, 2, 2);
      Tensor out = backend.allocate(arena, DType.F32, 2, 4, queries, 64);
      Tensor lse = backend.allocate(arena, DType.F32, 2, 4, queries);
      KeyValues paged =
          KeyValues.paged(noPages, noPages, Tensor.of(new int[6], 2, 3), Tensor.of(new int[2], 2));
      for (KeyValues keyValues : new KeyValues[] {KeyValues.dense(none, none), paged}) {
        Tensor poison = Tensor.of(new float[] {Float.NaN}, 1);
        backend.copy(poison.expand(out.shape()), out);
        backend.attend(q, keyValues, Attention.causal(), out, lse);
        assertThat(backend.download(out).toDoubleArray()).containsOnly(0);
        assertThat(backend.download(lse).toDoubleArray()).containsOnly(Double.NEGATIVE_INFINITY);
      }
    }
  }

  /**
   * Calls of the same kernels go as graphs whose parameters change: more of them than there are
   * graphs, none waited for, some on memory that others have left.
   */
  @Test
  void callsInARowEachHaveTheirOwnParameters() {
    int calls = 150;
    SplittableRandom random = new SplittableRandom(5);
    int[] length = {0};
    Tensor lengths = Tensor.of(length, 1);
    try (Arena arena = Arena.ofConfined()) {
      Tensor k = random(arena, random, 1, 2, 3000, 64);
      Tensor q = random(arena, random, calls, 1, 8, 1, 64);
      KeyValues keyValues = KeyValues.dense(k, k).lengths(lengths);
      Tensor out = backend.allocate(arena, DType.F32, calls, 1, 8, 1, 64);
      Tensor weights = backend.allocate(arena, DType.F32, calls, 1, 8, 1, 64);
      int[] lengthOf = random.ints(calls, 0, 3001).toArray();
      for (int n = 0; n < calls; n++) {
        length[0] = lengthOf[n];
        backend.attend(q.select(0, n), keyValues, Attention.causal(), out.select(0, n), null);
        backend.softmax(out.select(0, n), weights.select(0, n));
      }
      Tensor outs = backend.download(out);
      Tensor all = backend.download(weights);
      for (int n = 0; n < calls; n++) {
        length[0] = lengthOf[n];
        Tensor again = Tensor.allocate(DType.F32, 1, 8, 1, 64);
        backend.attend(q.select(0, n), keyValues, Attention.causal(), again, null);
        assertThat(outs.select(0, n).toDoubleArray()).isEqualTo(again.toDoubleArray());
        backend.softmax(again, again);
        assertThat(all.select(0, n).toDoubleArray()).isEqualTo(again.toDoubleArray());
      }
    }
  }

  private static Tensor random(Arena arena, SplittableRandom random, long... shape) {
    Tensor tensor = Tensor.allocate(DType.BF16, shape);
    for (long i = 0; i < tensor.elements(); i++) {
      tensor.setAt(i, random.nextDouble(-1, 1));
    }
    return backend.upload(arena, tensor);
  }
}
