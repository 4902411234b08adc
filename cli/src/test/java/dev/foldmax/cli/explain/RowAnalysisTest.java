package dev.foldmax.cli.explain;

import static dev.foldmax.cli.explain.Rows.HIDDEN;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.DType;
import dev.foldmax.cli.explain.WithoutMaximum.Outcome;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Weights, errors and bits of single rows. */
class RowAnalysisTest {
  @Test
  void tellsRowsApart() {
    assertThat(Rows.of(1, HIDDEN).condition()).isEqualTo(Row.Condition.ORDINARY);
    assertThat(Rows.of(HIDDEN, HIDDEN).condition()).isEqualTo(Row.Condition.EMPTY);
    assertThat(Rows.of().condition()).isEqualTo(Row.Condition.EMPTY);
    assertThat(Rows.of(1, Double.NaN).condition()).isEqualTo(Row.Condition.NOT_A_NUMBER);
    assertThat(Rows.of(HIDDEN, Double.POSITIVE_INFINITY).condition())
        .isEqualTo(Row.Condition.NOT_A_NUMBER);
    assertThat(Rows.of(new double[] {1}, new double[][] {{1}}, Double.NaN).condition())
        .isEqualTo(Row.Condition.NOT_A_NUMBER);
  }

  @Test
  void refusesArraysThatDoNotFit() {
    assertThatIllegalArgumentException()
        .isThrownBy(
            () -> new Row(new double[2], new float[3], Values.NONE, HIDDEN, new double[2], 0))
        .withMessage("roundedScores, oracle: expected 2 and 2 numbers, got 3 and 2");
  }

  @Test
  void anEvenRowHasTheEntropyOfItsKeys() {
    Weights weights = Weights.of(Rows.of(3, 3, HIDDEN, 3, 3));

    assertThat(weights.entropy()).isEqualTo(Math.log(4), within(1e-12));
    assertThat(weights.perplexity()).isEqualTo(4, within(1e-12));
    assertThat(weights.covers()).containsExactly(2, 4, 4);
    assertThat(weights.largest()).extracting(Key::index).containsExactly(0, 1, 3, 4);
    assertThat(weights.largest()).extracting(Key::weight).containsOnly(0.25);
  }

  @Test
  void ranksKeysByWeight() {
    Weights weights = Weights.of(Rows.of(0, Math.log(8), HIDDEN, 0));

    assertThat(weights.largest().getFirst().index()).isEqualTo(1);
    assertThat(weights.largest().getFirst().weight()).isEqualTo(0.8, within(1e-12));
    assertThat(weights.covers()).containsExactly(1, 2, 3);
    assertThat(weights.sink()).isZero();
  }

  @Test
  void aHeavySinkLeavesLittle() {
    Weights weights =
        Weights.of(Rows.of(new double[] {0, 0}, new double[][] {{1}, {2}}, Math.log(8)));

    assertThat(weights.sink()).isEqualTo(0.8, within(1e-12));
    assertThat(weights.covers()).containsExactly(-1, -1, -1);
    assertThat(weights.entropy())
        .isEqualTo(-0.8 * Math.log(0.8) - 0.2 * Math.log(0.1), within(1e-12));
  }

  @Test
  void findsTheKeysThatOverflow() {
    Row row = Rows.of(10, 12, 90, HIDDEN, -1);

    WithoutMaximum f32 = WithoutMaximum.of(row, Format.F32);
    WithoutMaximum f16 = WithoutMaximum.of(row, Format.F16);

    assertThat(f32.outcome()).isEqualTo(Outcome.OVERFLOWS);
    assertThat(f32.firstOverflowing()).extracting(Key::index).containsExactly(2);
    assertThat(f16.firstOverflowing()).extracting(Key::index).containsExactly(1, 2);
    assertThat(f16.overflowing()).isEqualTo(2);
    assertThat(f16.sum()).isInfinite();
    assertThat(f16.errors().largest()).isNaN();
  }

  @Test
  void aSumMayOverflowWhereNoExponentialDoes() {
    double[] scores = new double[20];
    Arrays.fill(scores, 88);

    WithoutMaximum f32 = WithoutMaximum.of(Rows.of(scores), Format.F32);

    assertThat(f32.overflowing()).isZero();
    assertThat(f32.outcome()).isEqualTo(Outcome.OVERFLOWS);
  }

  @Test
  void findsTheKeysThatVanish() {
    Row row = Rows.of(-20, -17.5, -12, HIDDEN);

    WithoutMaximum f16 = WithoutMaximum.of(row, Format.F16);

    assertThat(f16.vanishing()).isEqualTo(2);
    assertThat(f16.heaviestVanishing().index()).isEqualTo(1);
    assertThat(f16.subnormal()).isEqualTo(1);
    assertThat(f16.outcome()).isEqualTo(Outcome.LOSES_KEYS);
    assertThat(f16.lostWeight())
        .isEqualTo(
            1 - Math.exp(-12) / (Math.exp(-20) + Math.exp(-17.5) + Math.exp(-12)), within(1e-9));
    assertThat(WithoutMaximum.of(row, Format.F32).outcome()).isEqualTo(Outcome.SURVIVES);
    WithoutMaximum nothing = WithoutMaximum.of(Rows.of(-110, -120), Format.F32);
    assertThat(nothing.outcome()).isEqualTo(Outcome.VANISHES);
    assertThat(nothing.errors().largest()).isNaN();
  }

  @Test
  void roundsToEachFormat() {
    for (double x : Rows.random(1, 1000, 100)) {
      assertThat(Format.F32.round(x)).isEqualTo((float) x);
      assertThat(Format.F16.round(x)).isEqualTo(Float.float16ToFloat(DType.doubleToF16(x)));
      assertThat(Format.BF16.round(x)).isEqualTo(x, within(Math.abs(x) * 0x1p-8));
    }
    assertThat(Format.BF16.round(1 + 0x1p-9)).isEqualTo(1);
  }

  @Test
  void errorsAreThoseOfTheFormats() {
    double[] scores = Rows.random(7, 300, 2);
    double[][] values = Rows.matrix(8, 300, 16);
    scores[40] = HIDDEN;

    List<Precision> precisions = Precision.of(Rows.of(scores, values, HIDDEN), 32);

    assertThat(precisions).extracting(Precision::name).hasSize(3);
    double f32 = precisions.get(0).errors().largest();
    double bf16 = precisions.get(1).errors().largest();
    double f16 = precisions.get(2).errors().largest();
    assertThat(f32).isPositive().isLessThan(2e-6);
    // 8 bits of precision, and 11: means of values of size 1 are off by a part of half an ulp.
    assertThat(bf16).isBetween(1e-5, 0x1p-8);
    assertThat(f16).isBetween(1e-6, 0x1p-11);
    assertThat(precisions.get(1).errors().logSumExp())
        .as("the sum is that of the weights before rounding")
        .isEqualTo(precisions.get(0).errors().logSumExp());
  }

  @Test
  void anErrorBesideAnInfinityIsNone() {
    Row row = Rows.of(1, 2);

    assertThat(Errors.of(row, i -> Double.NaN, 0).largest()).isNaN();
    assertThat(Errors.of(row, i -> i == 0 ? Double.POSITIVE_INFINITY : 0, 0).largest()).isNaN();
    assertThat(Errors.of(row, row::oracle, row.oracleLse())).isEqualTo(new Errors(0, 0, 0));
  }

  @Test
  void partsAgreeButForRounding() {
    double[] scores = Rows.random(9, 257, 3);
    Row row = Rows.of(scores, Rows.matrix(10, 257, 24), 1.0);

    Comparison same = Comparison.ofParts(row, 16, 3, 3);
    Comparison other = Comparison.ofParts(row, 16, 1, 5);

    assertThat(same.isSame()).isTrue();
    assertThat(same.numbers()).isEqualTo(25);
    assertThat(other.isSame()).isFalse();
    assertThat(other.largest()).isPositive().isLessThan(1e-5);
    assertThat(FloatFold.of(row, 16, Format.F32, 5).errors().largest()).isLessThan(1e-5);
    assertThat(FloatFold.of(row, 16, Format.F32, 40).errors().largest())
        .as("more parts than tiles")
        .isLessThan(1e-5);
  }

  @Test
  void comparesBits() {
    Comparison zeros =
        Comparison.of("a", new double[] {0.0, 1, 2}, "b", new double[] {-0.0, 1, 2.5});

    assertThat(zeros.differing()).isEqualTo(2);
    assertThat(zeros.largest()).isEqualTo(0.5);
    assertThat(Comparison.of("a", new float[] {Float.NaN}, "b", new float[] {Float.NaN}).isSame())
        .isTrue();
  }
}
