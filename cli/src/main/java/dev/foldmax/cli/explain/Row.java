package dev.foldmax.cli.explain;

/**
 * One row to explain: its scores and values, and what others make of it. Immutable by agreement:
 * the arrays are shared, not copied.
 */
public final class Row {
  private final double[] scores;
  private final float[] roundedScores;
  private final Values values;
  private final double sink;
  private final double[] oracle;
  private final double oracleLse;

  /**
   * A row.
   *
   * @param scores natural, in float64, -inf where a key is hidden
   * @param roundedScores the same as a kernel computes them in float32
   * @param values one for each score
   * @param sink the score of one more key, whose value is 0; -inf for none
   * @param oracle the output of the reference backend; without values the probabilities
   * @param oracleLse the logsumexp of the reference backend
   */
  public Row(
      double[] scores,
      float[] roundedScores,
      Values values,
      double sink,
      double[] oracle,
      double oracleLse) {
    int numbers = values.dimension() == 0 ? scores.length : values.dimension();
    if (roundedScores.length != scores.length || oracle.length != numbers) {
      throw new IllegalArgumentException(
          "roundedScores, oracle: expected "
              + scores.length
              + " and "
              + numbers
              + " numbers, got "
              + roundedScores.length
              + " and "
              + oracle.length);
    }
    this.scores = scores;
    this.roundedScores = roundedScores;
    this.values = values;
    this.sink = sink;
    this.oracle = oracle;
    this.oracleLse = oracleLse;
  }

  /** What can be said of a row. */
  public enum Condition {
    /** Some keys are visible and all their scores are finite: there is a fold to look at. */
    ORDINARY,
    /** No key is visible: the output is 0. */
    EMPTY,
    /** The score of a visible key, or a sink, is NaN or +inf: the output is NaN. */
    NOT_A_NUMBER
  }

  /** What can be said of this row. */
  public Condition condition() {
    if (isBad(sink)) {
      return Condition.NOT_A_NUMBER;
    }
    boolean visible = false;
    for (double score : scores) {
      if (isBad(score)) {
        return Condition.NOT_A_NUMBER;
      }
      visible |= score != Double.NEGATIVE_INFINITY;
    }
    return visible ? Condition.ORDINARY : Condition.EMPTY;
  }

  /** Whether a score makes its whole row NaN. */
  static boolean isBad(double score) {
    return Double.isNaN(score) || score == Double.POSITIVE_INFINITY;
  }

  /** The number of keys, hidden ones included. */
  public int keys() {
    return scores.length;
  }

  /** How many keys have a score above -inf. */
  public int visibleKeys() {
    int visible = 0;
    for (double score : scores) {
      visible += score == Double.NEGATIVE_INFINITY ? 0 : 1;
    }
    return visible;
  }

  /** The natural score of a key, -inf where it is hidden. */
  public double score(int key) {
    return scores[key];
  }

  /** The score of a key as a kernel computes it in float32. */
  public float roundedScore(int key) {
    return roundedScores[key];
  }

  /** The values. */
  public Values values() {
    return values;
  }

  /** The score of the sink, -inf for none. */
  public double sink() {
    return sink;
  }

  /** How many numbers the result has: components of the output, or probabilities. */
  public int results() {
    return oracle.length;
  }

  /** A component of the reference's output; without values a probability. */
  public double oracle(int index) {
    return oracle[index];
  }

  /** The reference's logsumexp. */
  public double oracleLse() {
    return oracleLse;
  }
}
