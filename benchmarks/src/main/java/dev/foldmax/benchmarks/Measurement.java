package dev.foldmax.benchmarks;

import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What a line took.
 *
 * @param line what was measured
 * @param millis milliseconds of a call in each round, of everybody who was measured
 */
record Measurement(Line line, Map<Contender, List<Double>> millis) {
  Measurement {
    millis = Collections.unmodifiableMap(new EnumMap<>(millis));
  }

  /** The median of the rounds in milliseconds, or null of somebody who was not measured. */
  @Nullable Double median(Contender contender) {
    List<Double> rounds = millis.get(contender);
    return rounds == null ? null : Median.of(rounds);
  }

  /**
   * How many times as fast as somebody else Foldmax is, or null if one was not measured. The two of
   * a round follow each other, so that a machine's drift meets both.
   */
  @Nullable Ratio over(Contender other) {
    List<Double> ours = millis.get(Contender.FOLDMAX);
    List<Double> theirs = millis.get(other);
    return ours == null || theirs == null ? null : Ratio.of(theirs, ours);
  }
}
