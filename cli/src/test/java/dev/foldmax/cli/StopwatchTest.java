package dev.foldmax.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.function.IntToDoubleFunction;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** How often a job is repeated, by a clock that only the job moves. */
class StopwatchTest {
  private long now;
  private int calls;

  private Stopwatch time(double first, IntToDoubleFunction again, @Nullable Double repeatSeconds) {
    return Stopwatch.time(
        () -> now += Math.round(first * 1e9),
        () -> now += Math.round(again.applyAsDouble(calls++) * 1e9),
        repeatSeconds,
        () -> now);
  }

  private double secondsOfRepeats(Stopwatch time) {
    return now * 1e-9 - time.first();
  }

  @Test
  void stopsWhereTimesHaveSettled() {
    Stopwatch time = time(0.5, call -> 0.02 / (1 + call) + 0.002, null);

    assertThat(time.settled()).isTrue();
    assertThat(secondsOfRepeats(time)).isBetween(1.0, 2.0);
    assertThat(time.describe()).matches("2.\\d+ ms \\(best of \\d+ repeats\\), first call 500 ms");
  }

  @Test
  void waitsForTheCompilerWhereRepeatsAreFew() {
    Stopwatch time = time(0.9, call -> call < 60 ? 0.04 : 0.0003, null);

    assertThat(time.settled()).isTrue();
    assertThat(time.best()).isEqualTo(0.0003, within(1e-9));
    assertThat(secondsOfRepeats(time)).isLessThan(4);
    assertThat(time(0.9, call -> 0.04, 2.0).settled()).isFalse();
  }

  @Test
  void goesOnWhileTimesImprove() {
    Stopwatch time = time(0.5, call -> call < 20 ? 0.1 * Math.pow(0.9, call) : 0.001, null);

    assertThat(time.settled()).isTrue();
    assertThat(time.best()).isEqualTo(0.001, within(1e-9));
  }

  @Test
  void saysWhereItWasCutShort() {
    Stopwatch time = time(3, call -> 1.5 * Math.pow(0.8, call), null);

    assertThat(time.settled()).isFalse();
    assertThat(secondsOfRepeats(time)).isBetween(6.0, 7.5);
    assertThat(time.describe()).contains(" repeats, still warming up), first call 3.00 s");
    assertThat(time.json()).containsEntry("settled", false);
  }

  @Test
  void repeatsNoSlowJobUnasked() {
    Stopwatch time = time(5.1, call -> 0.1, null);

    assertThat(time.repeats()).isZero();
    assertThat(time.describe()).isEqualTo("5.10 s, one call in a cold JVM");
  }

  @Test
  void repeatsAsLongAsAsked() {
    assertThat(time(60, call -> 1, 7.5).repeats()).isEqualTo(8);
    assertThat(time(0.1, call -> 1e-3, 30.0).repeats()).isEqualTo(30_000);
    assertThat(time(0.1, call -> 0.01, 0.045).repeats()).isEqualTo(5);
    assertThat(time(0.1, call -> 1, 0.0).repeats()).isZero();
  }
}
