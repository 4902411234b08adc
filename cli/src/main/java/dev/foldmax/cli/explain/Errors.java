package dev.foldmax.cli.explain;

import java.util.function.IntToDoubleFunction;

/**
 * How far a result is from the reference's, over all of its numbers: components of the output, or
 * probabilities of a row without values.
 *
 * @param largest the largest absolute error; NaN where a number is finite on one side only
 * @param rootMeanSquare of the absolute errors
 * @param logSumExp the absolute error of the logsumexp
 */
public record Errors(double largest, double rootMeanSquare, double logSumExp) {
  /**
   * Compares a result.
   *
   * @param row with the reference's
   * @param result the number at an index
   * @param logSumExp the result's
   */
  public static Errors of(Row row, IntToDoubleFunction result, double logSumExp) {
    double largest = 0;
    double squares = 0;
    for (int i = 0; i < row.results(); i++) {
      double error = difference(result.applyAsDouble(i), row.oracle(i));
      largest = Math.max(largest, error); // keeps a NaN
      squares += error * error;
    }
    return new Errors(
        largest,
        row.results() == 0 ? 0 : Math.sqrt(squares / row.results()),
        difference(logSumExp, row.oracleLse()));
  }

  /** 0 for equal infinities and for two NaNs. */
  private static double difference(double one, double other) {
    if (one == other || (Double.isNaN(one) && Double.isNaN(other))) {
      return 0;
    }
    double difference = Math.abs(one - other);
    return Double.isFinite(difference) ? difference : Double.NaN;
  }
}
