package dev.foldmax.benchmarks;

import java.time.Duration;

/**
 * How long to measure. A round starts every benchmark once, each in a JVM of its own.
 *
 * @param rounds how many
 * @param warmups iterations before those that count, of Java code; native code has one
 * @param warmup the length of each
 * @param iterations iterations that count
 * @param iteration the length of each
 */
record Schedule(int rounds, int warmups, Duration warmup, int iterations, Duration iteration) {
  /**
   * Long enough to be quoted, on a machine that does nothing else: C2 was seen to take up to three
   * seconds until it had compiled the last of an attention's loops.
   */
  static final Schedule FULL =
      new Schedule(3, 4, Duration.ofMillis(1000), 5, Duration.ofMillis(300));

  /** To see where a change leads. */
  static final Schedule SHORT =
      new Schedule(3, 4, Duration.ofMillis(600), 5, Duration.ofMillis(150));

  /** To see that everything runs. */
  static final Schedule QUICK =
      new Schedule(1, 3, Duration.ofMillis(500), 3, Duration.ofMillis(100));

  /** The same with another number of rounds. */
  Schedule rounds(int value) {
    return new Schedule(value, warmups, warmup, iterations, iteration);
  }
}
