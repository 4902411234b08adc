package dev.foldmax.benchmarks;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * All that a run measured.
 *
 * @param ceilings for each number of threads, the rate of each ceiling in its unit in each round
 * @param lines the lines, in the catalogue's order
 * @param firstCalls what fresh JVMs took
 */
record Measurements(
    Map<Integer, Map<Ceiling, List<Double>>> ceilings,
    List<Measurement> lines,
    List<FirstCall.Times> firstCalls) {
  /** The same with first calls. */
  Measurements with(List<FirstCall.Times> times) {
    return new Measurements(ceilings, lines, times);
  }

  /** The part of its ceiling that Foldmax reaches, or null if that was not measured. */
  @Nullable Ratio shareOfCeiling(Measurement measurement) {
    Line line = measurement.line();
    List<Double> ceiling = ceilings.getOrDefault(line.threads(), Map.of()).get(line.ceiling());
    List<Double> millis = measurement.millis().get(Contender.FOLDMAX);
    return ceiling == null || millis == null
        ? null
        : Ratio.of(millis.stream().map(line::rate).toList(), ceiling);
  }

  /** The line of a case on a number of threads, if it was measured. */
  Optional<Measurement> find(Case shape, int threads) {
    return lines.stream()
        .filter(m -> m.line().threads() == threads && m.line().shape().equals(shape))
        .findFirst();
  }

  /** Everybody else who was measured in some line, in order. */
  List<Contender> others() {
    return Stream.of(Contender.values())
        .filter(c -> c != Contender.FOLDMAX)
        .filter(c -> lines.stream().anyMatch(m -> m.millis().containsKey(c)))
        .toList();
  }
}
