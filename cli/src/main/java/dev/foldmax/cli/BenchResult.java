package dev.foldmax.cli;

import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A rate that was measured.
 *
 * @param backend whose
 * @param work what was done
 * @param seconds of one call
 * @param rate operations or bytes a second
 * @param unit whether it counts {@code FLOP/s} or {@code B/s}
 * @param ceiling what bounds it, or null for a ceiling itself and where none was measured
 */
record BenchResult(
    String backend,
    String work,
    double seconds,
    double rate,
    String unit,
    @Nullable BenchResult ceiling) {
  /** The share of the ceiling that was reached; NaN without one. */
  double share() {
    return ceiling == null ? Double.NaN : rate / ceiling.rate();
  }

  /** Such as {@code 12.3 GB/s}. */
  String describeRate() {
    return rate >= 1e12
        ? Quantity.significant(rate / 1e12) + " T" + unit
        : Quantity.significant(rate / 1e9) + " G" + unit;
  }

  /** For people. */
  String describe() {
    String described = Quantity.seconds(seconds) + ", " + describeRate();
    return ceiling == null
        ? described
        : described + ", " + Quantity.percent(share()) + " of " + ceiling.work();
  }

  /** For machines. */
  Map<String, @Nullable Object> json() {
    Map<String, @Nullable Object> json = new LinkedHashMap<>();
    json.put("work", work);
    json.put("seconds", seconds);
    json.put("rate", rate);
    json.put("unit", unit);
    json.put("ceiling", ceiling == null ? null : ceiling.work());
    json.put("share", ceiling == null ? null : share());
    return json;
  }
}
