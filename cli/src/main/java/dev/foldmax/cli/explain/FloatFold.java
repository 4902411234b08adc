package dev.foldmax.cli.explain;

/**
 * The fold as kernels do it: scores, weights, sum and output in float32, one tile after the other.
 * The weights that multiply values can be rounded to 16 bits, as matrix units want them; the sum is
 * that of the weights before this rounding, as in FlashAttention. The keys can be cut into parts
 * that fold on their own and merge, first to last.
 */
final class FloatFold {
  private final Row row;
  private final Format weights;
  private final double[] value;
  private float max = Float.NEGATIVE_INFINITY;
  private float sum;
  private final float[] output;

  private FloatFold(Row row, Format weights) {
    this.row = row;
    this.weights = weights;
    this.value = new double[row.values().dimension()];
    this.output = new float[value.length];
  }

  /**
   * Folds a row of which no score is NaN or +inf.
   *
   * @param tile keys of a tile
   * @param weights the format of the weights that multiply values
   * @param parts into how many parts the tiles are cut, as evenly as they go
   */
  static FloatFold of(Row row, int tile, Format weights, int parts) {
    int tiles = Math.ceilDiv(row.keys(), tile);
    FloatFold whole = new FloatFold(row, weights);
    for (int part = 0; part < parts; part++) {
      FloatFold fold = new FloatFold(row, weights);
      int from = (int) ((long) tiles * part / parts);
      int to = (int) ((long) tiles * (part + 1) / parts);
      for (int t = from; t < to; t++) {
        fold.addTile(t * tile, Math.min((t + 1) * tile, row.keys()));
      }
      whole.merge(fold);
    }
    if (row.sink() != Double.NEGATIVE_INFINITY) {
      whole.raise((float) row.sink());
      whole.sum += exp((float) row.sink() - whole.max);
    }
    return whole;
  }

  private void addTile(int begin, int end) {
    float tileMax = Float.NEGATIVE_INFINITY;
    for (int j = begin; j < end; j++) {
      tileMax = Math.max(tileMax, row.roundedScore(j));
    }
    raise(tileMax);
    float tileSum = 0;
    float[] tileValues = new float[output.length];
    for (int j = begin; j < end; j++) {
      float score = row.roundedScore(j);
      if (score == Float.NEGATIVE_INFINITY) {
        continue;
      }
      float p = exp(score - max);
      tileSum += p;
      float rounded = (float) weights.round(p);
      row.values().read(j, value);
      for (int d = 0; d < output.length; d++) {
        tileValues[d] = Math.fma(rounded, (float) value[d], tileValues[d]);
      }
    }
    sum += tileSum;
    for (int d = 0; d < output.length; d++) {
      output[d] += tileValues[d];
    }
  }

  private void raise(float candidate) {
    if (candidate > max) {
      correct(exp(max - candidate));
      max = candidate;
    }
  }

  private void correct(float c) {
    sum *= c;
    for (int d = 0; d < output.length; d++) {
      output[d] *= c;
    }
  }

  private void merge(FloatFold other) {
    if (other.sum == 0) {
      return;
    }
    raise(other.max);
    float c = exp(other.max - max);
    sum += other.sum * c;
    for (int d = 0; d < output.length; d++) {
      output[d] += other.output[d] * c;
    }
  }

  private static float exp(float x) {
    return (float) Math.exp(x);
  }

  /** A component of the output; without values a probability. */
  double result(int index) {
    if (sum == 0) {
      return 0;
    }
    if (output.length > 0) {
      return output[index] / sum;
    }
    return (float) weights.round(exp(row.roundedScore(index) - max)) / sum;
  }

  /** The logsumexp. */
  double logSumExp() {
    return sum == 0 ? Float.NEGATIVE_INFINITY : max + (float) Math.log(sum);
  }

  /** All results and the logsumexp, to be compared bit by bit. */
  float[] numbers() {
    float[] numbers = new float[row.results() + 1];
    for (int i = 0; i < row.results(); i++) {
      numbers[i] = (float) result(i);
    }
    numbers[row.results()] = (float) logSumExp();
    return numbers;
  }

  /** How far it is from the reference. */
  Errors errors() {
    return Errors.of(row, this::result, logSumExp());
  }
}
