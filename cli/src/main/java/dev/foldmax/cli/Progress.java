package dev.foldmax.cli;

import java.io.Console;
import java.io.PrintWriter;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * A progress bar on a terminal, for work that takes longer than a second. It draws on the standard
 * error stream, from a thread of its own, and leaves nothing behind. Where there is no terminal it
 * does nothing.
 */
final class Progress implements AutoCloseable {
  private static final Duration DELAY = Duration.ofSeconds(1);
  private static final Duration INTERVAL = Duration.ofMillis(200);
  private static final int WIDTH = 30;

  private final String what;
  private final PrintWriter err;
  private final long start = System.nanoTime();
  private final @Nullable Thread painter;
  private volatile double done;
  private boolean drawn;

  private Progress(String what, PrintWriter err, boolean onTerminal, Duration delay) {
    this.what = what;
    this.err = err;
    this.painter =
        onTerminal
            ? Thread.ofPlatform().daemon().name("progress").unstarted(() -> paint(delay))
            : null;
  }

  /** Starts a bar of something on the terminal, if there is one. */
  static Progress start(String what, PrintWriter err) {
    return start(what, err, onTerminal(), DELAY);
  }

  /** The same, with what tells a test's bar from a user's. */
  static Progress start(String what, PrintWriter err, boolean onTerminal, Duration delay) {
    Progress progress = new Progress(what, err, onTerminal, delay);
    if (progress.painter != null) {
      progress.painter.start();
    }
    return progress;
  }

  /** Whether someone watches. */
  @SuppressWarnings("SystemConsoleNull") // JDK 25 has gone back to null where there is no terminal.
  static boolean onTerminal() {
    Console console = System.console();
    return console != null && console.isTerminal();
  }

  /** Whether this one is drawn, should it last. */
  boolean isVisible() {
    return painter != null;
  }

  /** Says how far the work has come: a share from 0 to 1. */
  void reach(double share) {
    done = share;
  }

  private void paint(Duration delay) {
    try {
      Thread.sleep(delay);
      while (true) {
        draw();
        Thread.sleep(INTERVAL);
      }
    } catch (InterruptedException e) {
      if (drawn) {
        err.print("\r\033[K");
        err.flush();
      }
    }
  }

  private void draw() {
    double share = done;
    double elapsed = (System.nanoTime() - start) * 1e-9;
    int full = (int) (share * WIDTH);
    StringBuilder bar = new StringBuilder("\r").append(what);
    // Before the first part is complete there is no telling how far it is.
    if (share > 0) {
      bar.append(" [").append("#".repeat(full)).append(".".repeat(WIDTH - full)).append("] ");
      bar.append(Math.round(share * 100)).append(" %");
    }
    bar.append("  ").append(Math.round(elapsed)).append(" s");
    if (share > 0) {
      bar.append(", about ").append(Math.round(elapsed * (1 - share) / share)).append(" s left");
    }
    err.print(bar.append("\033[K"));
    err.flush();
    drawn = true;
  }

  /** Takes the bar away. */
  @Override
  public void close() {
    if (painter == null) {
      return;
    }
    painter.interrupt();
    boolean interrupted = false;
    while (true) {
      try {
        painter.join();
        break;
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
