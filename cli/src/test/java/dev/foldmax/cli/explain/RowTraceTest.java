package dev.foldmax.cli.explain;

import static dev.foldmax.cli.explain.Rows.HIDDEN;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.Attention;
import dev.foldmax.Rescale;
import dev.foldmax.SoftmaxState;
import java.util.Arrays;
import java.util.List;
import org.assertj.core.data.Offset;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Every number of a trace against {@link SoftmaxState}. */
class RowTraceTest {
  private static final int DIM = 5;

  /** Scores that rise in the middle, with hidden keys: single ones, and a whole stretch. */
  private static double[] scores() {
    double[] scores = Rows.random(3, 50, 2);
    scores[31] = 14;
    scores[44] = 15;
    scores[0] = HIDDEN;
    scores[33] = HIDDEN;
    Arrays.fill(scores, 10, 20, HIDDEN);
    return scores;
  }

  @ParameterizedTest
  @CsvSource({
    "ALWAYS, 0, 1",
    "ALWAYS, 0, 7",
    "ON_NEW_MAX, 0, 1",
    "ON_NEW_MAX, 0, 5",
    "ON_NEW_MAX, 0, 7",
    "ON_NEW_MAX, 0, 64",
    "LAZY, 0, 4",
    "LAZY, 2, 4",
    "LAZY, 8, 4",
    "LAZY, 64, 7"
  })
  void eachStepIsThatOfSoftmaxState(Rescale dialect, double tau, int tile) {
    double[] scores = scores();
    double[][] values = Rows.matrix(4, scores.length, DIM);

    RowTrace trace = RowTrace.of(Rows.of(scores, values, HIDDEN), tile, dialect, tau);

    SoftmaxState state = new SoftmaxState(DIM, dialect, tau);
    assertThat(trace.steps()).hasSize(Math.ceilDiv(scores.length, tile));
    for (Step step : trace.steps()) {
      assertThat(step.maxBefore()).isEqualTo(state.max());
      assertThat(step.sumBefore()).isEqualTo(state.sum(), within(1e-12 * state.sum()));
      double[] tileScores = Arrays.copyOfRange(scores, step.begin(), step.end());
      double[] tileValues =
          Arrays.stream(values, step.begin(), step.end()).flatMapToDouble(Arrays::stream).toArray();
      state.addTile(tileScores, tileValues);
      assertThat(step.maxAfter()).isEqualTo(state.max());
      assertThat(step.sumAfter()).isEqualTo(state.sum(), within(1e-12 * state.sum()));
      assertThat(step.sumBefore() * step.correction() + step.tileSum()).isEqualTo(step.sumAfter());
      double[] output = state.output();
      for (int d = 0; d < RowTrace.COMPONENTS; d++) {
        assertThat(step.outputAfter().get(d))
            .isEqualTo(output[d] * state.sum(), within(1e-12 * state.sum()));
        assertThat(step.outputBefore().get(d) * step.correction() + step.tileValues().get(d))
            .isEqualTo(step.outputAfter().get(d));
      }
      assertThat(step.visible())
          .isEqualTo((int) Arrays.stream(tileScores).filter(s -> s != HIDDEN).count());
    }
    assertThat(trace.max()).isEqualTo(state.max());
    assertThat(trace.logSumExp()).isEqualTo(state.logSumExp(), within(1e-12));
    assertThat(trace.output().get(2)).isEqualTo(state.output()[2], within(1e-12));
  }

  @Test
  void correctsWhereTheMaximumRisesOnly() {
    RowTrace trace = RowTrace.of(Rows.of(1, 0, 2, 2, 1, 5), 1, Rescale.ON_NEW_MAX, 0);

    assertThat(trace.steps())
        .extracting(Step::corrects)
        .containsExactly(false, false, true, false, false, true);
    assertThat(trace.corrections()).isEqualTo(2);
    assertThat(trace.steps())
        .extracting(Step::correction)
        .containsExactly(0.0, 1.0, Math.exp(-1), 1.0, 1.0, Math.exp(-3));
  }

  @Test
  void keepsAStaleMaximumLazily() {
    double tau = 3 / Math.log(2);
    RowTrace trace = RowTrace.of(Rows.of(0, 2, 4), 1, Rescale.LAZY, tau);

    assertThat(trace.threshold()).isEqualTo(3, within(1e-12));
    assertThat(trace.steps()).extracting(Step::maxAfter).containsExactly(0.0, 0.0, 4.0);
    assertThat(trace.steps().get(1).tileSum()).isEqualTo(Math.exp(2));
  }

  @Test
  void sharesOfAllTilesAreOne() {
    RowTrace trace =
        RowTrace.of(
            Rows.of(scores(), Rows.matrix(4, 50, DIM), 13.0),
            4,
            Rescale.LAZY,
            Attention.DEFAULT_TAU);

    assertThat(trace.steps().stream().mapToDouble(Step::share).sum()).isEqualTo(1, within(1e-12));
    Step step = trace.steps().get(7);
    Offset<Double> close = within(1e-12);
    assertThat(step.largest().getFirst().index()).isEqualTo(31);
    assertThat(step.largest().stream().mapToDouble(Key::weight).sum())
        .isEqualTo(step.share(), close);
  }

  @Test
  void aSinkIsAStepOfItsOwn() {
    double[] scores = {1, 2};
    double[][] values = {{1, 0}, {0, 1}};
    Row row = Rows.of(scores, values, 3);

    RowTrace trace = RowTrace.of(row, 2, Rescale.ON_NEW_MAX, 0);

    Step sink = trace.steps().getLast();
    assertThat(sink.isSink()).isTrue();
    assertThat(sink.tileSum()).isEqualTo(1);
    assertThat(trace.logSumExp())
        .isEqualTo(Math.log(Math.exp(1) + Math.exp(2) + Math.exp(3)), within(1e-12));
    assertThat(trace.output().get(1)).isEqualTo(row.oracle(1), within(1e-12));
  }

  @Test
  void anEmptyRowStaysEmpty() {
    RowTrace trace = RowTrace.of(Rows.of(HIDDEN, HIDDEN, HIDDEN), 2, Rescale.ALWAYS, 0);

    assertThat(trace.logSumExp()).isEqualTo(HIDDEN);
    assertThat(trace.steps()).extracting(Step::sumAfter).containsExactly(0.0, 0.0);
    assertThat(trace.steps()).extracting(Step::correction).containsExactly(1.0, 1.0);
    assertThat(RowTrace.of(Rows.of(), 1, Rescale.ALWAYS, 0).steps()).isEmpty();
  }

  @Test
  void keepsTheLargestKeysOfATile() {
    double[] scores = Rows.random(5, 40, 1);
    RowTrace trace = RowTrace.of(Rows.of(scores), 20, Rescale.ON_NEW_MAX, 0);

    List<Key> kept = trace.steps().get(1).largest();
    double[] sorted = Arrays.copyOfRange(scores, 20, 40);
    Arrays.sort(sorted);
    assertThat(kept).hasSize(8);
    for (int i = 0; i < kept.size(); i++) {
      assertThat(kept.get(i).score()).isEqualTo(sorted[19 - i]);
      assertThat(scores[kept.get(i).index()]).isEqualTo(kept.get(i).score());
    }
  }
}
