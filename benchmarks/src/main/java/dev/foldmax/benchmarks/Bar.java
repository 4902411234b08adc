package dev.foldmax.benchmarks;

import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A speed that a case has to reach, as a ratio within one run.
 *
 * @param work what is promised
 * @param must the least that will do; 0 where the ratio is shown for information and is no bar
 * @param aim what is hoped for; 0 likewise
 * @param shape what Foldmax computes
 * @param threads on how many threads
 * @param yardstick what it is held against
 */
record Bar(String work, double must, double aim, Case shape, int threads, Yardstick yardstick) {
  /** What a case is held against. */
  sealed interface Yardstick {
    /** Somebody else's time for the same. */
    record Rival(Contender contender) implements Yardstick {}

    /**
     * Foldmax's own time for another case.
     *
     * @param factor the work of the bar's case, in that of the other
     */
    record Own(Case shape, int threads, double factor) implements Yardstick {}

    /** What the machine can do. */
    record Machine() implements Yardstick {}
  }

  /** Whether anything is promised. */
  boolean isPromise() {
    return must > 0;
  }

  /** Whether the case on a number of threads has to be measured. */
  boolean needs(Case other, int otherThreads) {
    return isOf(other, otherThreads)
        || (yardstick instanceof Yardstick.Own own
            && own.threads() == otherThreads
            && own.shape().equals(other));
  }

  /** Whether it is about the case on a number of threads, and needs a contender's time for it. */
  boolean needs(Case other, int otherThreads, Contender contender) {
    return isOf(other, otherThreads)
        && yardstick instanceof Yardstick.Rival rival
        && rival.contender() == contender;
  }

  private boolean isOf(Case other, int otherThreads) {
    return threads == otherThreads && shape.equals(other);
  }

  /** What was measured, or null if something that it takes was not. */
  @Nullable Ratio measured(Measurements measurements) {
    Optional<Measurement> line = measurements.find(shape, threads);
    if (line.isEmpty()) {
      return null;
    }
    return switch (yardstick) {
      case Yardstick.Rival rival -> line.get().over(rival.contender());
      case Yardstick.Machine machine -> measurements.shareOfCeiling(line.get());
      case Yardstick.Own other -> {
        List<Double> ours = line.get().millis().get(Contender.FOLDMAX);
        List<Double> theirs =
            measurements
                .find(other.shape(), other.threads())
                .map(m -> m.millis().get(Contender.FOLDMAX))
                .orElse(null);
        yield ours == null || theirs == null ? null : Ratio.of(theirs, ours).times(other.factor());
      }
    };
  }
}
