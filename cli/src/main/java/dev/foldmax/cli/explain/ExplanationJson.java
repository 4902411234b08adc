package dev.foldmax.cli.explain;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * An explanation as maps, lists, strings and numbers. What a tile does is in columns, one list for
 * each number of {@link Step}, so that thousands of tiles stay small.
 */
public final class ExplanationJson {
  /** As many columns of the map of rises as a page has room for. */
  private static final int COLUMNS = 128;

  private ExplanationJson() {}

  /** The fields of an explanation. */
  public static Map<String, @Nullable Object> of(Explanation explanation) {
    Map<String, @Nullable Object> json = new LinkedHashMap<>();
    json.put("title", explanation.title());
    json.put("facts", explanation.facts());
    json.put("row", row(explanation));
    RowTrace trace = explanation.trace();
    json.put("trace", trace == null ? null : trace(trace));
    Weights weights = explanation.weights();
    json.put("weights", weights == null ? null : weights(weights));
    json.put("withoutMaximum", list(explanation.withoutMaximum(), ExplanationJson::without));
    json.put("errors", list(explanation.precisions(), ExplanationJson::precision));
    json.put("comparisons", list(explanation.comparisons(), ExplanationJson::comparison));
    json.put("head", head(explanation));
    return json;
  }

  private static Map<String, @Nullable Object> row(Explanation explanation) {
    Row row = explanation.row();
    Map<String, @Nullable Object> json = new LinkedHashMap<>();
    json.put("noun", explanation.rowNoun());
    json.put("keyNoun", explanation.keyNoun());
    json.put("number", explanation.rowNumber());
    json.put("condition", row.condition().name());
    json.put("trouble", explanation.trouble());
    json.put("keys", row.keys());
    json.put("visibleKeys", row.visibleKeys());
    json.put("valueDimension", row.values().dimension());
    json.put("sink", row.sink());
    json.put("logSumExp", row.oracleLse());
    return json;
  }

  private static Map<String, @Nullable Object> trace(RowTrace trace) {
    Map<String, @Nullable Object> json = new LinkedHashMap<>();
    json.put("tile", trace.tile());
    json.put("dialect", new Dialect(trace.dialect(), trace.tau()).label());
    json.put("lazyThreshold", trace.threshold());
    json.put("corrections", trace.corrections());
    json.put("max", trace.max());
    json.put("sum", trace.sum());
    json.put("logSumExp", trace.logSumExp());
    json.put("output", trace.output());
    List<Step> steps = trace.steps();
    Map<String, Object> columns = new LinkedHashMap<>();
    columns.put("begin", list(steps, Step::begin));
    columns.put("end", list(steps, Step::end));
    columns.put("visible", list(steps, Step::visible));
    columns.put("tileMax", list(steps, Step::tileMax));
    columns.put("maxBefore", list(steps, Step::maxBefore));
    columns.put("maxAfter", list(steps, Step::maxAfter));
    columns.put("correction", list(steps, Step::correction));
    columns.put("tileSum", list(steps, Step::tileSum));
    columns.put("sumBefore", list(steps, Step::sumBefore));
    columns.put("sumAfter", list(steps, Step::sumAfter));
    columns.put("tileValues", list(steps, Step::tileValues));
    columns.put("outputBefore", list(steps, Step::outputBefore));
    columns.put("outputAfter", list(steps, Step::outputAfter));
    columns.put("share", list(steps, Step::share));
    columns.put("largest", list(steps, step -> list(step.largest(), ExplanationJson::shortKey)));
    json.put("steps", columns);
    return json;
  }

  private static List<Object> shortKey(Key key) {
    return List.of(key.index(), key.score(), key.weight());
  }

  private static Map<String, @Nullable Object> key(Key key) {
    Map<String, @Nullable Object> json = new LinkedHashMap<>();
    json.put("key", key.index());
    json.put("score", key.score());
    json.put("weight", key.weight());
    return json;
  }

  private static Map<String, @Nullable Object> weights(Weights weights) {
    Map<String, @Nullable Object> json = new LinkedHashMap<>();
    json.put("entropy", weights.entropy());
    json.put("perplexity", weights.perplexity());
    json.put("sink", weights.sink());
    json.put("largest", list(weights.largest(), ExplanationJson::key));
    json.put("shares", Weights.SHARES);
    json.put("keysThatHaveThem", weights.covers());
    return json;
  }

  private static Map<String, @Nullable Object> without(WithoutMaximum without) {
    Key heaviest = without.heaviestVanishing();
    Map<String, @Nullable Object> json = new LinkedHashMap<>();
    json.put("format", without.format().name());
    json.put("outcome", without.outcome().name().toLowerCase(Locale.ROOT).replace('_', '-'));
    json.put("overflowing", without.overflowing());
    json.put("firstOverflowing", list(without.firstOverflowing(), ExplanationJson::key));
    json.put("vanishing", without.vanishing());
    json.put("heaviestVanishing", heaviest == null ? null : key(heaviest));
    json.put("lostWeight", without.lostWeight());
    json.put("subnormal", without.subnormal());
    json.put("sum", without.sum());
    json.put("largestError", without.errors().largest());
    return json;
  }

  private static Map<String, @Nullable Object> precision(Precision precision) {
    Map<String, @Nullable Object> json = new LinkedHashMap<>();
    json.put("name", precision.name());
    json.put("largestError", precision.errors().largest());
    json.put("rootMeanSquare", precision.errors().rootMeanSquare());
    json.put("logSumExpError", precision.errors().logSumExp());
    return json;
  }

  private static Map<String, @Nullable Object> comparison(Comparison comparison) {
    Map<String, @Nullable Object> json = new LinkedHashMap<>();
    json.put("one", comparison.one());
    json.put("other", comparison.other());
    json.put("sameBits", comparison.isSame());
    json.put("numbers", comparison.numbers());
    json.put("differing", comparison.differing());
    json.put("largestDifference", comparison.largest());
    return json;
  }

  private static Map<String, @Nullable Object> head(Explanation explanation) {
    Head head = explanation.head();
    Costs costs = explanation.costs();
    int tilesOfColumn = Math.max(1, Math.ceilDiv(head.tiles(), COLUMNS));
    Map<String, @Nullable Object> json = new LinkedHashMap<>();
    json.put("rows", head.rows());
    json.put("numbers", head.numbers());
    json.put("rowsThatAreNaN", head.rowsThatAreNaN());
    json.put("tiles", head.tiles());
    json.put("visibleTiles", head.visibleTiles());
    json.put("tilesOfColumn", tilesOfColumn);
    json.put("rises", head.rises(tilesOfColumn));
    json.put("multiplicationsOfCorrection", head.multiplicationsOfCorrection());
    List<Map<String, @Nullable Object>> dialects = new ArrayList<>();
    for (int i = 0; i < Dialect.ALL.size(); i++) {
      Dialect dialect = Dialect.ALL.get(i);
      Map<String, @Nullable Object> one = new LinkedHashMap<>();
      one.put("dialect", dialect.label());
      one.put("corrections", head.corrections(dialect));
      one.put("multiplications", head.multiplications(dialect));
      one.put("nanosecondsOfTile", costs == null ? null : costs.nanoseconds().get(i));
      one.put("favoured", costs == null ? null : costs.favoured().contains(dialect));
      dialects.add(one);
    }
    json.put("dialects", dialects);
    return json;
  }

  private static <T, R> List<R> list(List<T> items, Function<T, R> json) {
    return items.stream().map(json).toList();
  }
}
