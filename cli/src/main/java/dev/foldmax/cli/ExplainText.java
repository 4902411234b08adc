package dev.foldmax.cli;

import dev.foldmax.cli.explain.Comparison;
import dev.foldmax.cli.explain.Costs;
import dev.foldmax.cli.explain.Dialect;
import dev.foldmax.cli.explain.Explanation;
import dev.foldmax.cli.explain.Head;
import dev.foldmax.cli.explain.Key;
import dev.foldmax.cli.explain.Precision;
import dev.foldmax.cli.explain.Row;
import dev.foldmax.cli.explain.RowTrace;
import dev.foldmax.cli.explain.Step;
import dev.foldmax.cli.explain.Weights;
import dev.foldmax.cli.explain.WithoutMaximum;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** An explanation for a terminal of 80 columns: lines of ASCII, without colours. */
final class ExplainText {
  /** Columns of the plot; with its labels it fits 80. */
  private static final int PLOT_WIDTH = 62;

  private static final int PLOT_HEIGHT = 8;

  /** From no weight to the most. */
  private static final String RAMP = " .:-=+*#%@";

  private static final int KEYS_OF_LINE = 3;

  private final Explanation explanation;
  private final List<String> lines = new ArrayList<>();

  private ExplainText(Explanation explanation) {
    this.explanation = explanation;
  }

  /** The lines that follow the title and what was read. */
  static List<String> of(Explanation explanation) {
    return new ExplainText(explanation).lines();
  }

  private List<String> lines() {
    Row row = explanation.row();
    if (!explanation.trouble().isEmpty()) {
      explanation.trouble().forEach(this::sentence);
    }
    if (row.condition() == Row.Condition.EMPTY) {
      sentence(
          "No "
              + explanation.keyNoun()
              + " is visible: the output is 0, and the logsumexp "
              + Quantity.rounded(row.oracleLse())
              + ".");
    }
    RowTrace trace = explanation.trace();
    if (trace != null && row.condition() == Row.Condition.ORDINARY) {
      plot(trace);
    }
    Weights weights = explanation.weights();
    if (weights != null) {
      weights(weights);
    }
    dialects(explanation.head(), explanation.costs());
    without();
    errors();
    comparisons();
    return lines;
  }

  private void sentence(String text) {
    lines.add("");
    StringBuilder line = new StringBuilder(" ");
    for (String word : Failure.printable(text).split(" ", -1)) {
      if (line.length() + 1 + word.length() > 79) {
        lines.add(line.toString());
        line = new StringBuilder(" ");
      }
      line.append(' ').append(word);
    }
    lines.add(line.toString());
  }

  private void heading(String text) {
    lines.add("");
    lines.add("  " + text);
  }

  private void plot(RowTrace trace) {
    List<Step> steps = trace.steps();
    int tilesOfColumn = Math.ceilDiv(steps.size(), PLOT_WIDTH);
    int columns = Math.ceilDiv(steps.size(), tilesOfColumn);
    double[] max = new double[columns]; // m when the column ends
    double[] tileMax = new double[columns];
    double[] share = new double[columns];
    boolean[] rises = new boolean[columns];
    Arrays.fill(max, Double.NEGATIVE_INFINITY);
    Arrays.fill(tileMax, Double.NEGATIVE_INFINITY);
    for (int t = 0; t < steps.size(); t++) {
      int column = t / tilesOfColumn;
      Step step = steps.get(t);
      max[column] = step.maxAfter();
      tileMax[column] = Math.max(tileMax[column], step.tileMax());
      share[column] += step.share();
      rises[column] |= step.corrects();
    }
    String each = tilesOfColumn == 1 ? "" : ", " + tilesOfColumn + " tiles a column";
    heading(
        String.format(
            Locale.ROOT,
            "The maximum m over %s%s; it rises %s",
            count(steps.size(), "tile"),
            each,
            count(trace.corrections(), "time")));
    double top = Math.max(max(max), max(tileMax));
    double bottom = Math.min(least(max), least(tileMax));
    int height = top == bottom ? 1 : PLOT_HEIGHT;
    for (int level = height - 1; level >= 0; level--) {
      StringBuilder line = new StringBuilder();
      for (int c = 0; c < columns; c++) {
        boolean isMax = level(max[c], bottom, top) == level;
        boolean isTile = level(tileMax[c], bottom, top) == level;
        line.append(isMax ? '_' : isTile ? '.' : ' ');
      }
      String label =
          level == height - 1 ? Quantity.rounded(top) : level == 0 ? Quantity.rounded(bottom) : "";
      plotLine(label, line.toString());
    }
    StringBuilder marks = new StringBuilder();
    StringBuilder weight = new StringBuilder();
    double most = max(share);
    for (int c = 0; c < columns; c++) {
      marks.append(rises[c] ? '^' : ' ');
      long darkness = Math.round(Math.ceil(share[c] / most * (RAMP.length() - 1)));
      weight.append(RAMP.charAt((int) darkness));
    }
    plotLine("rises", marks.toString());
    plotLine("weight", weight.toString());
    lines.add("             _ m   . a tile's own maximum   ^ m rises   @ the most weight");
    lines.add("");
    lines.add(
        String.format(
            Locale.ROOT,
            "  m %s   l %s   logsumexp m + ln l = %s",
            precise(trace.max()),
            precise(trace.sum()),
            precise(trace.logSumExp())));
  }

  private void plotLine(String label, String content) {
    lines.add(String.format(Locale.ROOT, "  %9s |%s", label, content).stripTrailing());
  }

  private static int level(double number, double bottom, double top) {
    if (number == Double.NEGATIVE_INFINITY) {
      return -1;
    }
    return top == bottom
        ? 0
        : (int) Math.round((number - bottom) / (top - bottom) * (PLOT_HEIGHT - 1));
  }

  private static double max(double[] numbers) {
    return Arrays.stream(numbers).max().orElse(0);
  }

  private static double least(double[] numbers) {
    return Arrays.stream(numbers).filter(Double::isFinite).min().orElse(0);
  }

  private void weights(Weights weights) {
    lines.add(
        String.format(
            Locale.ROOT,
            "  entropy %s nats: as an even spread over %s %ss",
            Quantity.rounded(weights.entropy()),
            Quantity.rounded(weights.perplexity()),
            explanation.keyNoun()));
    List<String> covers = new ArrayList<>();
    for (int i = 0; i < weights.covers().size(); i++) {
      int keys = weights.covers().get(i);
      covers.add(
          Quantity.percent(Weights.SHARES.get(i))
              + " in "
              + (keys < 0
                  ? "more than all " + explanation.keyNoun() + "s"
                  : count(keys, explanation.keyNoun())));
    }
    lines.add("  weight  " + String.join(", ", covers));
    if (weights.sink() > 0) {
      lines.add("  sink    " + share(weights.sink()) + " of the weight");
    }
    heading("The " + explanation.keyNoun() + "s that matter");
    for (int i = 0; i < weights.largest().size(); i += KEYS_OF_LINE) {
      List<Key> some =
          weights.largest().subList(i, Math.min(i + KEYS_OF_LINE, weights.largest().size()));
      lines.add(
          "    "
              + some.stream()
                  .map(
                      key ->
                          String.format(
                              Locale.ROOT,
                              "%-23s",
                              key.index()
                                  + ": "
                                  + share(key.weight())
                                  + " ("
                                  + Quantity.rounded(key.score())
                                  + ")"))
                  .collect(Collectors.joining(" "))
                  .stripTrailing());
    }
  }

  private static String share(double weight) {
    return Quantity.rounded(100 * weight) + " %";
  }

  private void dialects(Head head, @Nullable Costs costs) {
    if (head.visibleTiles() == 0) {
      return;
    }
    String rows = count(head.numbers().size(), explanation.rowNoun());
    heading(
        "What the ways to rescale do, over "
            + rows
            + (head.numbers().size() < head.rows() ? " of " + head.rows() : "")
            + " and "
            + count(head.visibleTiles(), "tile")
            + (head.rowsThatAreNaN() == 0 ? "" : "; " + head.rowsThatAreNaN() + " of them NaN"));
    lines.add(
        String.format(
                Locale.ROOT,
                "    %-14s %12s %16s %10s",
                "dialect",
                "corrections",
                "multiplications",
                costs == null ? "" : "ns a tile")
            .stripTrailing());
    for (int i = 0; i < Dialect.ALL.size(); i++) {
      Dialect dialect = Dialect.ALL.get(i);
      lines.add(
          String.format(
                  Locale.ROOT,
                  "    %-14s %12d %16d %10s",
                  dialect.label(),
                  head.corrections(dialect),
                  head.multiplications(dialect),
                  costs == null ? "" : Quantity.rounded(costs.nanoseconds().get(i)))
              .stripTrailing());
    }
    if (costs != null) {
      List<String> names = costs.favoured().stream().map(Dialect::label).toList();
      sentence(
          (names.size() == 1
                  ? "Least time: " + names.getFirst()
                  : "Not told apart, and the least: " + String.join("; ", names))
              + ". Measured here, just now: test, exponential and multiplications alone, replayed"
              + " on these tiles by one thread.");
    }
  }

  private void without() {
    if (explanation.withoutMaximum().isEmpty()) {
      return;
    }
    heading("Without the maximum");
    for (WithoutMaximum without : explanation.withoutMaximum()) {
      lines.add(
          String.format(
              Locale.ROOT,
              "    %-4s %s; too large %d, lost %d, subnormal %d; error %s",
              without.format(),
              switch (without.outcome()) {
                case OVERFLOWS -> "overflows";
                case VANISHES -> "nothing is left, 0 / 0";
                case LOSES_KEYS -> "loses " + share(without.lostWeight());
                case SURVIVES -> "survives";
              },
              without.overflowing(),
              without.vanishing(),
              without.subnormal(),
              error(without.errors().largest())));
    }
  }

  private void errors() {
    if (explanation.precisions().isEmpty()) {
      return;
    }
    heading("Errors against the float64 reference");
    lines.add(
        String.format(Locale.ROOT, "    %-22s %10s %10s %12s", "", "largest", "RMS", "logsumexp"));
    for (Precision precision : explanation.precisions()) {
      lines.add(
          String.format(
              Locale.ROOT,
              "    %-22s %10s %10s %12s",
              precision.name(),
              error(precision.errors().largest()),
              error(precision.errors().rootMeanSquare()),
              error(precision.errors().logSumExp())));
    }
  }

  private void comparisons() {
    if (explanation.comparisons().isEmpty()) {
      return;
    }
    heading("Bit by bit");
    for (Comparison comparison : explanation.comparisons()) {
      lines.add("    " + comparison.one() + ", and " + comparison.other() + ":");
      lines.add(
          "      "
              + (comparison.isSame()
                  ? "same bits in all " + comparison.numbers() + " numbers"
                  : comparison.differing()
                      + " of "
                      + comparison.numbers()
                      + " numbers differ, by at most "
                      + error(comparison.largest())));
    }
  }

  private static String precise(double number) {
    return String.format(Locale.ROOT, "%.6g", number);
  }

  private static String error(double error) {
    return Double.isNaN(error) ? "not finite" : Quantity.error(error);
  }

  private static String count(long number, String noun) {
    return number + " " + (number == 1 ? noun : noun.equals("query") ? "queries" : noun + "s");
  }
}
