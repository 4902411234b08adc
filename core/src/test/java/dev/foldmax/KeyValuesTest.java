package dev.foldmax;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import org.junit.jupiter.api.Test;

class KeyValuesTest {
  private static Tensor f32(long... shape) {
    return Tensor.allocate(DType.F32, shape);
  }

  private static Tensor ints(int... values) {
    return Tensor.of(values, values.length);
  }

  /** Every position, by runs as kernels walk it, lies where block and row say. */
  private static void assertWalks(KeyValues kv, long sequence) {
    long end = kv.endKey(sequence);
    long position = kv.firstKey(sequence);
    while (position < end) {
      long run = kv.run(sequence, position, end);
      assertThat(run).isBetween(1L, end - position);
      for (long i = 0; i < run; i++) {
        assertThat(kv.block(sequence, position + i)).isEqualTo(kv.block(sequence, position));
        assertThat(kv.row(sequence, position + i)).isEqualTo(kv.row(sequence, position) + i);
        assertThat(kv.row(sequence, position + i)).isLessThan(kv.keys().shape(2));
      }
      position += run;
    }
  }

  @Test
  void denseFillsInMissingDimensions() {
    KeyValues two = KeyValues.dense(f32(5, 4), f32(5, 3));
    assertThat(two.keys().shape()).containsExactly(1, 1, 5, 4);
    assertThat(two.values().shape()).containsExactly(1, 1, 5, 3);
    KeyValues three = KeyValues.dense(f32(2, 5, 4), f32(2, 5, 4));
    assertThat(three.batch()).isEqualTo(1);
    assertThat(three.heads()).isEqualTo(2);
    KeyValues four = KeyValues.dense(f32(3, 2, 5, 4), f32(3, 2, 5, 4));
    assertThat(four.batch()).isEqualTo(3);
    assertThat(four.endKey(2)).isEqualTo(5);
    assertThat(four.block(2, 4)).isEqualTo(2);
    assertThat(four.row(2, 4)).isEqualTo(4);
    assertWalks(four, 1);
    assertThat(four.layout()).isEqualTo("dense");
    assertThat(four.keyScales()).isNull();
    assertThat(four.queryOffsets()).isNull();
  }

  @Test
  void lengthsAreReadAtEachCall() {
    int[] lengths = {5, 0};
    KeyValues kv = KeyValues.dense(f32(2, 1, 5, 4), f32(2, 1, 5, 4)).lengths(Tensor.of(lengths, 2));
    kv.validate();
    assertThat(kv.endKey(0)).isEqualTo(5);
    assertThat(kv.endKey(1)).isZero();
    lengths[1] = 6;
    assertThatIllegalArgumentException()
        .isThrownBy(kv::validate)
        .withMessage("lengths: entry 1 is 6, expected 0 to 5");
    lengths[1] = -1;
    assertThatIllegalArgumentException().isThrownBy(kv::validate);
  }

  @Test
  void raggedSequencesLieOneAfterTheOther() {
    KeyValues kv = KeyValues.ragged(f32(2, 9, 4), f32(2, 9, 4), ints(1, 3, 3, 8));
    kv.validate();
    assertThat(kv.batch()).isEqualTo(3);
    assertThat(kv.heads()).isEqualTo(2);
    assertThat(kv.endKey(0)).isEqualTo(2);
    assertThat(kv.endKey(1)).isZero();
    assertThat(kv.endKey(2)).isEqualTo(5);
    assertThat(kv.row(2, 4)).isEqualTo(7);
    assertWalks(kv, 0);
    assertWalks(kv, 2);
    assertThatIllegalArgumentException()
        .isThrownBy(KeyValues.ragged(f32(2, 9, 4), f32(2, 9, 4), ints(0, 5, 4))::validate)
        .withMessage("offsets: entry 2 is 4, expected 5 to 9");
    assertThatIllegalArgumentException()
        .isThrownBy(KeyValues.ragged(f32(2, 9, 4), f32(2, 9, 4), ints(0, 10))::validate)
        .withMessage("offsets: entry 1 is 10, expected 0 to 9");
  }

  @Test
  void pagesAreFoundByTheTable() {
    Tensor table = Tensor.of(new long[] {4, 0, 2, 1, 99, -7}, 2, 3);
    KeyValues kv = KeyValues.paged(f32(5, 2, 3, 4), f32(5, 2, 3, 4), table, ints(8, 2));
    kv.validate();
    assertThat(kv.batch()).isEqualTo(2);
    assertThat(kv.block(0, 0)).isEqualTo(4);
    assertThat(kv.block(0, 5)).isZero();
    assertThat(kv.row(0, 5)).isEqualTo(2);
    assertThat(kv.block(0, 7)).isEqualTo(2);
    assertThat(kv.run(0, 1, 8)).isEqualTo(2);
    assertWalks(kv, 0);
    assertWalks(kv, 1);
    assertThatIllegalArgumentException()
        .isThrownBy(KeyValues.paged(f32(5, 2, 3, 4), f32(5, 2, 3, 4), table, ints(8, 4))::validate)
        .withMessage("blockTable: entry (1, 1) is 99, expected 0 to 4");
    assertThatIllegalArgumentException()
        .isThrownBy(KeyValues.paged(f32(5, 2, 3, 4), f32(5, 2, 3, 4), table, ints(10, 2))::validate)
        .withMessage("lengths: entry 0 is 10, expected 0 to 9");
  }

  @Test
  void aRingWrapsRound() {
    for (int first = 0; first < 12; first++) {
      KeyValues kv = KeyValues.ring(f32(1, 1, 5, 4), f32(1, 1, 5, 4), ints(first), ints(4));
      kv.validate();
      assertThat(kv.firstKey(0)).isEqualTo(first);
      assertThat(kv.endKey(0)).isEqualTo(first + 4);
      for (long p = first; p < first + 4; p++) {
        assertThat(kv.row(0, p)).isEqualTo(p % 5);
        assertThat(kv.block(0, p)).isZero();
      }
      assertWalks(kv, 0);
    }
    assertThatIllegalArgumentException()
        .isThrownBy(KeyValues.ring(f32(1, 1, 5, 4), f32(1, 1, 5, 4), ints(0), ints(6))::validate)
        .withMessage("lengths: entry 0 is 6, expected 0 to 5");
    assertThatIllegalArgumentException()
        .isThrownBy(KeyValues.ring(f32(1, 1, 5, 4), f32(1, 1, 5, 4), ints(-1), ints(2))::validate)
        .withMessageStartingWith("first: entry 0 is -1");
  }

  @Test
  void quantisedTensorsNeedScales() {
    Tensor bytes = Tensor.allocate(DType.I8, 2, 3, 5, 4);
    KeyValues bare = KeyValues.dense(bytes, bytes);
    assertThatIllegalArgumentException()
        .isThrownBy(bare::validate)
        .withMessageStartingWith("keys: I8 needs scales");
    assertThatIllegalArgumentException()
        .isThrownBy(bare.scales(f32(2, 3, 5), null)::validate)
        .withMessageStartingWith("values: I8 needs scales");
    KeyValues scaled = bare.scales(f32(2, 3, 5), f32(3, 1));
    scaled.validate();
    assertThat(scaled.valueScales()).isNotNull();
    assertThat(scaled.valueScales().shape()).containsExactly(2, 3, 5);
    assertThatIllegalArgumentException()
        .isThrownBy(() -> bare.scales(f32(2, 3, 4), null))
        .withMessageContaining("keyScales")
        .withMessageContaining("I8(2, 3, 5, 4)")
        .withMessageContaining("F32(2, 3, 4)");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> bare.scales(null, ints(1)))
        .withMessageContaining("valueScales");
  }

  @Test
  void settingsSurviveOneAnother() {
    KeyValues kv =
        KeyValues.dense(f32(2, 1, 5, 4), f32(2, 1, 5, 4))
            .scales(f32(5), f32(5))
            .queryOffsets(ints(0, 1, 3))
            .lengths(ints(1, 2));
    assertThat(kv.keyScales()).isNotNull();
    assertThat(kv.queryOffsets()).isNotNull();
    assertThat(kv.endKey(1)).isEqualTo(2);
  }

  @Test
  void wrongArgumentsAreNamedWithTheirShapes() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> KeyValues.dense(f32(4), f32(4)))
        .withMessageContaining("F32(4) and F32(4)");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> KeyValues.dense(f32(2, 5, 4), f32(5, 4)))
        .withMessageContaining("both of one rank");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> KeyValues.dense(f32(2, 5, 4), f32(2, 6, 4)))
        .withMessageContaining("values: expected the shape of keys but for the last dimension")
        .withMessageContaining("F32(2, 6, 4)");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> KeyValues.dense(Tensor.allocate(DType.I32, 5, 4), f32(5, 4)))
        .withMessageStartingWith("keys: expected F64, F32, F16, BF16 or I8");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> KeyValues.dense(f32(5, 4), Tensor.allocate(DType.BOOL, 5, 4)))
        .withMessageStartingWith("values: expected F64, F32, F16, BF16 or I8");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> KeyValues.ragged(f32(5, 4), f32(5, 4), ints(0)))
        .withMessageContaining("ragged keys: expected shape (key heads, total length, dim)");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> KeyValues.ragged(f32(1, 5, 4), f32(1, 5, 4), ints()))
        .withMessageContaining("offsets: expected shape (batch + 1)");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> KeyValues.ragged(f32(1, 5, 4), f32(1, 5, 4), f32(2)))
        .withMessageContaining("offsets: expected I32 or I64");
    assertThatIllegalArgumentException()
        .isThrownBy(
            () ->
                KeyValues.paged(
                    f32(3, 1, 0, 4), f32(3, 1, 0, 4), Tensor.of(new int[2], 1, 2), ints(0)))
        .withMessageContaining("the page size must not be 0");
    assertThatIllegalArgumentException()
        .isThrownBy(
            () ->
                KeyValues.paged(
                    f32(3, 1, 2, 4), f32(3, 1, 2, 4), Tensor.of(new int[2], 1, 2), ints(0, 0)))
        .withMessageContaining("lengths: expected one for each row of blockTable I32(1, 2)");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> KeyValues.ring(f32(3, 1, 2, 4), f32(3, 1, 2, 4), ints(0), ints(0, 0, 0)))
        .withMessageContaining("first, lengths: expected one for each sequence of keys");
    KeyValues dense = KeyValues.dense(f32(2, 1, 5, 4), f32(2, 1, 5, 4));
    assertThatIllegalArgumentException()
        .isThrownBy(() -> dense.lengths(ints(1)))
        .withMessageContaining("lengths: expected one for each sequence");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> dense.queryOffsets(ints(0, 1)))
        .withMessage("queryOffsets: expected shape (3), got I32(2)");
    KeyValues ragged = KeyValues.ragged(f32(1, 5, 4), f32(1, 5, 4), ints(0, 5));
    assertThatIllegalStateException()
        .isThrownBy(() -> ragged.lengths(ints(1)))
        .withMessage("lengths: only a dense layout takes them separately");
  }
}
