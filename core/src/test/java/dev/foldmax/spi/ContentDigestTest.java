package dev.foldmax.spi;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.util.Map;
import java.util.concurrent.CancellationException;
import org.junit.jupiter.api.Test;

class ContentDigestTest {
  @Test
  void stopsWhereItsThreadIsInterrupted() {
    Tensor tensor = Tensor.allocate(DType.F32, 5, 7);
    Tensor turned = tensor.permute(1, 0);
    Thread.currentThread().interrupt();
    try {
      for (Tensor each : new Tensor[] {tensor, turned}) {
        assertThatExceptionOfType(CancellationException.class)
            .isThrownBy(() -> ContentDigest.of(each));
        assertThatExceptionOfType(CancellationException.class)
            .isThrownBy(() -> ContentDigest.of(Map.of(), Map.of("x", each)));
      }
    } finally {
      assertThat(Thread.interrupted()).isTrue();
    }
    assertThat(ContentDigest.of(turned)).isEqualTo(ContentDigest.of(turned.copy()));
  }
}
