package dev.foldmax.cli;

import java.nio.channels.ClosedByInterruptException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.FileSystemLoopException;
import java.nio.file.NoSuchFileException;
import java.util.concurrent.CancellationException;
import org.jspecify.annotations.Nullable;

/** A job that cannot be done: the message is all that its user needs. */
final class Failure extends RuntimeException {
  private static final long serialVersionUID = 1;

  Failure(String message) {
    super(message);
  }

  Failure(String message, @Nullable Throwable cause) {
    super(message, cause);
  }

  /** What went wrong, in one line. */
  static String message(Throwable exception) {
    String own = exception.getMessage() == null ? "" : exception.getMessage();
    String text =
        switch (exception) {
          case OutOfMemoryError error when own.contains("heap") ->
              "out of memory (" + own + "); FOLDMAX_JAVA_OPTS=-Xmx8g, say, allows a larger heap";
          case OutOfMemoryError error -> "out of memory (" + own + ")";
          case InternalError error ->
              "a mapped file could not be read or written: it was cut short, or its disk is full or"
                  + " fails ("
                  + own
                  + ")";
          case FileSystemException file when file.getReason() != null -> own;
          case NoSuchFileException missing -> missing.getFile() + ": no such file";
          case AccessDeniedException denied -> denied.getFile() + ": permission denied";
          case FileSystemLoopException loop -> loop.getFile() + ": its links go round in circles";
          case FileSystemException other -> other.getFile() + ": " + name(other);
          case ClosedByInterruptException interrupt -> "interrupted";
          case CancellationException interrupt -> "interrupted";
          default -> own.isEmpty() ? name(exception) : own;
        };
    return printable(text);
  }

  /** On one line: names come from files and may hold anything, such as commands to a terminal. */
  static String printable(String text) {
    return text.strip().replaceAll("\\s*\\R\\s*", " ").replaceAll("[\\p{Cc}\\p{Cf}]", "?");
  }

  private static String name(Throwable exception) {
    return exception.getClass().getSimpleName();
  }
}
