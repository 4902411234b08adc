package dev.foldmax.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.DType;
import dev.foldmax.benchmarks.Bar.Yardstick;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.LocalDate;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.openjdk.jmh.runner.RunnerException;

class TableTest {
  private static final AttentionCase PREFILL = AttentionCase.square(8, 512, 64);
  private static final RowCase SOFTMAX = new RowCase(3, 5, DType.F32, RowVerb.SOFTMAX);
  private static final Line WON = new Line("Prefill", PREFILL, 1, 80e6, Ceiling.FMA_F32);
  private static final Line LOST = new Line("Rows", SOFTMAX, 2, 3e6, Ceiling.COPY);

  private static final Measurements MADE_UP =
      new Measurements(
          Map.of(
              1, Map.of(Ceiling.FMA_F32, List.of(100.0, 50.0, 100.0)),
              2, Map.of(Ceiling.COPY, List.of(12.0))),
          List.of(
              new Measurement(
                  WON,
                  Map.of(
                      Contender.FOLDMAX, List.of(1.0, 2.0, 1.0),
                      Contender.NAIVE, List.of(4.0, 6.0, 6.0),
                      Contender.PYTORCH, List.of(1.25, 2.0, 1.5))),
              new Measurement(
                  LOST, Map.of(Contender.FOLDMAX, List.of(0.5), Contender.NAIVE, List.of(0.25)))),
          List.of(
              new FirstCall.Times(
                  FirstCall.Work.SOFTMAX, List.of(120.0, 150.0, 130.0), List.of(20.5))));

  private static final Run RUN =
      new Run(
          new Machine("Some CPU", 2, "Vector API, 256-bit vectors", "JDK 25", "Linux"),
          LocalDate.of(2026, 1, 2),
          "benchmarks,peers",
          "--out docs",
          Schedule.FULL,
          List.of(
              new Bar("prefill", 1.2, 1.3, PREFILL, 1, new Yardstick.Rival(Contender.PYTORCH)),
              new Bar("its share", 0.5, 0.8, PREFILL, 1, new Yardstick.Machine()),
              new Bar("its peer", 1, 1, PREFILL, 1, new Yardstick.Rival(Contender.ONNX_RUNTIME)),
              new Bar("shown", 0, 0, PREFILL, 1, new Yardstick.Rival(Contender.PYTORCH)),
              new Bar("per row", 3, 4, PREFILL, 1, new Yardstick.Own(PREFILL, 1, 2))));

  @Test
  void pageShowsMediansRatesSharesAndRatios() {
    String page = MarkdownReport.write(RUN, MADE_UP);

    // 80 Mflop in 1 ms are 80 GFLOP/s of 100; the rounds' ratios are 4, 3 and 6.
    assertThat(page)
        .contains(
            "| H 8 L 512 D 64 f32 full | 1 | 1.000 | 80.0 GFLOP/s | 80 % | 6.000 | 4.00 |"
                + " 3.00 to 6.00 | 1.500 | 1.25 | 1.00 to 1.50 |")
        .contains("| softmax 3 x 5 f32 | 2 | 0.500 | 6.0 GB/s | 50 % | 0.250 | 0.50 |")
        .contains("-Pbenchmarks,peers process-classes -Dbenchmarks.args='--out docs'")
        .contains("Some CPU", "2026-01-02")
        .contains("| softmax, 16 x 1024 | 130 | 120 to 150 | 20.5 |")
        .doesNotContain("Fewer rounds");
  }

  @Test
  void pageListsWhereOthersAreFaster() {
    String page = MarkdownReport.write(RUN, MADE_UP);

    assertThat(page)
        .contains("- Rows, softmax 3 x 5 f32, threads 2: 0.50 times naive (0.50 to 0.50).")
        .doesNotContain("- Prefill, H 8 L 512");
  }

  @Test
  void pageSaysWhichBarsAreMet() {
    String page = MarkdownReport.write(RUN, MADE_UP);

    String prefill = " | H 8 L 512 D 64 f32 full | 1 | ";
    assertThat(page)
        .contains("| prefill" + prefill + "PyTorch | 1.20 | 1.30 | 1.25 | 1.00 to 1.50 | met |")
        .contains(
            "| its share" + prefill + "ceiling | 0.50 | 0.80 | 0.80 | 0.80 to 0.80 | met, and the")
        .contains("| shown" + prefill + "PyTorch |  |  | 1.25 | 1.00 to 1.50 | no bar |")
        .contains("threads 1 | 3.00 | 4.00 | 2.00 | 2.00 to 2.00 | missed |")
        .doesNotContain("its peer"); // nobody measured it
  }

  @Test
  void foldersWithoutPeersAreRefused(@TempDir Path folder) throws IOException {
    assertThat(PeerLibraries.complaint(folder.resolve("absent")).orElseThrow())
        .endsWith("absent is no folder");
    assertThat(PeerLibraries.complaint(folder).orElseThrow())
        .endsWith("holds neither libtorch_cpu.so nor libonnxruntime.so");

    Files.createFile(folder.resolve("libonnxruntime.so.1"));

    assertThat(PeerLibraries.complaint(folder)).isEmpty();
  }

  @Test
  void pageOfAQuickRunSaysSo() {
    Run quick =
        new Run(RUN.machine(), RUN.date(), "benchmarks", "--quick", Schedule.QUICK, List.of());

    assertThat(MarkdownReport.write(quick, MADE_UP)).contains("Fewer rounds");
  }

  @Test
  void jsonHoldsEveryRound() {
    assertThat(JsonReport.write(RUN, MADE_UP))
        .contains("\"FOLDMAX\":[1.0,2.0,1.0]")
        .contains("\"times\":{\"NAIVE\":4.0,\"PYTORCH\":1.25}")
        .contains("\"shareOfCeiling\":0.5")
        .contains("\"work\":\"prefill\"", "\"rounds\":[1.25,1.0,1.5]")
        .contains("\"startMillis\":[120.0,150.0,130.0]");
  }

  @Test
  void catalogueNamesEachLineOnce() {
    List<String> names = Catalogue.lines(List.of(1, 2)).stream().map(Line::toString).toList();

    assertThat(names).doesNotHaveDuplicates().hasSizeGreaterThan(100);
  }

  @Test
  void catalogueHoldsWhatBarsNeed() {
    for (List<Integer> threads : List.of(List.of(1), List.of(1, 2), List.of(1, 4, 16))) {
      List<Line> lines = Catalogue.lines(threads);
      List<Bar> bars = Bars.of(threads);

      assertThat(bars).isNotEmpty().doesNotHaveDuplicates();
      for (Bar bar : bars) {
        int needed = bar.yardstick() instanceof Yardstick.Own ? 2 : 1;
        assertThat(lines)
            .as("%s", bar)
            .filteredOn(l -> bar.needs(l.shape(), l.threads()))
            .hasSize(needed);
        if (bar.yardstick() instanceof Yardstick.Rival(Contender rival)) {
          assertThat(rival.supports(bar.shape())).as("%s", bar).isTrue();
        }
      }
    }
  }

  @Test
  void firstCallsAreTimedInJvmsOfTheirOwn() throws IOException {
    List<FirstCall.Times> times = FirstCall.measure(1, List.of());

    assertThat(times).hasSize(FirstCall.Work.values().length);
    assertThat(times)
        .allSatisfy(t -> assertThat(t.startMillis().getFirst()).isPositive())
        .allSatisfy(
            t ->
                assertThat(t.callMillis().getFirst())
                    .isPositive()
                    .isLessThan(t.startMillis().getFirst()));
  }

  /** Through JMH, in JVMs of their own: the parameters' names and the forks' options fit. */
  @Test
  void roundsMeasureEachKindOfLine() throws RunnerException {
    Duration instant = Duration.ofMillis(1);
    Schedule schedule = new Schedule(1, 0, instant, 1, instant);
    AttentionCase attention =
        AttentionCase.square(2, 5, 8).heads(2, 1).lengths(3, 5).stored(Storage.BF16);
    List<Line> lines =
        List.of(
            Catalogue.decode(attention, 2),
            Catalogue.row(new RowCase(2, 9, DType.F32, RowVerb.TOP_K), 2),
            Catalogue.merge(new MergeCase(2, 3, 4), 2));
    ByteArrayOutputStream progress = new ByteArrayOutputStream();
    List<Contender> contenders = List.of(Contender.FOLDMAX, Contender.NAIVE);

    Measurements measurements =
        new Rounds(
                schedule,
                line -> contenders,
                List.of("-Dany=option"),
                new PrintStream(progress, true, StandardCharsets.UTF_8))
            .measure(lines);

    assertThat(measurements.lines()).hasSize(3);
    assertThat(measurements.lines())
        .allSatisfy(m -> assertThat(m.millis()).containsOnlyKeys(contenders))
        .allSatisfy(m -> assertThat(m.median(Contender.NAIVE)).isPositive())
        .allSatisfy(m -> assertThat(measurements.shareOfCeiling(m).median()).isPositive());
    assertThat(progress.toString(StandardCharsets.UTF_8))
        .contains("round 1/1  3/3  Merge, 2 partials, 3 x 4 f32, threads 2");
  }
}
