package dev.foldmax.benchmarks;

import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;

/** Measurements as a page for people. */
final class MarkdownReport {
  private final StringBuilder page = new StringBuilder();
  private final Run run;
  private final Measurements measurements;

  private MarkdownReport(Run run, Measurements measurements) {
    this.run = run;
    this.measurements = measurements;
  }

  /** The page. */
  static String write(Run run, Measurements measurements) {
    return new MarkdownReport(run, measurements).write();
  }

  private String write() {
    line("# Performance");
    line();
    line("Of the CPU backend. The CUDA backend, beside cuDNN and FlashAttention-2, is measured in");
    line("[performance-gpu.md](performance-gpu.md). Time and memory are drawn against length");
    line("[on the CPU](plots/lengths-cpu.md) and [on a GPU](plots/lengths-gpu.md).");
    line();
    header();
    guide();
    bars();
    losses();
    firstCalls();
    ceilings();
    String section = "";
    for (Measurement measurement : measurements.lines()) {
      if (!measurement.line().section().equals(section)) {
        section = measurement.line().section();
        line();
        line("## " + section);
        line();
        head();
      }
      row(measurement);
    }
    return page.toString();
  }

  private void header() {
    Machine machine = run.machine();
    Schedule schedule = run.schedule();
    line("Written by this command, on a machine that should do nothing else meanwhile:");
    line();
    line(
        "    ./mvnw -q -Dfoldmax.quick -pl benchmarks -am -P"
            + run.profiles()
            + " process-classes"
            + (run.arguments().isEmpty() ? "" : " -Dbenchmarks.args='" + run.arguments() + "'"));
    line();
    line("| | |");
    line("|---|---|");
    line("| processor | " + machine.cpu() + ", cores " + machine.cores() + " |");
    line("| backend | " + machine.backend() + " |");
    line("| JDK | " + machine.jdk() + " |");
    line("| system | " + machine.system() + " |");
    line("| date | " + run.date() + " |");
    line(
        "| schedule | rounds %d, each with a new JVM for each benchmark: warm-up %d x %d ms,"
                .formatted(schedule.rounds(), schedule.warmups(), schedule.warmup().toMillis())
            + " measured %d x %d ms |"
                .formatted(schedule.iterations(), schedule.iteration().toMillis()));
    line();
    if (schedule.rounds() < Schedule.FULL.rounds()) {
      line(
          "**Fewer rounds than the %d of a full run: shows that everything runs, not how fast.**"
              .formatted(Schedule.FULL.rounds()));
      line();
    }
  }

  private void guide() {
    line("## How to read it");
    line();
    if (measurements.others().contains(Contender.NAIVE)) {
      line(
          """
          - *Naive* is a well-written first version with the Vector API (`NaiveAttention`,
            `NaiveRows`, `NaiveDouble`): a query's scores over all keys by dot products, softmax in
            three passes with the JDK's vector exponential, values by axpy, on as many threads. It
            keeps none of the edge rules: no NaN is contained, no empty row is served.\
          """);
    }
    line(
        """
        - *PyTorch* is the flash kernel of `scaled_dot_product_attention`, and softmax, logsumexp
          and topk into given memory where they can. Its grouped decoding takes the heads of a group
          as queries of their key head, which is faster than `enable_gqa`. *ONNX Runtime* is the
          fastest of Attention, MultiHeadAttention and GroupQueryAttention for the case, tried
          at the start of each measurement, and Softmax, ReduceLogSumExp and TopK. Both are called
          through their C interfaces, over native memory with the same numbers.
        - A time is the median over the rounds of the median over a round's iterations. *Times
          PyTorch* (and so on) is the median of the rounds' ratios, above 1 where Foldmax is faster;
          beside it stand the lowest and the highest round.
        - Prefill counts `4 H Lq Lk D` floating-point operations, of visible keys only where the
          mask is causal or a window. Decode counts the bytes of keys and values as stored. Rows
          count the bytes of the input once, and of the output once where it is as large.
        - A *ceiling* is what this machine does in a loop of nothing else: multiply-adds out of
          registers, or memory read or copied. Decode, logSumExp, topK, sample and merge
          are held against reading; softmax and logSoftmax against copying; the rest against
          multiply-adds, although exponentials are work too. Tensors that stay in the cache can
          pass 100 % of the memory's rate.
        - B is sequences, 1 unless a line says otherwise, H query heads (and key heads after a
          slash), L the length (Lq of the queries, Lk of the keys), D the head dimension. All is
          float32 on the heap unless a line says otherwise. `bf16` is queries, keys, values and
          output; `bf16 K V` is keys and values only, with float32 queries and output; `f32 native`
          lies outside of the heap.\
        """);
    line();
  }

  private void bars() {
    List<Bar> measured =
        run.bars().stream().filter(bar -> bar.measured(measurements) != null).toList();
    if (measured.isEmpty()) {
      return;
    }
    line("## Bars");
    line();
    line(
        "A bar is a ratio that Foldmax must reach on a case, and an aim above it; above 1 is faster.");
    line("Without numbers for them the ratio is shown as it is, and is no bar.");
    line();
    line("| work | case | threads | against | must | aim | measured | lowest to highest | |");
    line("|---|---|---:|---|---:|---:|---:|---:|---|");
    for (Bar bar : measured) {
      Ratio ratio = Objects.requireNonNull(bar.measured(measurements));
      double value = ratio.median();
      line(
          "| %s | %s | %d | %s | %s | %s | %s | %s | %s |"
              .formatted(
                  bar.work(),
                  bar.shape().label(),
                  bar.threads(),
                  against(bar.yardstick()),
                  bar.isPromise() ? two(bar.must()) : "",
                  bar.isPromise() ? two(bar.aim()) : "",
                  two(value),
                  ratio.range(),
                  verdict(bar, value)));
    }
    line();
  }

  private static String verdict(Bar bar, double value) {
    if (!bar.isPromise()) {
      return "no bar";
    }
    return value >= bar.aim() ? "met, and the aim" : value >= bar.must() ? "met" : "missed";
  }

  private static String against(Bar.Yardstick yardstick) {
    return switch (yardstick) {
      case Bar.Yardstick.Rival rival -> rival.contender().label();
      case Bar.Yardstick.Own other -> other.shape().label() + ", threads " + other.threads();
      case Bar.Yardstick.Machine machine -> "ceiling";
    };
  }

  private void losses() {
    line("## Where others are faster");
    line();
    boolean lost = false;
    for (Measurement measurement : measurements.lines()) {
      for (Contender other : measurements.others()) {
        Ratio ratio = measurement.over(other);
        if (ratio != null && ratio.median() < 1) {
          lost = true;
          line(
              "- %s: %s times %s (%s)."
                  .formatted(
                      measurement.line(), two(ratio.median()), other.label(), ratio.range()));
        }
      }
    }
    if (!lost) {
      line("Nowhere in these tables.");
    }
    line();
  }

  private void firstCalls() {
    if (measurements.firstCalls().isEmpty()) {
      return;
    }
    line("## First result of a fresh JVM");
    line();
    line("| work | process start to result, ms | lowest to highest | first call, ms |");
    line("|---|---:|---:|---:|");
    for (FirstCall.Times times : measurements.firstCalls()) {
      line(
          "| %s | %.0f | %.0f to %.0f | %.1f |"
              .formatted(
                  times.work().label(),
                  Median.of(times.startMillis()),
                  Collections.min(times.startMillis()),
                  Collections.max(times.startMillis()),
                  Median.of(times.callMillis())));
    }
    line();
  }

  private void ceilings() {
    line("## Ceilings");
    line();
    StringBuilder head = new StringBuilder("| |");
    StringBuilder rule = new StringBuilder("|---|");
    for (int threads : measurements.ceilings().keySet()) {
      head.append(" threads ").append(threads).append(" |");
      rule.append("---:|");
    }
    line(head.toString());
    line(rule.toString());
    for (Ceiling ceiling : Ceiling.values()) {
      if (measurements.ceilings().values().stream().noneMatch(r -> r.containsKey(ceiling))) {
        continue;
      }
      StringBuilder row = new StringBuilder("| " + ceiling.label() + ", " + ceiling.unit() + " |");
      for (Map<Ceiling, List<Double>> rates : measurements.ceilings().values()) {
        List<Double> rounds = rates.get(ceiling);
        row.append(' ').append(rounds == null ? "" : one(Median.of(rounds))).append(" |");
      }
      line(row.toString());
    }
  }

  private void head() {
    StringBuilder head =
        new StringBuilder("| case | threads | Foldmax, ms | Foldmax | share of ceiling |");
    StringBuilder rule = new StringBuilder("|---|---:|---:|---:|---:|");
    for (Contender other : measurements.others()) {
      head.append(' ').append(other.label()).append(", ms |");
      head.append(" times ").append(other.label()).append(" | lowest to highest |");
      rule.append("---:|---:|---:|");
    }
    line(head.toString());
    line(rule.toString());
  }

  private void row(Measurement measurement) {
    Line line = measurement.line();
    Ratio share = measurements.shareOfCeiling(measurement);
    double ours = Objects.requireNonNull(measurement.median(Contender.FOLDMAX));
    StringBuilder row =
        new StringBuilder(
            "| %s | %d | %s | %s %s | %s |"
                .formatted(
                    line.shape().label(),
                    line.threads(),
                    millis(ours),
                    one(line.rate(ours)),
                    line.ceiling().unit(),
                    share == null ? "" : "%.0f %%".formatted(100 * share.median())));
    for (Contender other : measurements.others()) {
      Double theirs = measurement.median(other);
      Ratio ratio = measurement.over(other);
      row.append(
          theirs == null || ratio == null
              ? " | | |"
              : " %s | %s | %s |".formatted(millis(theirs), two(ratio.median()), ratio.range()));
    }
    line(row.toString());
  }

  private void line() {
    line("");
  }

  private void line(String text) {
    page.append(text).append('\n');
  }

  private static String millis(double number) {
    return String.format(Locale.ROOT, number < 10 ? "%.3f" : "%.1f", number);
  }

  private static String one(double number) {
    return String.format(Locale.ROOT, "%.1f", number);
  }

  private static String two(double number) {
    return String.format(Locale.ROOT, "%.2f", number);
  }
}
