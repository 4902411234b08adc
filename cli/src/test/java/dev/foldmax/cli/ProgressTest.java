package dev.foldmax.cli;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.cli.Progress.Form;
import dev.foldmax.cli.Progress.Work;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** The progress bar. */
class ProgressTest {
  private final StringWriter terminal = new StringWriter();
  private final PrintWriter err = new PrintWriter(terminal);

  private static final Progress.Pace AT_ONCE =
      new Progress.Pace(Duration.ZERO, Duration.ofMillis(50));

  private void await(String text) throws InterruptedException {
    while (!terminal.toString().contains(text)) {
      Thread.sleep(1);
    }
  }

  @Test
  void drawsAndCleansUp() throws Exception {
    try (Progress progress = Progress.start("attend", Work.UNCOUNTED, err, true, AT_ONCE)) {
      progress.reach(0.5);
      await("%");
    }

    assertThat(terminal.toString())
        .contains("attend [###############...............] 50 %  0 s, about 0 s left")
        .endsWith("\r\033[K")
        .doesNotContain("\n");
  }

  @Test
  void tellsNothingBeforeTheFirstPart() throws Exception {
    try (Progress progress = Progress.start("attend", Work.UNCOUNTED, err, true, AT_ONCE)) {
      progress.begin(0, 1, () -> Double.NaN);
      await("s");
    }

    assertThat(terminal.toString()).startsWith("\rattend  0 s\033[K");
  }

  @Test
  void tellsTheRateAndHowFarAPartIs() throws Exception {
    Work work = new Work(1e-9, "GB");
    try (Progress progress = Progress.start("softmax", work, err, true, AT_ONCE)) {
      progress.begin(0.5, 1, () -> 0.8);
      await("%");
    }

    assertThat(terminal.toString())
        .containsPattern("\\] 90 %  [-+.0-9e]+ GB/s  0 s, about 0 s left");
  }

  @Test
  void neverFalls() throws Exception {
    try (Progress progress = Progress.start("attend", Work.UNCOUNTED, err, true, AT_ONCE)) {
      progress.reach(0.5);
      await("50 %");
      progress.begin(0, 0.8, () -> 0.2);
      terminal.getBuffer().setLength(0);
      await("%");
      progress.begin(0.4, 0.8, () -> 0.5);
      await("60 %");
    }

    assertThat(terminal.toString()).contains("50 %").doesNotContain("16 %");
  }

  @Test
  void writesLinesForALog() throws Exception {
    try (Progress progress = Progress.start("attend", Work.UNCOUNTED, err, false, AT_ONCE)) {
      progress.reach(0.25);
      await("left" + System.lineSeparator());
    }

    assertThat(terminal.toString())
        .startsWith("attend 25 %  0 s, about 0 s left" + System.lineSeparator())
        .doesNotContain("\033", "\r\r");
  }

  @Test
  void isSilentWhenQuickOrUnwatched() {
    Progress.Pace late = new Progress.Pace(Duration.ofMinutes(1), Duration.ofMinutes(1));
    Progress.start("attend", Work.UNCOUNTED, err, true, late).close();
    try (Progress progress = Progress.start("attend", Work.UNCOUNTED, err, true, null)) {
      progress.reach(0.5);
    }
    try (Progress progress = Progress.start("attend", Work.UNCOUNTED, Form.NONE, err)) {
      progress.reach(0.5);
    }

    assertThat(terminal.toString()).isEmpty();
  }
}
