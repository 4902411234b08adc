package dev.foldmax.benchmarks;

import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Collection;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.openjdk.jmh.results.BenchmarkResult;
import org.openjdk.jmh.results.IterationResult;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.ChainedOptionsBuilder;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;

/**
 * Measures lines in rounds: each round starts every benchmark once, in a JVM of its own, Foldmax
 * and the naive version of a line one after the other. So a machine that is slower for some minutes
 * is slower for both, and a JVM that compiled unluckily counts once.
 */
final class Rounds {
  private final Schedule schedule;
  private final PrintStream progress;

  Rounds(Schedule schedule, PrintStream progress) {
    this.schedule = schedule;
    this.progress = progress;
  }

  /** Measures the lines and, for their numbers of threads, the ceilings. */
  Measurements measure(List<Line> lines) throws RunnerException {
    List<Integer> threads = lines.stream().map(Line::threads).distinct().sorted().toList();
    Map<Integer, Map<Ceiling, List<Double>>> ceilings = new TreeMap<>();
    List<List<Double>> foldmax = lists(lines.size());
    List<List<Double>> naive = lists(lines.size());
    for (int round = 0; round < schedule.rounds(); round++) {
      String prefix = "round " + (round + 1) + "/" + schedule.rounds() + "  ";
      progress.println(prefix + "ceilings");
      for (int t : threads) {
        for (Ceiling ceiling : Ceiling.values()) {
          double rate = t * ceiling.work() / millis(ceiling, t) / 1e6;
          ceilings
              .computeIfAbsent(t, key -> new EnumMap<>(Ceiling.class))
              .computeIfAbsent(ceiling, key -> new ArrayList<>())
              .add(rate);
        }
      }
      for (int i = 0; i < lines.size(); i++) {
        Line line = lines.get(i);
        // Who comes first alternates too.
        if (round % 2 == 0) {
          foldmax.get(i).add(millis(line, "foldmax"));
          naive.get(i).add(millis(line, "naive"));
        } else {
          naive.get(i).add(millis(line, "naive"));
          foldmax.get(i).add(millis(line, "foldmax"));
        }
        progress.printf(
            "%s%d/%d  %s: %.3f ms, naive %.3f ms%n",
            prefix, i + 1, lines.size(), line, foldmax.get(i).getLast(), naive.get(i).getLast());
      }
    }
    List<Measurement> measured = new ArrayList<>();
    for (int i = 0; i < lines.size(); i++) {
      measured.add(new Measurement(lines.get(i), foldmax.get(i), naive.get(i)));
    }
    Map<Integer, Map<Ceiling, Double>> rates = new TreeMap<>();
    ceilings.forEach(
        (t, all) -> {
          Map<Ceiling, Double> medians = new EnumMap<>(Ceiling.class);
          all.forEach((ceiling, values) -> medians.put(ceiling, Median.of(values)));
          rates.put(t, medians);
        });
    return new Measurements(rates, measured);
  }

  private static List<List<Double>> lists(int n) {
    List<List<Double>> lists = new ArrayList<>();
    for (int i = 0; i < n; i++) {
      lists.add(new ArrayList<>());
    }
    return lists;
  }

  private double millis(Line line, String method) throws RunnerException {
    ChainedOptionsBuilder options = options(line.benchmark(), method);
    line.parameters().forEach(options::param);
    return run(options.param("threads", Integer.toString(line.threads())));
  }

  private double millis(Ceiling ceiling, int threads) throws RunnerException {
    return run(options(CeilingBenchmark.class, ceiling.method()).threads(threads));
  }

  private ChainedOptionsBuilder options(Class<?> benchmark, String method) {
    return new OptionsBuilder()
        .include("^" + Pattern.quote(benchmark.getName() + "." + method) + "$")
        .forks(1)
        .warmupIterations(schedule.warmups())
        .warmupTime(TimeValue.milliseconds(schedule.warmup().toMillis()))
        .measurementIterations(schedule.iterations())
        .measurementTime(TimeValue.milliseconds(schedule.iteration().toMillis()))
        .verbosity(VerboseMode.SILENT)
        .shouldFailOnError(true);
  }

  /** The median of the iterations' means. */
  private static double run(ChainedOptionsBuilder options) throws RunnerException {
    Collection<RunResult> results = new Runner(options.build()).run();
    List<Double> iterations = new ArrayList<>();
    for (RunResult result : results) {
      for (BenchmarkResult fork : result.getBenchmarkResults()) {
        for (IterationResult iteration : fork.getIterationResults()) {
          iterations.add(iteration.getPrimaryResult().getScore());
        }
      }
    }
    return Median.of(iterations);
  }
}
