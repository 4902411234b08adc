package dev.foldmax;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT_UNALIGNED;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class TensorTest {
  /** 0, 1, 2, ... in shape (2, 3, 4). */
  private static Tensor counting() {
    float[] array = new float[24];
    for (int i = 0; i < array.length; i++) {
      array[i] = i;
    }
    return Tensor.of(array, 2, 3, 4);
  }

  @Test
  void wrapsAnArrayWithoutACopy() {
    float[] array = {1, 2, 3, 4, 5, 6};
    Tensor tensor = Tensor.of(array, 2, 3);
    array[4] = 50;
    assertThat(tensor.get(1, 1)).isEqualTo(50);
    tensor.set(7, 0, 2);
    assertThat(array[2]).isEqualTo(7);
    assertThat(tensor).hasToString("F32(2, 3)");
    assertThat(tensor.shape(-1)).isEqualTo(3);
    assertThat(tensor.stride(0)).isEqualTo(3);
    assertThat(tensor.isContiguous()).isTrue();
  }

  @ParameterizedTest
  @EnumSource(DType.class)
  void holdsItsType(DType dtype) {
    Tensor tensor = Tensor.allocate(dtype, 2, 2);
    assertThat(tensor.toDoubleArray()).containsOnly(0);
    tensor.set(1, 1, 0);
    assertThat(tensor.toDoubleArray()).containsExactly(0, 0, 1, 0);
    assertThat(tensor.segment().byteSize()).isEqualTo(4L * dtype.bytes());
    assertThat(tensor.copy().toDoubleArray()).containsExactly(0, 0, 1, 0);
  }

  @Test
  void aScalarHasOneElement() {
    Tensor scalar = Tensor.of(new double[] {42});
    assertThat(scalar.rank()).isZero();
    assertThat(scalar.elements()).isEqualTo(1);
    assertThat(scalar.get()).isEqualTo(42);
  }

  @Test
  void viewsShareTheirMemory() {
    Tensor tensor = counting();
    Tensor slice = tensor.slice(1, 1, 3);
    assertThat(slice.shape()).containsExactly(2, 2, 4);
    assertThat(slice.get(1, 0, 2)).isEqualTo(tensor.get(1, 1, 2)).isEqualTo(18);
    assertThat(slice.isContiguous()).isFalse();

    Tensor permuted = tensor.permute(2, 0, 1);
    assertThat(permuted.shape()).containsExactly(4, 2, 3);
    assertThat(permuted.get(3, 1, 2)).isEqualTo(tensor.get(1, 2, 3)).isEqualTo(23);

    Tensor selected = tensor.select(-2, 1);
    assertThat(selected.shape()).containsExactly(2, 4);
    assertThat(selected.get(1, 3)).isEqualTo(19);

    Tensor expanded = tensor.slice(0, 1, 2).expand(5, 3, 4);
    assertThat(expanded.stride(0)).isZero();
    assertThat(expanded.get(4, 2, 3)).isEqualTo(23);

    slice.set(-1, 0, 0, 0);
    assertThat(tensor.get(0, 1, 0)).isEqualTo(-1);
    assertThat(permuted.get(0, 0, 1)).isEqualTo(-1);
  }

  @Test
  void expandAddsLeadingDimensions() {
    Tensor row = Tensor.of(new float[] {1, 2}, 2);
    assertThat(row.expand(3, 2).toFloatArray()).containsExactly(1, 2, 1, 2, 1, 2);
    assertThat(row.broadcastsTo(3, 4)).isFalse();
    assertThat(row.broadcastsTo()).isFalse();
    assertThatIllegalArgumentException()
        .isThrownBy(() -> row.expand(3, 4))
        .withMessage("expand: F32(2) does not broadcast to [3, 4]");
  }

  @Test
  void reshapesWhatIsContiguous() {
    assertThat(counting().reshape(6, 4).get(5, 3)).isEqualTo(23);
    assertThatIllegalArgumentException()
        .isThrownBy(() -> counting().permute(1, 0, 2).reshape(24))
        .withMessageContaining("not contiguous")
        .withMessageContaining("F32(3, 2, 4)");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> counting().reshape(5, 5))
        .withMessage("reshape: F32(2, 3, 4) cannot be viewed as [5, 5]");
  }

  @Test
  void broadcastOffsetIgnoresWhatIsMissingOrOfSizeOne() {
    Tensor tensor = Tensor.of(new float[6], 2, 1, 3);
    for (long a = 0; a < 3; a++) {
      for (long b = 0; b < 2; b++) {
        for (long c = 0; c < 4; c++) {
          for (long d = 0; d < 3; d++) {
            assertThat(tensor.broadcastOffset(a, b, c, d)).isEqualTo(b * 3 + d);
          }
        }
      }
    }
  }

  @Test
  void indicesAreChecked() {
    Tensor tensor = counting();
    for (long[] wrong :
        new long[][] {{2, 0, 0}, {0, 3, 0}, {0, 0, 4}, {-1, 0, 0}, {0, 0}, {0, 0, 0, 0}}) {
      assertThatExceptionOfType(IndexOutOfBoundsException.class)
          .isThrownBy(() -> tensor.get(wrong))
          .withMessageContaining("F32(2, 3, 4)");
    }
    assertThatExceptionOfType(IndexOutOfBoundsException.class)
        .isThrownBy(() -> tensor.slice(1, 1, 4))
        .withMessage("slice: 1..4 does not lie within axis 1 of F32(2, 3, 4)");
    assertThatExceptionOfType(IndexOutOfBoundsException.class)
        .isThrownBy(() -> tensor.slice(1, 2, 1));
    assertThatExceptionOfType(IndexOutOfBoundsException.class)
        .isThrownBy(() -> tensor.select(3, 0))
        .withMessage("axis: 3 of F32(2, 3, 4)");
    assertThatExceptionOfType(IndexOutOfBoundsException.class).isThrownBy(() -> tensor.at(24));
    assertThatExceptionOfType(IndexOutOfBoundsException.class)
        .isThrownBy(() -> tensor.slice(0, 1, 2).at(12));
  }

  @Test
  void wrongShapesSayWhatIsWrong() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Tensor.of(new float[5], 2, 3))
        .withMessage("shape: [2, 3] has 6 elements, the array has 5");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Tensor.of(new float[5], -1, 3))
        .withMessage("shape: sizes must be at least 0, got [-1, 3]");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Tensor.of(new short[5], DType.F32, 5))
        .withMessage("dtype: a short[] holds F16 or BF16, not F32");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Tensor.of(new byte[5], DType.F16, 5))
        .withMessage("dtype: a byte[] holds I8 or BOOL, not F16");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Tensor.of(MemorySegment.ofArray(new byte[23]), DType.F32, 2, 3))
        .withMessage("segment: F32[2, 3] needs 24 bytes, the segment has 23");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> counting().permute(0, 0, 1))
        .withMessage("axes: each dimension once, got [0, 0, 1]");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> counting().permute(0, 1))
        .withMessage("axes: expected 3 of them, got [0, 1]");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> counting().copyFrom(Tensor.of(new float[24], 24)))
        .withMessage("copyFrom: F32(24) into F32(2, 3, 4)");
  }

  @Test
  void stridesAreChecked() {
    MemorySegment segment = MemorySegment.ofArray(new float[10]);
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Tensor.strided(segment, DType.F32, new long[] {2}, new long[] {1, 1}))
        .withMessageStartingWith("strides: expected one for each dimension");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Tensor.strided(segment, DType.F32, new long[] {2}, new long[] {-1}))
        .withMessageStartingWith("strides: must be at least 0");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Tensor.strided(segment, DType.F32, new long[] {2, 4}, new long[] {7, 1}))
        .withMessage("segment: F32[2, 4] needs 44 bytes, the segment has 40");
    assertThat(Tensor.strided(segment, DType.F32, new long[] {2, 4}, new long[] {6, 1}).elements())
        .isEqualTo(8);
  }

  @Test
  void shapesThatOverflowAreRefusedBeforeTheyWrap() {
    MemorySegment segment = MemorySegment.ofArray(new byte[16]);
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Tensor.of(segment, DType.F32, 1L << 32, 1L << 32))
        .withMessageContaining("more elements than 64 bits can count");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Tensor.of(segment, DType.F64, 1L << 61))
        .withMessageContaining("beyond 64-bit offsets");
    assertThatIllegalArgumentException()
        .isThrownBy(
            () ->
                Tensor.strided(
                    segment, DType.I8, new long[] {3, 3}, new long[] {1L << 62, 1L << 62}))
        .withMessageContaining("beyond 64-bit offsets");
  }

  @Test
  void emptyTensorsMayHaveAnyOtherSizes() {
    for (long[] shape : new long[][] {{0}, {3, 0}, {0, 1L << 32, 1L << 31}, {1L << 62, 0, 4}}) {
      Tensor empty = Tensor.of(new float[0], shape);
      assertThat(empty.elements()).isZero();
      assertThat(empty.isContiguous()).isTrue();
      assertThat(empty.toFloatArray()).isEmpty();
    }
    assertThat(counting().slice(1, 3, 3).elements()).isZero();
    assertThat(counting().slice(0, 2, 2).copy().shape()).containsExactly(0, 3, 4);
  }

  @Test
  void readsUnalignedMemory() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment bytes = arena.allocate(8 * 3 + 1).asSlice(1);
      for (DType dtype : DType.values()) {
        Tensor tensor = Tensor.of(bytes, dtype, 3);
        tensor.fill(1);
        assertThat(tensor.toDoubleArray()).as(dtype.name()).containsOnly(1);
      }
    }
  }

  @Test
  void memoryThatIsGoneIsAnExceptionAndNotACrash() {
    Tensor tensor;
    try (Arena arena = Arena.ofConfined()) {
      tensor = Tensor.of(arena.allocate(16), DType.F32, 4);
    }
    assertThatIllegalStateException().isThrownBy(() -> tensor.get(0));
  }

  @Test
  void readOnlyMemoryCannotBeWritten() {
    Tensor tensor = Tensor.of(MemorySegment.ofArray(new float[] {1, 2}).asReadOnly(), DType.F32, 2);
    assertThat(tensor.get(1)).isEqualTo(2);
    assertThatIllegalArgumentException().isThrownBy(() -> tensor.set(3, 0));
  }

  @Test
  void convertsWithOneRounding() {
    // Just above the midpoint of two binary16 numbers; as a float32 it would be the midpoint.
    double trap = 1 + 0x1p-11 + 0x1p-40;
    Tensor source = Tensor.of(new double[] {trap, -trap}, 2);
    assertThat(source.to(DType.F16).toDoubleArray()).containsExactly(1 + 0x1p-10, -1 - 0x1p-10);
    assertThat(source.permute(0).to(DType.BF16).toDoubleArray()).containsExactly(1, -1);
  }

  @Test
  void copiesLongsExactly() {
    long big = (1L << 62) + 1;
    Tensor source = Tensor.of(new long[] {big, -big}, 2);
    assertThat(source.toLongArray()).containsExactly(big, -big);
    assertThat(source.copy().longAt(0)).isEqualTo(big);
    assertThatIllegalStateException()
        .isThrownBy(() -> Tensor.of(new float[1], 1).longAt(0))
        .withMessage("expected I32 or I64, got F32(1)");
  }

  @Test
  void offsetsPastTwoToThe31Work(@TempDir Path folder) throws IOException {
    long stride = 1L << 25;
    long rows = 65;
    long bytes = ((rows - 1) * stride + 3) * Float.BYTES;
    try (Arena arena = Arena.ofConfined();
        FileChannel file =
            FileChannel.open(
                folder.resolve("sparse"),
                StandardOpenOption.CREATE_NEW,
                StandardOpenOption.SPARSE,
                StandardOpenOption.READ,
                StandardOpenOption.WRITE)) {
      MemorySegment segment = file.map(FileChannel.MapMode.READ_WRITE, 0, bytes, arena);
      Tensor tensor =
          Tensor.strided(segment, DType.F32, new long[] {rows, 3}, new long[] {stride, 1});
      tensor.set(7, 64, 2);
      assertThat(segment.get(JAVA_FLOAT_UNALIGNED, bytes - Float.BYTES)).isEqualTo(7);
      assertThat(tensor.slice(0, 64, 65).get(0, 2)).isEqualTo(7);
      assertThat(tensor.select(0, 64).permute(0).get(2)).isEqualTo(7);
      assertThat(tensor.permute(1, 0).copy().get(2, 64)).isEqualTo(7);
      assertThat(tensor.offset(64, 2)).isEqualTo(bytes / Float.BYTES - 1);
    }
  }

  @Test
  void namesTheTensorWhereAnAxisOrAnIntegerIsWrong() {
    Tensor x = Tensor.of(new float[] {1.5f, 2}, 1, 2);

    assertThatThrownBy(() -> x.shape(7)).hasMessage("axis: 7 of " + x);
    assertThatThrownBy(() -> x.stride(-3)).hasMessage("axis: -3 of " + x);
    assertThatThrownBy(x::toLongArray)
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected integers, got " + x);
    try (Backend backend = Backend.reference()) {
      assertThatThrownBy(() -> backend.topK(x, -1)).hasMessageContaining("k: expected 0 to 2");
      assertThatThrownBy(() -> backend.topK(x, 3)).hasMessageEndingWith("got 3");
    }
  }

  @Test
  void moreBytesThanCanBeCountedAreRefused() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Tensor.allocate(DType.F32, 1L << 62))
        .withMessage("shape: F32[4611686018427387904] has more bytes than 64 bits can count");
  }
}
