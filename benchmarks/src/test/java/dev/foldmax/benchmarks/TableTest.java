package dev.foldmax.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.DType;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.LocalDate;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.openjdk.jmh.runner.RunnerException;

class TableTest {
  private static final Line WON = line("Prefill", "H 8 L 512", 1, Ceiling.FMA_F32, 80e6);
  private static final Line LOST = line("Rows", "softmax 3 x 5", 2, Ceiling.COPY, 3e6);

  private static final Measurements MADE_UP =
      new Measurements(
          Map.of(1, Map.of(Ceiling.FMA_F32, 100.0), 2, Map.of(Ceiling.COPY, 12.0)),
          List.of(
              new Measurement(WON, List.of(1.0, 2.0, 1.0), List.of(4.0, 6.0, 6.0)),
              new Measurement(LOST, List.of(0.5), List.of(0.25))));

  private static final Run RUN =
      new Run(
          new Machine("Some CPU", 2, "Vector API, 256-bit vectors", "JDK 25", "Linux"),
          LocalDate.of(2026, 1, 2),
          "--out docs",
          Schedule.FULL);

  private static Line line(String section, String name, int threads, Ceiling ceiling, double work) {
    return new Line(section, name, threads, AttendBenchmark.class, Map.of(), work, ceiling);
  }

  @Test
  void pageShowsMediansRatesSharesAndRatios() {
    String page = MarkdownReport.write(RUN, MADE_UP);

    // 80 Mflop in 1 ms are 80 GFLOP/s of 100; the rounds' ratios are 4, 3 and 6.
    assertThat(page)
        .contains(
            "| H 8 L 512 | 1 | 1.000 | 6.000 | 80.0 GFLOP/s | 80 % | 13.3 | 4.00 | 3.00 to 6.00 |")
        .contains("| softmax 3 x 5 | 2 | 0.500 | 0.250 | 6.0 GB/s | 50 % | 12.0 | 0.50 |")
        .contains("process-classes -Dbenchmarks.args='--out docs'")
        .contains("Some CPU", "2026-01-02")
        .doesNotContain("Fewer rounds");
  }

  @Test
  void pageListsWhereNaiveIsFaster() {
    String page = MarkdownReport.write(RUN, MADE_UP);

    assertThat(page)
        .contains("- Rows, softmax 3 x 5, threads 2: 0.50 times naive (0.50 to 0.50).")
        .doesNotContain("- Prefill, H 8 L 512");
  }

  @Test
  void pageOfAQuickRunSaysSo() {
    Run quick = new Run(RUN.machine(), RUN.date(), "--quick", Schedule.QUICK);

    assertThat(MarkdownReport.write(quick, MADE_UP)).contains("Fewer rounds");
  }

  @Test
  void jsonHoldsEveryRound() {
    assertThat(JsonReport.write(RUN, MADE_UP))
        .contains("\"foldmaxMillis\":[1.0,2.0,1.0]")
        .contains("\"timesNaive\":4.0")
        .contains("\"shareOfCeiling\":0.5");
  }

  @Test
  void catalogueNamesEachLineOnce() {
    List<String> names = Catalogue.lines(List.of(1, 2)).stream().map(Line::toString).toList();

    assertThat(names).doesNotHaveDuplicates().hasSizeGreaterThan(100);
  }

  /** Through JMH, in JVMs of their own: the parameters' names and the forks' options fit. */
  @Test
  void roundsMeasureEachKindOfLine() throws RunnerException {
    Duration instant = Duration.ofMillis(1);
    Schedule schedule = new Schedule(1, 0, instant, 1, instant);
    AttentionCase attention = new AttentionCase(2, 1, 3, 5, 8, Storage.BF16, Variant.CAUSAL);
    List<Line> lines =
        List.of(
            Catalogue.attention("Decode", attention, 2),
            Catalogue.row(new RowCase(2, 9, DType.F32, RowVerb.TOP_K), 2),
            Catalogue.merge(2, 3, 4, 2));
    ByteArrayOutputStream progress = new ByteArrayOutputStream();

    Measurements measurements =
        new Rounds(schedule, new PrintStream(progress, true, StandardCharsets.UTF_8))
            .measure(lines);

    assertThat(measurements.lines()).hasSize(3);
    assertThat(measurements.lines())
        .allSatisfy(m -> assertThat(m.foldmax()).isPositive())
        .allSatisfy(m -> assertThat(m.naive()).isPositive())
        .allSatisfy(m -> assertThat(measurements.shareOfCeiling(m)).isPositive());
    assertThat(progress.toString(StandardCharsets.UTF_8))
        .contains("round 1/1  3/3  Merge, 2 partials, 3 x 4 f32, threads 2");
  }
}
