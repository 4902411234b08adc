package dev.foldmax.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** The progress bar. */
class ProgressTest {
  private final StringWriter terminal = new StringWriter();
  private final PrintWriter err = new PrintWriter(terminal);

  @Test
  void drawsAndCleansUp() throws Exception {
    try (Progress progress = Progress.start("attend", err, true, Duration.ZERO)) {
      progress.reach(0.5);
      while (!terminal.toString().contains("%")) {
        Thread.sleep(1);
      }
    }

    assertThat(terminal.toString())
        .contains("attend [###############...............] 50 %  0 s, about 0 s left")
        .endsWith("\r\033[K")
        .doesNotContain("\n");
  }

  @Test
  void tellsNothingBeforeTheFirstPart() throws Exception {
    try (Progress progress = Progress.start("attend", err, true, Duration.ZERO)) {
      assertThat(progress.isVisible()).isTrue();
      while (terminal.toString().isEmpty()) {
        Thread.sleep(1);
      }
    }

    assertThat(terminal.toString()).startsWith("\rattend  0 s\033[K");
  }

  @Test
  void isSilentWhenQuickOrUnwatched() {
    Progress.start("attend", err, true, Duration.ofMinutes(1)).close();
    try (Progress progress = Progress.start("attend", err, false, Duration.ZERO)) {
      progress.reach(0.5);
      assertThat(progress.isVisible()).isFalse();
    }

    assertThat(terminal.toString()).isEmpty();
  }
}
