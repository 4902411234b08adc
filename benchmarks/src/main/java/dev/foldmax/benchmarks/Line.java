package dev.foldmax.benchmarks;

/**
 * A line of the tables: a case to be measured on a number of threads.
 *
 * @param section the table that it stands in
 * @param shape what is computed
 * @param threads how many work at once
 * @param work floating-point operations or bytes of a call
 * @param ceiling what bounds it
 */
record Line(String section, Case shape, int threads, double work, Ceiling ceiling) {
  /** The rate at which {@code millis} does the work, in the ceiling's unit. */
  double rate(double millis) {
    return work / millis / 1e6;
  }

  @Override
  public String toString() {
    return section + ", " + shape.label() + ", threads " + threads;
  }
}
