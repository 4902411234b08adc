package dev.foldmax.cli.explain;

import static dev.foldmax.cli.explain.Rows.HIDDEN;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.foldmax.Rescale;
import dev.foldmax.SoftmaxState;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What dialects do over the rows of a head. */
class HeadTest {
  private static final Dialect ALWAYS = new Dialect(Rescale.ALWAYS, 0);
  private static final Dialect ON_NEW_MAX = new Dialect(Rescale.ON_NEW_MAX, 0);

  /** A state's maximum changes exactly where it is corrected, but for the first time. */
  @Test
  void correctionsAreThoseOfSoftmaxState() {
    double[] maxima = new double[300];
    double[] noise = Rows.random(2, 300, 3);
    for (int t = 0; t < maxima.length; t++) {
      maxima[t] = t % 11 == 0 ? HIDDEN : noise[t] + t * 0.1;
    }
    for (Dialect dialect : Dialect.ALL) {
      if (dialect.rescale() == Rescale.ALWAYS) {
        continue;
      }
      SoftmaxState state = new SoftmaxState(0, dialect.rescale(), dialect.tau());
      int changes = -1;
      for (double tileMax : maxima) {
        double before = state.max();
        state.add(tileMax);
        changes += state.max() == before ? 0 : 1;
      }
      assertThat(dialect.corrections(maxima)).as(dialect.label()).isEqualTo(changes);
    }
    assertThat(ALWAYS.corrections(maxima)).isEqualTo(300 - 28 - 1);
    assertThat(ALWAYS.corrections(new double[] {HIDDEN})).isZero();
  }

  @Test
  void rowsThatAreNaNCountNowhere() {
    double[][] maxima = {{1, Double.NaN, 2}, {1, 2, 3}, {1, Double.POSITIVE_INFINITY, HIDDEN}};

    Head head = new Head(3, List.of(0L, 1L, 2L), maxima, 4);

    assertThat(head.rowsThatAreNaN()).isEqualTo(2);
    assertThat(head.corrections(ALWAYS)).isEqualTo(2);
    assertThat(head.visibleTiles()).isEqualTo(3);
    assertThat(head.mostRises()).isEqualTo(1);
    assertThat(head.rises(2)).containsExactly(List.of(-2, -2), List.of(1, 1), List.of(-2, -2));
  }

  @Test
  void countsOverAllRows() {
    Head head =
        new Head(9, List.of(0L, 4L, 8L), new double[][] {{1, 2, 3}, {3, 2, HIDDEN}, {0, 0, 5}}, 64);

    assertThat(head.visibleTiles()).isEqualTo(8);
    assertThat(head.corrections(ALWAYS)).isEqualTo(5);
    assertThat(head.corrections(ON_NEW_MAX)).isEqualTo(3);
    assertThat(head.multiplications(ON_NEW_MAX)).isEqualTo(3 * 65);
    assertThat(head.mostRises()).isZero();
    assertThat(head.rises(1))
        .containsExactly(List.of(0, 1, 1), List.of(0, 0, -1), List.of(0, 0, 1));
    assertThat(head.rises(2)).containsExactly(List.of(1, 1), List.of(0, -1), List.of(0, 1));
  }

  @Test
  void takesTheMaximaOfTiles() {
    assertThat(Head.tileMaxima(new double[] {1, 3, HIDDEN, HIDDEN, 2}, 2))
        .containsExactly(3, HIDDEN, 2);
    assertThat(Head.tileMaxima(new double[0], 2)).isEmpty();
  }

  @Test
  void refusesRowsWithoutMaxima() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> new Head(2, List.of(0L, 1L), new double[1][3], 4))
        .withMessage("tileMaxima: expected 2 rows, got 1");
  }

  @Test
  void favoursTheLeastTime() {
    assertThat(new Costs(List.of(9.0, 3.0, 4.0, 5.0, 6.0, 7.0)).favoured())
        .containsExactly(ON_NEW_MAX);
    assertThat(new Costs(List.of(9.0, 3.0, 3.1, 5.0, 6.0, 7.0)).favoured())
        .containsExactly(ON_NEW_MAX, new Dialect(Rescale.LAZY, 2));
  }

  @Test
  void measuresEachDialect() {
    double[][] maxima = new double[4][];
    for (int i = 0; i < maxima.length; i++) {
      maxima[i] = Rows.random(i, 50, 4);
    }
    Costs costs = Costs.measure(new Head(4, List.of(0L, 1L, 2L, 3L), maxima, 32));

    assertThat(costs.nanoseconds())
        .hasSize(Dialect.ALL.size())
        .allSatisfy(time -> assertThat(time).isPositive().isFinite());
  }
}
