package dev.foldmax.benchmarks;

import java.util.List;

/** The middle of numbers. */
final class Median {
  private Median() {}

  /** The median, of an even number the mean of the two in the middle. */
  static double of(List<Double> numbers) {
    if (numbers.isEmpty()) {
      throw new IllegalArgumentException("numbers: expected at least one");
    }
    List<Double> sorted = numbers.stream().sorted().toList();
    int middle = sorted.size() / 2;
    return sorted.size() % 2 == 1
        ? sorted.get(middle)
        : (sorted.get(middle - 1) + sorted.get(middle)) / 2;
  }
}
