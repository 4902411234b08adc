package dev.foldmax.cli;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * How long a job takes: the first call, with the JVM cold and the files perhaps not read yet, and
 * then repeats. It takes many before the JVM has compiled a kernel.
 *
 * @param first seconds of the first call
 * @param best seconds of the quickest call
 * @param median seconds of the repeats' median, or of the first call without repeats
 * @param repeats how many there were
 * @param settled whether the last repeats were about as quick as those before them
 */
record Stopwatch(double first, double best, double median, int repeats, boolean settled) {
  /** How slow a first call may be, of a cold JVM, to be worth another when nobody asks for it. */
  private static final double QUICK_SECONDS = 5;

  /** When repeats end, settled or not, unless told otherwise. */
  private static final double LONGEST_SECONDS = 6;

  /**
   * The JVM compiles what has run often, in the background. Before it has done so for a kernel,
   * times stand still for seconds, and then fall to a hundredth. So they count as settled only
   * after many repeats and this long.
   */
  private static final double SETTLING_SECONDS = 1;

  private static final int MANY_REPEATS = 200;

  /** The same where repeats are few, but each is long. */
  private static final double SETTLING_SECONDS_OF_FEW = 3;

  /** What bounds the memory for times. */
  private static final int MOST_REPEATS = 1 << 22;

  /** Repeats are compared with earlier ones in rounds of so many, and of at least so long. */
  private static final int REPEATS_OF_A_ROUND = 3;

  private static final double SECONDS_OF_A_ROUND = 0.3;

  /** A round that takes less than this share of the best before it is an improvement. */
  private static final double IMPROVEMENT = 0.9;

  /** Rounds without improvement after which times count as settled; one may fall to a compiler. */
  private static final int ROUNDS_ALIKE = 3;

  /**
   * Times a job.
   *
   * @param firstCall the job
   * @param again the same once more, giving the same result
   * @param repeatSeconds how long to repeat it, 0 for not at all; null to repeat a quick job until
   *     its times settle
   */
  static Stopwatch time(Runnable firstCall, Runnable again, @Nullable Double repeatSeconds) {
    return time(firstCall, again, repeatSeconds, System::nanoTime);
  }

  /** The same by another clock, of nanoseconds. */
  static Stopwatch time(
      Runnable firstCall, Runnable again, @Nullable Double repeatSeconds, LongSupplier clock) {
    double first = seconds(firstCall, clock);
    double longest =
        repeatSeconds != null ? repeatSeconds : first <= QUICK_SECONDS ? LONGEST_SECONDS : 0;
    double[] repeats = new double[64];
    int n = 0;
    double spent = 0;
    Rounds rounds = new Rounds();
    boolean untilSettled = repeatSeconds == null;
    while (spent < longest && !(untilSettled && rounds.areSettled()) && n < MOST_REPEATS) {
      double seconds = seconds(again, clock);
      if (n == repeats.length) {
        repeats = Arrays.copyOf(repeats, 2 * n);
      }
      repeats[n] = seconds;
      n++;
      spent += seconds;
      rounds.add(seconds);
    }
    if (n == 0) {
      return new Stopwatch(first, first, first, 0, false);
    }
    Arrays.sort(repeats, 0, n);
    return new Stopwatch(
        first,
        Math.min(first, repeats[0]),
        repeats[n / 2],
        n,
        n == MOST_REPEATS || rounds.areSettled());
  }

  private static double seconds(Runnable job, LongSupplier clock) {
    long start = clock.getAsLong();
    job.run();
    return (clock.getAsLong() - start) * 1e-9;
  }

  /** Whether repeats still get quicker. */
  private static final class Rounds {
    /** How many complete rounds have followed the last improvement. */
    private int alike;

    private double bestBefore = Double.POSITIVE_INFINITY;
    private double best = Double.POSITIVE_INFINITY;
    private double seconds;
    private int repeats;
    private double allSeconds;
    private int allRepeats;

    boolean areSettled() {
      return alike >= ROUNDS_ALIKE
          && (allSeconds >= SETTLING_SECONDS_OF_FEW
              || (allSeconds >= SETTLING_SECONDS && allRepeats >= MANY_REPEATS));
    }

    void add(double time) {
      best = Math.min(best, time);
      seconds += time;
      repeats++;
      allSeconds += time;
      allRepeats++;
      if (repeats >= REPEATS_OF_A_ROUND && seconds >= SECONDS_OF_A_ROUND) {
        alike = best >= IMPROVEMENT * bestBefore ? alike + 1 : 0;
        bestBefore = Math.min(best, bestBefore);
        best = Double.POSITIVE_INFINITY;
        seconds = 0;
        repeats = 0;
      }
    }
  }

  /** For people. */
  String describe() {
    if (repeats == 0) {
      return Quantity.seconds(first) + ", one call in a cold JVM";
    }
    return Quantity.seconds(best)
        + " (best of "
        + repeats
        + (repeats == 1 ? " repeat" : " repeats")
        + (settled ? "" : ", still warming up")
        + "), first call "
        + Quantity.seconds(first);
  }

  /** For machines. */
  Map<String, Object> json() {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("firstSeconds", first);
    json.put("bestSeconds", best);
    json.put("medianSeconds", median);
    json.put("repeats", repeats);
    json.put("settled", settled);
    return json;
  }
}
