package dev.foldmax.cli;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import dev.foldmax.cli.explain.Comparison;
import dev.foldmax.cli.explain.Row;
import dev.foldmax.cli.explain.Values;
import dev.foldmax.spi.Rows;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The rows of a tensor, along its last axis, whose softmax is explained. */
final class ExplainedTensor implements ExplainedRows {
  private final Tensor x;

  /**
   * Rows.
   *
   * @param x floating, with at least one dimension
   */
  ExplainedTensor(Tensor x) {
    this.x = x;
    if (x.shape(-1) > Integer.MAX_VALUE - 8) {
      throw new Failure("a row of " + x.shape(-1) + " elements is too long to explain");
    }
  }

  @Override
  public String noun() {
    return "row";
  }

  @Override
  public String keyNoun() {
    return "element";
  }

  @Override
  public long rows() {
    return Rows.count(x);
  }

  @Override
  public int keys() {
    return (int) x.shape(-1);
  }

  @Override
  public int dimension() {
    return 0;
  }

  @Override
  public boolean isFloat64() {
    return x.dtype() == DType.F64;
  }

  @Override
  public double scoreOperations() {
    return keys();
  }

  @Override
  public double[] scores(Backend cpu, long row) {
    double[] scores = new double[keys()];
    long offset = Rows.offset(x, row);
    for (int i = 0; i < scores.length; i++) {
      scores[i] = x.at(offset + i * x.stride(-1));
    }
    return scores;
  }

  @Override
  public Row row(Backend cpu, long row) {
    double[] scores = scores(cpu, row);
    float[] rounded = new float[scores.length];
    for (int i = 0; i < rounded.length; i++) {
      rounded[i] = (float) scores[i];
    }
    try (Backend reference = Backend.reference()) {
      Tensor wide = Tensor.of(scores, scores.length);
      return new Row(
          scores,
          rounded,
          Values.NONE,
          Double.NEGATIVE_INFINITY,
          reference.softmax(wide).toDoubleArray(),
          reference.logSumExp(wide).at(0));
    }
  }

  @Override
  public double[] compute(Backend backend, long row) {
    Tensor one = Tensor.allocate(x.dtype(), keys());
    long offset = Rows.offset(x, row);
    for (int i = 0; i < keys(); i++) {
      one.setAt(i, x.at(offset + i * x.stride(-1)));
    }
    Tensor probabilities = Tensor.allocate(isFloat64() ? DType.F64 : DType.F32, one.shape());
    backend.softmax(one, probabilities);
    double[] numbers = Arrays.copyOf(probabilities.toDoubleArray(), keys() + 1);
    numbers[keys()] = backend.logSumExp(one).at(0);
    return numbers;
  }

  @Override
  public @Nullable Comparison amongOthers(Backend cpu, long row) {
    return null; // a verb on rows has no call that sees several of them at once
  }

  @Override
  public List<String> trouble(Row row) {
    return badScores(keyNoun(), row);
  }

  /** What makes a row NaN. */
  static List<String> badScores(String noun, Row row) {
    List<String> sentences = new ArrayList<>();
    int bad = 0;
    for (int j = 0; j < row.keys(); j++) {
      double score = row.score(j);
      if (Double.isNaN(score) || score == Double.POSITIVE_INFINITY) {
        bad++;
        if (bad == 1) {
          sentences.add(
              "The score of " + noun + " " + j + " is " + score + ": the whole row is NaN.");
        }
      }
    }
    if (bad > 1) {
      sentences.add(bad + " scores of this row are NaN or +inf; this is the first.");
    }
    if (Double.isNaN(row.sink()) || row.sink() == Double.POSITIVE_INFINITY) {
      sentences.add("The sink is " + row.sink() + ": the whole row is NaN.");
    }
    return sentences;
  }
}
