package dev.foldmax;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import dev.foldmax.spi.DeviceMemory;
import dev.foldmax.spi.Rows;
import java.lang.foreign.Arena;
import org.junit.jupiter.api.Test;

class DeviceTensorTest {
  /** Memory of no device; the views of a tensor need none. */
  private record Fake(long address, long byteSize) implements DeviceMemory {
    @Override
    public String device() {
      return "fake device 3";
    }
  }

  private static final Tensor TENSOR = Tensor.on(new Fake(4096, 96), DType.F32, 2, 3, 4);

  @Test
  void viewsHaveTheAddressOfTheirFirstElement() {
    assertThat(TENSOR.deviceAddress()).isEqualTo(4096);
    assertThat(TENSOR.slice(1, 2, 3).deviceAddress()).isEqualTo(4096 + 2 * 4 * 4);
    assertThat(TENSOR.select(0, 1).select(0, 1).deviceAddress()).isEqualTo(4096 + (12 + 4) * 4);
    assertThat(TENSOR.permute(2, 0, 1).slice(0, 3, 4).deviceAddress()).isEqualTo(4096 + 3 * 4);
    assertThat(TENSOR.reshape(6, 4).stride(0)).isEqualTo(4);
    assertThat(TENSOR.select(0, 1).expand(5, 3, 4).deviceAddress()).isEqualTo(4096 + 12 * 4);
    assertThat(TENSOR.isOnHost()).isFalse();
    assertThat(TENSOR).hasToString("F32(2, 3, 4) on fake device 3");
  }

  @Test
  void theHostReadsAndWritesNothing() {
    String message = "F32(2, 3, 4) on fake device 3 cannot be read or written by the host";
    assertThatIllegalStateException().isThrownBy(TENSOR::segment).withMessageStartingWith(message);
    assertThatIllegalStateException()
        .isThrownBy(() -> TENSOR.get(0, 0, 0))
        .withMessageStartingWith(message);
    assertThatIllegalStateException()
        .isThrownBy(() -> TENSOR.fill(0))
        .withMessageStartingWith(message);
    assertThatIllegalStateException()
        .isThrownBy(TENSOR::toFloatArray)
        .withMessageStartingWith(message);
    assertThatIllegalStateException()
        .isThrownBy(() -> Tensor.allocate(DType.F32, 2, 3, 4).copyFrom(TENSOR))
        .withMessageStartingWith(message);
    try (Backend backend = Backend.reference()) {
      assertThatIllegalStateException()
          .isThrownBy(() -> backend.softmax(TENSOR, Tensor.allocate(DType.F32, 2, 3, 4)))
          .withMessageStartingWith(message);
      assertThatIllegalStateException()
          .isThrownBy(() -> backend.attend(TENSOR, TENSOR, TENSOR, Attention.standard()))
          .withMessageContaining("cannot be read or written by the host");
    }
    assertThatIllegalStateException()
        .isThrownBy(() -> Tensor.allocate(DType.F32, 1).deviceAddress())
        .withMessageStartingWith("F32(1) lies on the host");
  }

  @Test
  void memoryMustHoldTheTensor() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Tensor.on(new Fake(0, 95), DType.F32, 2, 3, 4))
        .withMessage("device memory: F32[2, 3, 4] needs 96 bytes, the device memory has 95");
  }

  @Test
  void outputsMustLieApart() {
    Fake memory = new Fake(4096, 96);
    Tensor x = Tensor.on(memory, DType.F32, 2, 12);
    Rows.checkMap(x, x);
    Rows.checkMap(x.select(0, 0), x.select(0, 1));
    Rows.checkMap(x, Tensor.on(new Fake(8192, 96), DType.F32, 2, 12));
    Rows.checkMap(x, Tensor.allocate(DType.F32, 2, 12));
    Tensor flat = x.reshape(24);
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Rows.checkMap(flat.slice(0, 0, 12), flat.slice(0, 11, 23)))
        .withMessageContaining("shares memory");
  }

  @Test
  void hostBackendsWorkInMemoryOfTheHost() {
    Tensor array = Tensor.of(new float[] {1, 2, 3, 4, 5, 6}, 2, 3);
    try (Backend backend = Backend.reference();
        Arena arena = Arena.ofConfined()) {
      Tensor copy = backend.upload(arena, array.permute(1, 0));
      assertThat(copy.isContiguous()).isTrue();
      assertThat(copy.segment().isNative()).isTrue();
      assertThat(backend.download(copy).toFloatArray()).containsExactly(1, 4, 2, 5, 3, 6);
      backend.copy(copy, array.permute(1, 0));
      backend.synchronize();
      assertThat(array.toFloatArray()).containsExactly(1, 2, 3, 4, 5, 6);
    }
  }
}
