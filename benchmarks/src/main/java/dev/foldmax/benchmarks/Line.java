package dev.foldmax.benchmarks;

import java.util.Map;

/**
 * A line of the tables: a benchmark with its parameters, to be measured for Foldmax and for the
 * naive version.
 *
 * @param section the table that it stands in
 * @param name what is measured, without the number of threads
 * @param threads how many work at once
 * @param benchmark a JMH class with methods {@code foldmax} and {@code naive}
 * @param parameters of the benchmark, but for the threads
 * @param work floating-point operations or bytes of a call
 * @param ceiling what bounds it
 */
record Line(
    String section,
    String name,
    int threads,
    Class<?> benchmark,
    Map<String, String> parameters,
    double work,
    Ceiling ceiling) {
  Line {
    parameters = Map.copyOf(parameters);
  }

  /** The rate at which {@code millis} does the work, in the ceiling's unit. */
  double rate(double millis) {
    return work / millis / 1e6;
  }

  @Override
  public String toString() {
    return section + ", " + name + ", threads " + threads;
  }
}
