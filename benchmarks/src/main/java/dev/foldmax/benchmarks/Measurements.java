package dev.foldmax.benchmarks;

import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * All that a run measured.
 *
 * @param ceilings for each number of threads, the rate of each ceiling in its unit
 * @param lines the lines, in the catalogue's order
 */
record Measurements(Map<Integer, Map<Ceiling, Double>> ceilings, List<Measurement> lines) {
  /** The part of its ceiling that Foldmax reaches, or null if that was not measured. */
  @Nullable Double shareOfCeiling(Measurement measurement) {
    Line line = measurement.line();
    Double rate = ceilings.getOrDefault(line.threads(), Map.of()).get(line.ceiling());
    return rate == null ? null : line.rate(measurement.foldmax()) / rate;
  }
}
