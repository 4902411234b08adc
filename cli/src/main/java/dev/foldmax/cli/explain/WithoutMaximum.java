package dev.foldmax.cli.explain;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What would have become of a row if nothing were subtracted before the exponential: exp(score)
 * held in a format, sums and products in float32.
 *
 * @param format of the exponentials
 * @param outcome in one word
 * @param overflowing how many exponentials are infinite
 * @param vanishing how many are 0 although their keys are visible
 * @param subnormal how many have lost digits for being small
 * @param lostWeight the weight that the vanishing keys should have had, of all
 * @param sum of the exponentials
 * @param firstOverflowing the first keys whose exponentials are infinite
 * @param heaviestVanishing the vanishing key with the most weight; null without one
 * @param errors of the result
 */
public record WithoutMaximum(
    Format format,
    Outcome outcome,
    int overflowing,
    int vanishing,
    int subnormal,
    double lostWeight,
    double sum,
    List<Key> firstOverflowing,
    @Nullable Key heaviestVanishing,
    Errors errors) {

  /** What becomes of the result. */
  public enum Outcome {
    /**
     * An exponential, or their sum, is infinite: the result is NaN, or 0 where it should not be.
     */
    OVERFLOWS,
    /** All exponentials are 0, and so is the sum: 0 / 0. */
    VANISHES,
    /** Keys of noticeable weight are lost. */
    LOSES_KEYS,
    /** The result comes out all the same. */
    SURVIVES
  }

  private static final int SHOWN = 5;

  /** Weight that is lost unnoticed. */
  private static final double NOTICEABLE = 1e-3;

  /**
   * Computes a row without its maximum.
   *
   * @param row of which no score is NaN or +inf, with a visible key
   * @param format of the exponentials
   */
  public static WithoutMaximum of(Row row, Format format) {
    List<Key> overflows = new ArrayList<>();
    Key heaviest = null;
    int overflowing = 0;
    int vanishing = 0;
    int subnormal = 0;
    double lost = 0;
    float sum = (float) format.round(Math.exp(row.sink()));
    double[] value = new double[row.values().dimension()];
    float[] output = new float[value.length];
    for (int j = 0; j < row.keys(); j++) {
      double score = row.score(j);
      if (score == Double.NEGATIVE_INFINITY) {
        continue;
      }
      float e = (float) format.round(Math.exp(score));
      double weight = Math.exp(score - row.oracleLse());
      if (Float.isInfinite(e)) {
        overflowing++;
        if (overflows.size() < SHOWN) {
          overflows.add(new Key(j, score, weight));
        }
      } else if (e == 0) {
        vanishing++;
        lost += weight;
        if (heaviest == null || weight > heaviest.weight()) {
          heaviest = new Key(j, score, weight);
        }
      } else if (format.isSubnormal(e)) {
        subnormal++;
      }
      sum += e;
      row.values().read(j, value);
      for (int d = 0; d < value.length; d++) {
        output[d] = Math.fma(e, (float) value[d], output[d]);
      }
    }
    float total = sum;
    Errors errors =
        Errors.of(
            row,
            i ->
                (value.length > 0 ? output[i] : (float) format.round(Math.exp(row.score(i))))
                    / total,
            (float) Math.log(total));
    Outcome outcome;
    if (Float.isInfinite(sum)) {
      outcome = Outcome.OVERFLOWS;
    } else if (sum == 0) {
      outcome = Outcome.VANISHES;
    } else {
      outcome = lost > NOTICEABLE ? Outcome.LOSES_KEYS : Outcome.SURVIVES;
    }
    return new WithoutMaximum(
        format, outcome, overflowing, vanishing, subnormal, lost, sum, overflows, heaviest, errors);
  }
}
