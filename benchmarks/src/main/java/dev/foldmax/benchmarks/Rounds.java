package dev.foldmax.benchmarks;

import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.function.Function;
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
 * and the others of a line one after the other. So a machine that is slower for some minutes is
 * slower for all, a JVM that compiled unluckily counts once, and nobody's waiting threads spin on a
 * core that another's need.
 */
final class Rounds {
  /** The system property that keeps native code to AVX2, as {@code -XX:UseAVX=2} does for Java. */
  static final String AVX2 = "foldmax.benchmarks.avx2";

  private final Schedule schedule;
  private final Function<Line, List<Contender>> contenders;
  private final List<String> options;
  private final PrintStream progress;

  /**
   * A measurement to be started.
   *
   * @param contenders who is measured in a line; those who don't support it are left out
   * @param options of the JVMs, beside those of the benchmarks
   */
  Rounds(
      Schedule schedule,
      Function<Line, List<Contender>> contenders,
      List<String> options,
      PrintStream progress) {
    this.schedule = schedule;
    this.contenders = contenders;
    this.options = options;
    this.progress = progress;
  }

  /** The options that keep JVMs and native code to AVX2 where there is more. */
  static List<String> avx2() {
    return List.of("-XX:UseAVX=2", "-D" + AVX2 + "=true");
  }

  /** Measures the lines and, for their numbers of threads, the ceilings. */
  Measurements measure(List<Line> lines) throws RunnerException {
    List<Integer> threads = lines.stream().map(Line::threads).distinct().sorted().toList();
    Map<Integer, Map<Ceiling, List<Double>>> ceilings = new TreeMap<>();
    List<Map<Contender, List<Double>>> millis = new ArrayList<>();
    lines.forEach(line -> millis.add(new EnumMap<>(Contender.class)));
    for (int round = 0; round < schedule.rounds(); round++) {
      String prefix = "round " + (round + 1) + "/" + schedule.rounds() + "  ";
      progress.println(prefix + "ceilings");
      for (int t : threads) {
        for (Ceiling ceiling : ceilings(lines, t)) {
          double rate = t * ceiling.work() / millis(ceiling, t) / 1e6;
          ceilings
              .computeIfAbsent(t, key -> new EnumMap<>(Ceiling.class))
              .computeIfAbsent(ceiling, key -> new ArrayList<>())
              .add(rate);
        }
      }
      for (int i = 0; i < lines.size(); i++) {
        Line line = lines.get(i);
        StringJoiner shown = new StringJoiner(", ");
        for (Contender contender : order(line, round)) {
          double taken = millis(line, contender);
          millis.get(i).computeIfAbsent(contender, key -> new ArrayList<>()).add(taken);
          shown.add("%s %.3f ms".formatted(contender.label(), taken));
        }
        progress.printf("%s%d/%d  %s: %s%n", prefix, i + 1, lines.size(), line, shown);
      }
    }
    List<Measurement> measured = new ArrayList<>();
    for (int i = 0; i < lines.size(); i++) {
      measured.add(new Measurement(lines.get(i), millis.get(i)));
    }
    return new Measurements(ceilings, measured, List.of());
  }

  /** What bounds the lines of a number of threads; exponentials bound those in cache that copy. */
  private static Set<Ceiling> ceilings(List<Line> lines, int threads) {
    Set<Ceiling> bounds = EnumSet.noneOf(Ceiling.class);
    for (Line line : lines) {
      if (line.threads() == threads) {
        bounds.add(line.ceiling());
      }
    }
    if (bounds.contains(Ceiling.COPY)) {
      bounds.add(Ceiling.EXP2);
    }
    return bounds;
  }

  /** Who computes a line; each round somebody else comes first. */
  private List<Contender> order(Line line, int round) {
    List<Contender> order =
        new ArrayList<>(
            contenders.apply(line).stream().filter(c -> c.supports(line.shape())).toList());
    Collections.rotate(order, -round);
    return order;
  }

  private double millis(Line line, Contender contender) throws RunnerException {
    ChainedOptionsBuilder builder = options(line.shape().benchmark(), "run");
    line.shape().parameters().forEach(builder::param);
    builder.param("threads", Integer.toString(line.threads())).param("contender", contender.name());
    if (contender.isNative()) {
      builder.warmupIterations(1);
    }
    return run(builder);
  }

  private double millis(Ceiling ceiling, int threads) throws RunnerException {
    return run(
        options(CeilingBenchmark.class, ceiling.method()).warmupIterations(1).threads(threads));
  }

  private ChainedOptionsBuilder options(Class<?> benchmark, String method) {
    return new OptionsBuilder()
        .include("^" + Pattern.quote(benchmark.getName() + "." + method) + "$")
        .forks(1)
        .jvmArgsAppend(options.toArray(String[]::new))
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
