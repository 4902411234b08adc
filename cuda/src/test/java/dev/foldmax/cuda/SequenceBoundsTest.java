package dev.foldmax.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.Alignment;
import dev.foldmax.Mask;
import dev.foldmax.Sequence;
import dev.foldmax.Tensor;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/** What kernels compute from a sequence's bounds is what masks say. */
class SequenceBoundsTest {
  private static Mask random(SplittableRandom random) {
    Alignment alignment = random.nextBoolean() ? Alignment.BOTTOM_RIGHT : Alignment.TOP_LEFT;
    return switch (random.nextInt(5)) {
      case 0 -> Mask.none();
      case 1 -> Mask.causal(alignment);
      case 2 -> Mask.window(bound(random), bound(random), alignment);
      case 3 ->
          new Mask.Prefix(
              Tensor.of(new long[] {random.nextInt(12), random.nextInt(40), 3}, 3), alignment);
      default -> Mask.prefix(random.nextInt(30));
    };
  }

  private static long bound(SplittableRandom random) {
    return switch (random.nextInt(4)) {
      case 0 -> Mask.UNBOUNDED;
      case 1 -> Mask.UNBOUNDED / 2 - 1; // the longest that is a bound
      default -> random.nextInt(9);
    };
  }

  @Test
  void masksOfIntervalsAreShiftsOfTheQuery() {
    SplittableRandom random = new SplittableRandom(1);
    int visible = 0;
    int empty = 0;
    for (int n = 0; n < 5_000; n++) {
      Mask mask = random(random);
      for (int parts = random.nextInt(4); parts > 0; parts--) {
        mask = mask.and(random(random));
      }
      long first = random.nextInt(3) == 0 ? random.nextInt(1000) : 0;
      Sequence sequence =
          new Sequence(random.nextInt(3), random.nextInt(1, 30), first, first + random.nextInt(30));
      SequenceBounds bounds = SequenceBounds.of(mask, sequence);
      for (long i = 0; i < sequence.queries(); i++) {
        // As visibleTo of scores.cuh.
        long begin = Math.max(first, i + bounds.begin());
        long end = Math.min(sequence.endKey(), i + bounds.end());
        for (Alignment alignment : Alignment.values()) {
          end =
              Math.min(end, Math.max(bounds.prefix(alignment), i + bounds.prefixShift(alignment)));
        }
        long expectedBegin = mask.begin(sequence, i);
        long expectedEnd = mask.end(sequence, i);
        if (expectedBegin < expectedEnd) {
          assertThat(new long[] {begin, end})
              .as("%s of %s, query %d", mask, sequence, i)
              .containsExactly(expectedBegin, expectedEnd);
          visible++;
        } else {
          assertThat(end).as("%s of %s, query %d", mask, sequence, i).isLessThanOrEqualTo(begin);
          empty++;
        }
      }
    }
    assertThat(visible).isGreaterThan(10_000);
    assertThat(empty).isGreaterThan(1_000);
  }
}
