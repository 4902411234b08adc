package dev.foldmax.benchmarks;

import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Measurements as a page for people. */
final class MarkdownReport {
  /** How a reader repeats the page; the arguments follow. */
  private static final String COMMAND =
      "./mvnw -q -Dfoldmax.quick -pl benchmarks -am -Pbenchmarks process-classes";

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
    header();
    guide();
    losses();
    ceilings();
    String section = "";
    for (Measurement measurement : measurements.lines()) {
      if (!measurement.line().section().equals(section)) {
        section = measurement.line().section();
        line();
        line("## " + section);
        line();
        line(
            "| case | threads | Foldmax, ms | naive, ms | Foldmax | share of ceiling | naive"
                + " | times naive | lowest to highest |");
        line("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
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
        "    "
            + COMMAND
            + (run.command().isEmpty() ? "" : " -Dbenchmarks.args='" + run.command() + "'"));
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
    line(
        """
        - *Naive* is a well-written first version with the Vector API (`NaiveAttention`,
          `NaiveRows`, `NaiveDouble`): a query's scores over all keys by dot products, softmax in
          three passes with the JDK's vector exponential, values by axpy, on as many threads. It
          keeps none of the edge rules: no NaN is contained, no empty row is served.
        - A time is the median over the rounds of the median over a round's iterations. *Times
          naive* is the median of the rounds' ratios, above 1 where Foldmax is faster; beside it
          stand the lowest and the highest round.
        - Prefill counts `4 H Lq Lk D` floating-point operations, of visible keys only where the
          mask is causal or a window. Decode counts the bytes of keys and values as stored. Rows
          count the bytes of the input once, and of the output once where it is as large.
        - A *ceiling* is what this machine does in a loop of nothing else: multiply-adds out of
          registers, or memory read or copied in order. Decode, logSumExp, topK, sample and merge
          are held against reading; softmax and logSoftmax against copying; the rest against
          multiply-adds, although exponentials are work too. Tensors that stay in the cache can
          pass 100 % of the memory's rate.
        - H is query heads (and key heads after a slash), L the length, D the head dimension. All is
          float32 on the heap unless a line says otherwise; 16-bit and 8-bit are keys and values,
          with float32 queries and outputs; `f32 native` lies outside of the heap.\
        """);
    line();
  }

  private void losses() {
    line("## Where the naive version is faster");
    line();
    List<Measurement> lost = measurements.lines().stream().filter(m -> m.speedup() < 1).toList();
    if (lost.isEmpty()) {
      line("Nowhere in these tables.");
    }
    for (Measurement measurement : lost) {
      line(
          "- %s: %s times naive (%s)."
              .formatted(
                  measurement.line(), two(measurement.speedup()), range(measurement.speedups())));
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
      StringBuilder row = new StringBuilder("| " + ceiling.label() + ", " + ceiling.unit() + " |");
      for (Map<Ceiling, Double> rates : measurements.ceilings().values()) {
        Double rate = rates.get(ceiling);
        row.append(' ').append(rate == null ? "" : one(rate)).append(" |");
      }
      line(row.toString());
    }
  }

  private void row(Measurement measurement) {
    Line line = measurement.line();
    Double share = measurements.shareOfCeiling(measurement);
    line(
        "| %s | %d | %s | %s | %s %s | %s | %s | %s | %s |"
            .formatted(
                line.name(),
                line.threads(),
                millis(measurement.foldmax()),
                millis(measurement.naive()),
                one(line.rate(measurement.foldmax())),
                line.ceiling().unit(),
                share == null ? "" : "%.0f %%".formatted(100 * share),
                one(line.rate(measurement.naive())),
                two(measurement.speedup()),
                range(measurement.speedups())));
  }

  private void line() {
    line("");
  }

  private void line(String text) {
    page.append(text).append('\n');
  }

  private static String range(List<Double> numbers) {
    return two(Collections.min(numbers)) + " to " + two(Collections.max(numbers));
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
