package dev.foldmax;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.foldmax.AttentionPartial.Fold;
import dev.foldmax.AttentionPartial.Piece;
import dev.foldmax.spi.ContentDigest;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** How keys are cut into pieces, and which partials are none. */
class AttentionPartialTest {
  private static final Fold FOLD = new Fold("test", "float32", 1, 10, 256, 1);

  private static String cut(long begin, long end, long total) {
    return FOLD.cut(begin, end, total).stream()
        .map(Piece::toString)
        .collect(Collectors.joining(" "));
  }

  /** Cells of 10 keys. */
  @ParameterizedTest
  @CsvSource({
    "0, 80, 80, 0..80",
    "0, 80, 200, 0..80",
    "0, 70, 200, 0..40 40..60 60..70",
    "10, 80, 200, 10..20 20..40 40..80",
    "30, 130, 200, 30..40 40..80 80..120 120..130",
    "0, 55, 55, 0..40 40..55",
    "0, 55, 200, 0..40 40..50 50..55",
    "50, 55, 55, 50..55",
    "3, 55, 200, 3..10 10..20 20..40 40..50 50..55",
    "13, 17, 200, 13..17",
    "13, 20, 200, 13..20",
    "17, 25, 25, 17..20 20..25",
    "160, 200, 200, 160..200"
  })
  void cutsKeysIntoSubtrees(long begin, long end, long total, String pieces) {
    assertThat(cut(begin, end, total)).isEqualTo(pieces);
  }

  @Test
  void cutsAnyRangeIntoFewPieces() {
    SplittableRandom random = new SplittableRandom(1);
    for (int n = 0; n < 1000; n++) {
      long total = random.nextLong(1, 1L << (1 + n % 50));
      long begin = random.nextLong(total);
      long end = random.nextLong(begin, total) + 1;
      List<Piece> pieces = FOLD.cut(begin, end, total);
      long covered = begin;
      for (Piece piece : pieces) {
        assertThat(piece.begin()).isEqualTo(covered);
        covered = piece.end();
      }
      assertThat(covered).isEqualTo(end);
      int bits = Long.SIZE - Long.numberOfLeadingZeros(total / 10);
      assertThat(pieces).hasSizeLessThanOrEqualTo(2 * bits + 2);
    }
  }

  @Test
  void cutsTheLastPositionsThereAre() {
    long most = Long.MAX_VALUE;
    assertThat(cut(most - 2, most, most)).isEqualTo((most - 2) + ".." + most);
    assertThat(cut(most - 7, most, most)).isEqualTo((most - 7) + ".." + most);
    assertThat(cut(most - 9, most, most))
        .isEqualTo((most - 9) + ".." + (most - 7) + " " + (most - 7) + ".." + most);
    List<Piece> pieces = FOLD.cut(0, most, most);
    assertThat(pieces.getFirst()).isEqualTo(new Piece(0, (1L << 59) * 10));
    assertThat(pieces.getLast().end()).isEqualTo(most);
  }

  @ParameterizedTest
  @CsvSource({"-1, 4", "5, 5", "7, 6", "0, 41", "0, 9223372036854775807", "40, 50"})
  void refusesRangesThatAreNotWithinTheKeys(long begin, long end) {
    assertThatThrownBy(() -> FOLD.cut(begin, end, 40))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContainingAll("0..40", begin + ".." + end);
  }

  @Test
  void refusesNumbersBeyondTheirTypes() {
    Tensor rows = Tensor.allocate(DType.F32, 1, 1, 3, 4);
    Tensor outputs = Tensor.allocate(DType.F32, 1, 1, 3, 4, 8);
    AttentionPartial good =
        new AttentionPartial(Map.of(), FOLD, 100, FOLD.cut(0, 10, 100), rows, rows, outputs, null);
    for (String[] entry :
        new String[][] {
          {"fold", "4294967297"}, {"vectorBits", "4294967552"}, {"cellKeys", "-10"}
        }) {
      Map<String, String> metadata = new TreeMap<>(good.metadata());
      metadata.remove("sha256");
      metadata.put(entry[0], entry[1]);
      metadata.put("sha256", ContentDigest.of(metadata, good.tensors()));
      assertThatThrownBy(() -> AttentionPartial.of(metadata, good.tensors()))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContainingAll(entry[0], entry[1]);
    }
  }

  @Test
  void refusesWhatDoesNotFit() {
    List<Piece> pieces = FOLD.cut(0, 30, 100);
    Tensor rows = Tensor.allocate(DType.F32, 2, 1, 3, 4);
    Tensor outputs = Tensor.allocate(DType.F32, 2, 1, 3, 4, 8);
    AttentionPartial good =
        new AttentionPartial(Map.of(), FOLD, 100, pieces, rows, rows, outputs, null);
    assertThat(good.rowShape()).containsExactly(1, 3, 4);
    assertThat(good.outputShape()).containsExactly(1, 3, 4, 8);
    assertRefused(100, List.of(new Piece(0, 30)), rows, outputs, null, "0..20, 20..30");
    assertRefused(25, pieces, rows, outputs, null, "below 25");
    assertRefused(100, List.of(), rows, outputs, null, "pieces");
    assertRefused(100, pieces, rows.to(DType.F64), outputs, null, "max");
    assertRefused(100, pieces, rows.select(1, 0), outputs, null, "max");
    assertRefused(100, pieces, rows, outputs.to(DType.F16), null, "weighted");
    assertRefused(100, pieces, rows, rows.select(1, 0).select(1, 0), null, "weighted");
    assertRefused(100, pieces, rows, outputs, Tensor.allocate(DType.F32, 4), "expected a floating");
  }

  private static void assertRefused(
      long total,
      List<Piece> pieces,
      Tensor rows,
      Tensor outputs,
      @Nullable Tensor sinks,
      String words) {
    assertThatThrownBy(
            () -> new AttentionPartial(Map.of(), FOLD, total, pieces, rows, rows, outputs, sinks))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining(words);
  }
}
