package dev.foldmax.benchmarks;

import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.stream.IntStream;

/**
 * A ratio of two measurements.
 *
 * @param rounds that of each round
 */
record Ratio(List<Double> rounds) {
  Ratio {
    rounds = List.copyOf(rounds);
  }

  /** Round by round. */
  static Ratio of(List<Double> numerators, List<Double> denominators) {
    return new Ratio(
        IntStream.range(0, numerators.size())
            .mapToObj(i -> numerators.get(i) / denominators.get(i))
            .toList());
  }

  /** The same times a factor. */
  Ratio times(double factor) {
    return new Ratio(rounds.stream().map(ratio -> ratio * factor).toList());
  }

  /** The median of the rounds. */
  double median() {
    return Median.of(rounds);
  }

  /** The lowest and the highest round. */
  String range() {
    return String.format(
        Locale.ROOT, "%.2f to %.2f", Collections.min(rounds), Collections.max(rounds));
  }
}
