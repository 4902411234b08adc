package dev.foldmax.cli.explain;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.util.SplittableRandom;

/** Makes rows to explain. */
final class Rows {
  static final double HIDDEN = Double.NEGATIVE_INFINITY;

  private Rows() {}

  /** Values from an array, (keys, dimension). */
  static Values values(double[][] values) {
    return new Values() {
      @Override
      public int dimension() {
        return values[0].length;
      }

      @Override
      public void read(int key, double[] value) {
        System.arraycopy(values[key], 0, value, 0, value.length);
      }
    };
  }

  /** A row of a softmax. */
  static Row of(double... scores) {
    try (Backend reference = Backend.reference()) {
      Tensor x = Tensor.of(scores, scores.length);
      return new Row(
          scores,
          rounded(scores),
          Values.NONE,
          HIDDEN,
          reference.softmax(x).toDoubleArray(),
          reference.logSumExp(x).at(0));
    }
  }

  /** A row of an attention whose oracle is the definition. */
  static Row of(double[] scores, double[][] values, double sink) {
    double max = sink;
    for (double score : scores) {
      max = Math.max(max, score);
    }
    double sum = sink == HIDDEN ? 0 : Math.exp(sink - max);
    double[] output = new double[values[0].length];
    for (int j = 0; j < scores.length; j++) {
      double p = scores[j] == HIDDEN ? 0 : Math.exp(scores[j] - max);
      sum += p;
      for (int d = 0; d < output.length; d++) {
        output[d] += p == 0 ? 0 : p * values[j][d];
      }
    }
    for (int d = 0; d < output.length; d++) {
      output[d] = sum == 0 ? 0 : output[d] / sum;
    }
    return new Row(
        scores,
        rounded(scores),
        values(values),
        sink,
        output,
        sum == 0 ? max : max + Math.log(sum));
  }

  private static float[] rounded(double[] scores) {
    return Tensor.of(scores, scores.length).to(DType.F32).toFloatArray();
  }

  /** Seeded numbers of the standard normal distribution, times a factor. */
  static double[] random(long seed, int n, double factor) {
    SplittableRandom random = new SplittableRandom(seed);
    double[] numbers = new double[n];
    for (int i = 0; i < n; i++) {
      numbers[i] = factor * random.nextGaussian();
    }
    return numbers;
  }

  /** The same as a matrix. */
  static double[][] matrix(long seed, int rows, int columns) {
    double[][] matrix = new double[rows][];
    for (int i = 0; i < rows; i++) {
      matrix[i] = random(seed + i, columns, 1);
    }
    return matrix;
  }
}
