package dev.foldmax.cli.explain;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;

/**
 * How a row spreads its weight.
 *
 * @param entropy of the weights, the sink's included, in nats
 * @param sink the sink's weight, 0 without one
 * @param largest the keys with the most weight, largest first
 * @param covers for each of {@link #SHARES} the fewest keys that together have it; -1 where all
 *     keys together do not, beside a heavy sink
 */
public record Weights(double entropy, double sink, List<Key> largest, List<Integer> covers) {
  /** The shares of weight that {@link #covers} counts keys for. */
  public static final List<Double> SHARES = List.of(0.5, 0.9, 0.99);

  private static final int LARGEST = 12;

  /**
   * Weighs the keys of a row.
   *
   * @param row of which no score is NaN or +inf, with a visible key
   */
  public static Weights of(Row row) {
    double max = row.sink();
    for (int j = 0; j < row.keys(); j++) {
      max = Math.max(max, row.score(j));
    }
    double[] weights = new double[row.keys()];
    double sum = Math.exp(row.sink() - max);
    for (int j = 0; j < weights.length; j++) {
      weights[j] = Math.exp(row.score(j) - max);
      sum += weights[j];
    }
    double sink = Math.exp(row.sink() - max) / sum;
    double entropy = surprise(sink);
    for (int j = 0; j < weights.length; j++) {
      weights[j] /= sum;
      entropy += surprise(weights[j]);
    }
    return new Weights(entropy, sink, largest(row, weights), covers(weights));
  }

  private static double surprise(double weight) {
    return weight == 0 ? 0 : -weight * Math.log(weight);
  }

  private static List<Key> largest(Row row, double[] weights) {
    return IntStream.range(0, weights.length)
        .filter(j -> row.score(j) != Double.NEGATIVE_INFINITY)
        .boxed()
        .sorted(Comparator.comparingDouble((Integer j) -> row.score(j)).reversed())
        .limit(LARGEST)
        .map(j -> new Key(j, row.score(j), weights[j]))
        .toList();
  }

  private static List<Integer> covers(double[] weights) {
    double[] sorted = weights.clone();
    Arrays.sort(sorted);
    List<Integer> covers = new ArrayList<>();
    double covered = 0;
    int keys = 0;
    for (double share : SHARES) {
      while (covered < share && keys < sorted.length && sorted[sorted.length - 1 - keys] > 0) {
        covered += sorted[sorted.length - 1 - keys];
        keys++;
      }
      covers.add(covered < share ? -1 : keys);
    }
    return covers;
  }

  /** Over how many keys an even spread would have this entropy. */
  public double perplexity() {
    return Math.exp(entropy);
  }
}
