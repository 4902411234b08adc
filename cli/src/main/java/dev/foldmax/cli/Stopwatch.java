package dev.foldmax.cli;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * How long a job takes: the first call, with the JVM cold and the files perhaps not read yet, and,
 * where that one was quick, repeats for about half a second.
 *
 * @param first seconds of the first call
 * @param best seconds of the quickest call
 * @param median seconds of the repeats' median, or of the first call without repeats
 * @param repeats how many there were
 */
record Stopwatch(double first, double best, double median, int repeats) {
  private static final double REPEAT_SECONDS = 0.5;
  private static final int MOST_REPEATS = 1000;

  /**
   * Times a job.
   *
   * @param firstCall the job
   * @param again the same once more, giving the same result
   */
  static Stopwatch time(Runnable firstCall, Runnable again) {
    double first = seconds(firstCall);
    double[] repeats = new double[MOST_REPEATS];
    int n = 0;
    // A call that would not fit is not started.
    double expected = first;
    for (double spent = 0; n < MOST_REPEATS && spent + expected <= REPEAT_SECONDS; n++) {
      expected = seconds(again);
      repeats[n] = expected;
      spent += expected;
    }
    if (n == 0) {
      return new Stopwatch(first, first, first, 0);
    }
    Arrays.sort(repeats, 0, n);
    return new Stopwatch(first, Math.min(first, repeats[0]), repeats[n / 2], n);
  }

  private static double seconds(Runnable job) {
    long start = System.nanoTime();
    job.run();
    return (System.nanoTime() - start) * 1e-9;
  }

  /** For people. */
  String describe() {
    if (repeats == 0) {
      return Quantity.seconds(first) + ", one call";
    }
    return Quantity.seconds(best)
        + " (best of "
        + repeats
        + " repeats), first call "
        + Quantity.seconds(first);
  }

  /** For machines. */
  Map<String, Object> json() {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("firstSeconds", first);
    json.put("bestSeconds", best);
    json.put("medianSeconds", median);
    json.put("repeats", repeats);
    return json;
  }
}
