package dev.foldmax.cli;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * How long a job takes: the first call, with the JVM cold and the files perhaps not read yet, and
 * then, where that one was quick, repeats. It takes many before the JVM has compiled a kernel.
 *
 * @param first seconds of the first call
 * @param best seconds of the quickest call
 * @param median seconds of the repeats' median, or of the first call without repeats
 * @param repeats how many there were
 */
record Stopwatch(double first, double best, double median, int repeats) {
  /** How slow a first call may be, of a cold JVM, to be worth another. */
  private static final double QUICK_SECONDS = 5;

  private static final int MOST_REPEATS = 10_000;

  /** Before these the JVM has hardly compiled anything, so they may take longer than was said. */
  private static final int FEWEST_REPEATS = 20;

  /** How many times as long. */
  private static final int PATIENCE = 3;

  /**
   * Times a job.
   *
   * @param firstCall the job
   * @param again the same once more, giving the same result
   * @param repeatSeconds about how long to repeat it; 0 for not at all
   */
  static Stopwatch time(Runnable firstCall, Runnable again, double repeatSeconds) {
    double first = seconds(firstCall);
    double[] repeats = new double[MOST_REPEATS];
    int n = 0;
    double spent = 0;
    while (first <= QUICK_SECONDS
        && n < MOST_REPEATS
        && (spent < repeatSeconds || (n < FEWEST_REPEATS && spent < PATIENCE * repeatSeconds))) {
      repeats[n] = seconds(again);
      spent += repeats[n];
      n++;
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
      return Quantity.seconds(first) + ", one call in a cold JVM";
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
