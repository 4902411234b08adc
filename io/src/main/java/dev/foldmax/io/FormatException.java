package dev.foldmax.io;

import java.io.IOException;
import java.nio.file.Path;

/**
 * A file that is not what its format demands, or that holds what Foldmax does not read. The message
 * is one line: the file, then what is wrong with it.
 */
public final class FormatException extends IOException {
  private static final long serialVersionUID = 1;

  /** Names and texts in a message come from the file and may be of any length. */
  private static final int MAX_MESSAGE = 1000;

  FormatException(Path file, String problem) {
    super(oneLine(file + ": " + problem));
  }

  FormatException(Path file, String problem, Throwable cause) {
    super(oneLine(file + ": " + problem), cause);
  }

  /** Escapes what would break the line or command a terminal, and cuts what is too long. */
  static String oneLine(String text) {
    StringBuilder line = new StringBuilder();
    for (int i = 0; i < text.length() && line.length() < MAX_MESSAGE; i++) {
      char c = text.charAt(i);
      switch (Character.getType(c)) {
        case Character.CONTROL,
            Character.FORMAT,
            Character.LINE_SEPARATOR,
            Character.PARAGRAPH_SEPARATOR ->
            line.append(String.format("\\u%04x", (int) c));
        default -> line.append(c);
      }
    }
    return line.length() < MAX_MESSAGE ? line.toString() : line.append("...").toString();
  }
}
