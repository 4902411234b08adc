package dev.foldmax.cli;

import java.io.Console;
import java.io.PrintWriter;
import java.io.Writer;
import java.time.Duration;
import java.util.function.DoubleSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Tells how far work is that takes longer than a second: a bar on a terminal, or lines now and
 * then, on the standard error stream, from a thread of its own. The bar leaves nothing behind.
 */
final class Progress implements AutoCloseable {
  /** How it is told. */
  enum Form {
    /** By a bar, on a terminal; else not at all. */
    AUTO,
    /** By lines, for a log. */
    LINES,
    /** Not at all. */
    NONE
  }

  /**
   * All of the work.
   *
   * @param amount in units, or 0 if it is not counted in such
   * @param unit such as GB
   */
  record Work(double amount, String unit) {
    /** Work whose rate says nothing. */
    static final Work UNCOUNTED = new Work(0, "");
  }

  /** When and how often it is told. */
  record Pace(Duration delay, Duration interval) {
    private static final Pace OF_BAR = new Pace(Duration.ofSeconds(1), Duration.ofMillis(200));
    private static final Pace OF_LINES = new Pace(Duration.ofSeconds(10), Duration.ofSeconds(10));
  }

  /** The part of the work that is under way: from a share to another, and how far it is. */
  private record Part(double from, double to, DoubleSupplier within) {
    double reached() {
      double share = within.getAsDouble();
      return Double.isNaN(share) ? from : from + (to - from) * share;
    }
  }

  private static final int WIDTH = 30;

  private final String what;
  private final Work work;
  private final PrintWriter err;
  private final boolean isBar;
  private final long start = System.nanoTime();
  private final @Nullable Thread painter;
  private volatile Part part = new Part(0, 1, () -> 0);

  /** What was told last: it never falls, though a backend may start a part again. */
  private double told;

  private boolean drawn;

  private Progress(String what, Work work, PrintWriter err, boolean isBar, @Nullable Pace pace) {
    this.what = what;
    this.work = work;
    this.err = err;
    this.isBar = isBar;
    this.painter =
        pace == null
            ? null
            : Thread.ofPlatform().daemon().name("progress").unstarted(() -> paint(pace));
  }

  /** Starts to tell of something, in the form that the user wants. */
  static Progress start(String what, Work work, Form form, PrintWriter err) {
    return switch (form) {
      case AUTO -> start(what, work, err, true, onTerminal() ? Pace.OF_BAR : null);
      case LINES -> start(what, work, err, false, Pace.OF_LINES);
      case NONE -> start(what, work, err, false, null);
    };
  }

  /** Tells nobody. */
  static Progress silent() {
    return new Progress("", Work.UNCOUNTED, new PrintWriter(Writer.nullWriter()), false, null);
  }

  /** The same with what tells a test's from a user's; without a pace nothing is told. */
  static Progress start(
      String what, Work work, PrintWriter err, boolean isBar, @Nullable Pace pace) {
    Progress progress = new Progress(what, work, err, isBar, pace);
    if (progress.painter != null) {
      progress.painter.start();
    }
    return progress;
  }

  /** Whether there is a terminal. */
  @SuppressWarnings("SystemConsoleNull") // JDK 25 has gone back to null where there is no terminal.
  private static boolean onTerminal() {
    Console console = System.console();
    return console != null && console.isTerminal();
  }

  /** Says how far the work has come: a share from 0 to 1. */
  void reach(double share) {
    part = new Part(share, share, () -> 0);
  }

  /**
   * Says that a part of the work begins.
   *
   * @param from how far the work has come: a share from 0 to 1
   * @param to how far it will have come after this part
   * @param within asked for how far the part is, from 0 to 1, or NaN if that is not known
   */
  void begin(double from, double to, DoubleSupplier within) {
    part = new Part(from, to, within);
  }

  private void paint(Pace pace) {
    try {
      Thread.sleep(pace.delay());
      while (true) {
        draw();
        Thread.sleep(pace.interval());
      }
    } catch (InterruptedException e) {
      if (drawn) {
        err.print("\r\033[K");
        err.flush();
      }
    }
  }

  private void draw() {
    told = Math.max(told, part.reached());
    double elapsed = (System.nanoTime() - start) * 1e-9;
    StringBuilder text = new StringBuilder(what);
    // Before there is something done there is no telling how far it is.
    if (told > 0) {
      int full = (int) (told * WIDTH);
      if (isBar) {
        text.append(" [").append("#".repeat(full)).append(".".repeat(WIDTH - full)).append("]");
      }
      text.append(" ").append(Math.round(told * 100)).append(" %");
      if (work.amount() > 0 && elapsed > 0) {
        String rate = Quantity.significant(told * work.amount() / elapsed);
        text.append("  ").append(rate).append(" ").append(work.unit()).append("/s");
      }
    }
    text.append("  ").append(Math.round(elapsed)).append(" s");
    if (told > 0) {
      text.append(", about ").append(Math.round(elapsed * (1 - told) / told)).append(" s left");
    }
    if (isBar) {
      err.print("\r" + text + "\033[K");
    } else {
      err.println(text);
    }
    err.flush();
    drawn = isBar;
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
