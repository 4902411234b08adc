package dev.foldmax.benchmarks;

import java.util.List;
import java.util.stream.IntStream;

/**
 * What a line took.
 *
 * @param line what was measured
 * @param foldmaxMillis milliseconds of a call, of each round
 * @param naiveMillis likewise
 */
record Measurement(Line line, List<Double> foldmaxMillis, List<Double> naiveMillis) {
  Measurement {
    foldmaxMillis = List.copyOf(foldmaxMillis);
    naiveMillis = List.copyOf(naiveMillis);
  }

  /** Milliseconds of a call of Foldmax: the median of the rounds. */
  double foldmax() {
    return Median.of(foldmaxMillis);
  }

  /** Milliseconds of a call of the naive version: the median of the rounds. */
  double naive() {
    return Median.of(naiveMillis);
  }

  /** How many times as fast as the naive version, of each round. */
  List<Double> speedups() {
    return IntStream.range(0, foldmaxMillis.size())
        .mapToObj(i -> naiveMillis.get(i) / foldmaxMillis.get(i))
        .toList();
  }

  /**
   * How many times as fast as the naive version: the median of the rounds' ratios, because the two
   * of a round follow each other and a machine drifts.
   */
  double speedup() {
    return Median.of(speedups());
  }
}
