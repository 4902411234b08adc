package dev.foldmax.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.Attention;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
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
          KeyValues.paged(
              noPages, noPages, Tensor.of(new int[6], 2, 3), Tensor.of(new int[2], 2));
      for (KeyValues keyValues : new KeyValues[] {KeyValues.dense(none, none), paged}) {
        Tensor poison = Tensor.of(new float[] {Float.NaN}, 1);
        backend.copy(poison.expand(out.shape()), out);
        backend.attend(q, keyValues, Attention.causal(), out, lse);
        assertThat(backend.download(out).toDoubleArray()).containsOnly(0);
        assertThat(backend.download(lse).toDoubleArray()).containsOnly(Double.NEGATIVE_INFINITY);
      }
    }
  }
}
