package dev.foldmax.spark;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.SoftmaxState;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/** The fold over columns, held against the state that it is a spelling of. */
class SoftmaxFoldTest {
  private static final double[] SPECIAL = {
    Double.NEGATIVE_INFINITY, Double.POSITIVE_INFINITY, Double.NaN, 0, -0.0, -1e308, 1e308, -745, 3
  };

  /** (m, l, o) as the code that Spark generates updates them. */
  private static final class Columns {
    private double m = SoftmaxFold.NO_ROW;
    private double l;
    private double o;

    void add(double score, double value) {
      double e = SoftmaxFold.exponential(m, score);
      double newM = SoftmaxFold.maximum(m, score, true);
      double newL = SoftmaxFold.sum(m, l, score, e);
      o = SoftmaxFold.weightedSum(m, l, o, score, e, value);
      l = newL;
      m = newM;
    }

    void merge(Columns other) {
      double newL = SoftmaxFold.mergedSum(m, l, l, other.m, other.l, other.l);
      o = SoftmaxFold.mergedSum(m, l, o, other.m, other.l, other.o);
      m = SoftmaxFold.mergedMaximum(m, other.m);
      l = newL;
    }
  }

  private static void check(Columns columns, SoftmaxState state) {
    double lse = SoftmaxFold.logSumExp(columns.m, columns.l);
    assertClose(lse, state.logSumExp());
    assertClose(SoftmaxFold.mean(columns.l, columns.o), state.output()[0]);
  }

  private static void assertClose(double actual, double expected) {
    if (Double.isNaN(expected) || Double.isInfinite(expected)) {
      assertThat(actual).isEqualTo(Double.valueOf(expected)); // NaN equals NaN
    } else {
      assertThat(Math.abs(actual - expected)).isLessThanOrEqualTo(1e-13 * (1 + Math.abs(expected)));
    }
  }

  @Test
  void everyThreeSpecialScoresFoldAndMergeAsTheStateDoes() {
    for (double a : SPECIAL) {
      for (double b : SPECIAL) {
        for (double c : SPECIAL) {
          double[] scores = {a, b, c};
          for (int cut = 0; cut <= 3; cut++) {
            Columns whole = new Columns();
            Columns rest = new Columns();
            SoftmaxState state = new SoftmaxState(1);
            SoftmaxState restState = new SoftmaxState(1);
            for (int i = 0; i < 3; i++) {
              // What a score of -inf weighs with 0 is not even finite.
              double value = scores[i] == Double.NEGATIVE_INFINITY ? Double.NaN : i + 1;
              (i < cut ? whole : rest).add(scores[i], value);
              (i < cut ? state : restState).add(scores[i], new double[] {value});
            }
            whole.merge(rest);
            state.merge(restState);
            check(whole, state);
            assertThat(whole.m).isNotNaN();
          }
        }
      }
    }
  }

  @Test
  void manyRowsFoldAsTheStateDoes() {
    SplittableRandom random = new SplittableRandom(5);
    for (int n = 1; n < 300; n += 7) {
      Columns columns = new Columns();
      SoftmaxState state = new SoftmaxState(1);
      for (int i = 0; i < n; i++) {
        double score = random.nextDouble(-50, 50);
        double value = random.nextDouble(-1, 1);
        columns.add(score, value);
        state.add(score, new double[] {value});
      }
      check(columns, state);
    }
  }

  @Test
  void aRowThatDoesNotCountLeavesNoTrace() {
    double m = SoftmaxFold.maximum(SoftmaxFold.NO_ROW, Double.NEGATIVE_INFINITY, false);

    assertThat(m).isNaN();
    assertThat(SoftmaxFold.maximum(m, Double.NEGATIVE_INFINITY, true))
        .isEqualTo(Double.NEGATIVE_INFINITY);
  }

  @Test
  void theExponentialIsWithinOneUlpOfMath() {
    SplittableRandom random = new SplittableRandom(6);
    double worst = 0;
    for (int i = 0; i < 200_000; i++) {
      double x = -Math.exp(random.nextDouble(-40, Math.log(800)));
      double exact = Math.exp(x);
      worst = Math.max(worst, Math.abs(Exponential.of(x) - exact) / Math.ulp(exact));
    }
    assertThat(worst).isBetween(0.5, 1.0);
    assertThat(Exponential.of(0)).isEqualTo(1);
    assertThat(Exponential.of(-0.0)).isEqualTo(1);
    assertThat(Exponential.of(Double.NEGATIVE_INFINITY)).isZero();
    assertThat(Exponential.of(Double.NaN)).isNaN();
  }
}
