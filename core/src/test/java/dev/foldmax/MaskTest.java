package dev.foldmax;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Every kind of mask against its definition, by brute force over small sizes. */
class MaskTest {
  private static final long MOST = 6;

  /** A mask beside the rule it stands for. */
  record Kind(String name, Mask mask, Rule rule) {
    @Override
    public String toString() {
      return name;
    }
  }

  @FunctionalInterface
  interface Rule {
    boolean visible(Sequence s, int head, long query, long key);
  }

  private static long bottomRight(Sequence s, long query) {
    return query - s.queries() + s.endKey();
  }

  static List<Kind> kinds() {
    List<Kind> kinds = new ArrayList<>();
    kinds.add(new Kind("none", Mask.none(), (s, h, i, j) -> true));
    kinds.add(new Kind("causal", Mask.causal(), (s, h, i, j) -> j <= bottomRight(s, i)));
    kinds.add(new Kind("causal top-left", Mask.causal(Alignment.TOP_LEFT), (s, h, i, j) -> j <= i));
    for (long left : new long[] {0, 1, 3, Mask.UNBOUNDED}) {
      for (long right : new long[] {0, 2, Mask.UNBOUNDED}) {
        kinds.add(
            new Kind(
                "window " + left + ", " + right,
                Mask.window(left, right),
                (s, h, i, j) -> inWindow(bottomRight(s, i), j, left, right)));
        kinds.add(
            new Kind(
                "window top-left " + left + ", " + right,
                Mask.window(left, right, Alignment.TOP_LEFT),
                (s, h, i, j) -> inWindow(i, j, left, right)));
      }
    }
    for (long prefix : new long[] {0, 1, 4, 100}) {
      kinds.add(
          new Kind(
              "prefix " + prefix,
              Mask.prefix(prefix),
              (s, h, i, j) -> j < prefix || j <= bottomRight(s, i)));
    }
    kinds.add(
        new Kind(
            "prefix by sequence",
            Mask.prefix(Tensor.of(new int[] {2, 5}, 2)),
            (s, h, i, j) -> j < (s.batch() == 0 ? 2 : 5) || j <= bottomRight(s, i)));
    boolean[] open = new boolean[(int) (2 * 2 * MOST * MOST)];
    Random random = new Random(1);
    for (int i = 0; i < open.length; i++) {
      open[i] = random.nextBoolean();
    }
    Rule dense =
        (s, h, i, j) -> open[(int) (((s.batch() * 2 + h) * MOST + i) * MOST + j - s.firstKey())];
    Mask tensor = Mask.of(Tensor.of(open, 2, 2, MOST, MOST));
    kinds.add(new Kind("tensor", tensor, dense));
    boolean[] columns = {true, false, true, true, false, true};
    kinds.add(
        new Kind(
            "tensor of columns",
            Mask.of(Tensor.of(columns, 1, MOST)),
            (s, h, i, j) -> columns[(int) (j - s.firstKey())]));
    Rule checkers = (s, h, i, j) -> (i + j + h) % 2 == 0;
    kinds.add(new Kind("own", Mask.of(checkers::visible), checkers));
    kinds.add(new Kind("own with coverage", Mask.of(new Diagonal()), (s, h, i, j) -> i == j));
    kinds.add(
        new Kind(
            "causal and window",
            Mask.causal(Alignment.TOP_LEFT).and(Mask.window(2, 2)),
            (s, h, i, j) -> j <= i && inWindow(bottomRight(s, i), j, 2, 2)));
    kinds.add(
        new Kind(
            "window and tensor and own",
            Mask.window(3, 1).and(tensor).and(Mask.of(checkers::visible)),
            (s, h, i, j) ->
                inWindow(bottomRight(s, i), j, 3, 1)
                    && dense.visible(s, h, i, j)
                    && checkers.visible(s, h, i, j)));
    kinds.add(
        new Kind(
            "own with coverage and prefix",
            Mask.of(new Diagonal()).and(Mask.prefix(1)),
            (s, h, i, j) -> i == j && (j < 1 || j <= bottomRight(s, i))));
    return kinds;
  }

  private static boolean inWindow(long position, long key, long left, long right) {
    return (left == Mask.UNBOUNDED || key >= position - left)
        && (right == Mask.UNBOUNDED || key <= position + right);
  }

  /** The diagonal, which knows what it covers. */
  private static final class Diagonal implements MaskFunction {
    @Override
    public boolean visible(Sequence sequence, int head, long query, long key) {
      return query == key;
    }

    @Override
    public Coverage coverage(
        Sequence sequence, int head, long queryBegin, long queryEnd, long keyBegin, long keyEnd) {
      if (queryEnd <= keyBegin || keyEnd <= queryBegin) {
        return Coverage.NONE;
      }
      boolean single = queryEnd - queryBegin == 1 && keyEnd - keyBegin == 1;
      return single ? Coverage.ALL : Coverage.SOME;
    }
  }

  private static List<Sequence> sequences() {
    List<Sequence> all = new ArrayList<>();
    for (int batch = 0; batch < 2; batch++) {
      for (long queries = 1; queries <= MOST; queries++) {
        for (long first : new long[] {0, 3}) {
          for (long length = 0; length <= MOST; length++) {
            all.add(new Sequence(batch, queries, first, first + length));
          }
        }
      }
    }
    return all;
  }

  @ParameterizedTest
  @MethodSource("kinds")
  void showsWhatItsRuleShows(Kind kind) {
    for (Sequence s : sequences()) {
      for (int head = 0; head < 2; head++) {
        for (long i = 0; i < s.queries(); i++) {
          for (long j = s.firstKey(); j < s.endKey(); j++) {
            assertThat(kind.mask().visible(s, head, i, j))
                .as("%s, head %s, query %s, key %s", s, head, i, j)
                .isEqualTo(kind.rule().visible(s, head, i, j));
          }
        }
      }
    }
  }

  @ParameterizedTest
  @MethodSource("kinds")
  void intervalsHoldAllThatIsVisibleAndNeverFall(Kind kind) {
    Mask mask = kind.mask();
    for (Sequence s : sequences()) {
      long previousBegin = s.firstKey();
      long previousEnd = s.firstKey();
      for (long i = 0; i < s.queries(); i++) {
        long begin = mask.begin(s, i);
        long end = mask.end(s, i);
        assertThat(begin).as("begin of query %s in %s", i, s).isBetween(previousBegin, s.endKey());
        assertThat(end).as("end of query %s in %s", i, s).isBetween(previousEnd, s.endKey());
        previousBegin = begin;
        previousEnd = end;
        for (long j = s.firstKey(); j < s.endKey(); j++) {
          boolean inside = j >= begin && j < end;
          boolean visible = kind.rule().visible(s, 0, i, j);
          if (mask.isInterval()) {
            assertThat(inside).as("query %s, key %s of %s", i, j, s).isEqualTo(visible);
          } else {
            assertThat(inside || !visible).as("query %s, key %s of %s", i, j, s).isTrue();
          }
        }
      }
    }
  }

  @ParameterizedTest
  @MethodSource("kinds")
  void coverageNeverLies(Kind kind) {
    for (Sequence s : sequences()) {
      for (long i0 = 0; i0 < s.queries(); i0++) {
        for (long i1 = i0 + 1; i1 <= s.queries(); i1++) {
          for (long j0 = s.firstKey(); j0 < s.endKey(); j0++) {
            for (long j1 = j0 + 1; j1 <= s.endKey(); j1++) {
              checkCoverage(kind, s, i0, i1, j0, j1);
            }
          }
        }
      }
    }
  }

  private static void checkCoverage(Kind kind, Sequence s, long i0, long i1, long j0, long j1) {
    long visible = 0;
    for (long i = i0; i < i1; i++) {
      for (long j = j0; j < j1; j++) {
        visible += kind.rule().visible(s, 1, i, j) ? 1 : 0;
      }
    }
    long pairs = (i1 - i0) * (j1 - j0);
    Coverage coverage = kind.mask().coverage(s, 1, i0, i1, j0, j1);
    boolean right =
        switch (coverage) {
          case NONE -> visible == 0;
          case ALL -> visible == pairs;
          case SOME -> true;
        };
    if (!right) {
      assertThat(coverage)
          .as("queries %s..%s, keys %s..%s of %s: %s of %s", i0, i1, j0, j1, s, visible, pairs)
          .isNull();
    }
    boolean single = kind.mask().isInterval() && !(kind.mask() instanceof Mask.And);
    if (single && visible == pairs) {
      assertThat(coverage).isEqualTo(Coverage.ALL);
    }
    if (single && visible == 0) {
      assertThat(coverage).isEqualTo(Coverage.NONE);
    }
  }

  @Test
  void aPrefixLengthIsReadAtEachCall() {
    long[] length = {0};
    Mask mask = Mask.prefix(Tensor.of(length, 1));
    Sequence s = new Sequence(3, 4, 0, 4);
    assertThat(mask.visible(s, 0, 0, 2)).isFalse();
    length[0] = 3;
    assertThat(mask.visible(s, 0, 0, 2)).isTrue();
  }

  @Test
  void andWithNoneIsTheMaskItself() {
    assertThat(Mask.none().and(Mask.causal())).isEqualTo(Mask.causal());
    assertThat(Mask.causal().and(Mask.none())).isEqualTo(Mask.causal());
    assertThat(Mask.none().and(Mask.none())).isEqualTo(Mask.none());
    Mask three = Mask.causal().and(Mask.window(1, 1)).and(Mask.prefix(1));
    assertThat(three).isInstanceOf(Mask.And.class);
    assertThat(((Mask.And) three).parts()).hasSize(3);
  }

  @Test
  void wrongMasksSayWhatIsWrong() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Mask.window(-1, 0))
        .withMessageContaining("window: left and right must be at least 0")
        .withMessageContaining("-1 and 0");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Mask.prefix(Tensor.of(new float[1], 1)))
        .withMessageContaining("prefix: lengths must be I32 or I64")
        .withMessageContaining("F32(1)");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Mask.of(Tensor.of(new byte[4], DType.I8, 2, 2)))
        .withMessageContaining("mask: expected BOOL")
        .withMessageContaining("I8(2, 2)");
  }

  @Test
  @SuppressWarnings("NullAway") // a user's code may not be checked for nulls
  void anAlignmentIsNeeded() {
    assertThatNullPointerException().isThrownBy(() -> Mask.causal(null)).withMessage("alignment");
    assertThatNullPointerException()
        .isThrownBy(() -> Mask.window(1, 1, null))
        .withMessage("alignment");
    assertThatNullPointerException()
        .isThrownBy(() -> new Mask.Prefix(Tensor.of(new int[1], 1), null))
        .withMessage("alignment");
    assertThatNullPointerException()
        .isThrownBy(() -> Attention.standard().alibi(Tensor.of(new float[1], 1), null))
        .withMessage("alignment");
  }
}
