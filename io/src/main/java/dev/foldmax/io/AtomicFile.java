package dev.foldmax.io;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.HexFormat;
import java.util.concurrent.ThreadLocalRandom;

/** Writes a file whole or not at all. */
final class AtomicFile {
  private AtomicFile() {}

  /** What to write. */
  @FunctionalInterface
  interface Content {
    void writeTo(FileChannel channel) throws IOException;
  }

  /**
   * Writes a new file under a temporary name in the target's folder, then moves it to its name in
   * one step where the file system can. Whatever fails, the temporary file is removed and a file
   * that had the name before stays as it was. Where the target is a symbolic link, the file that it
   * points to is replaced.
   */
  static void write(Path target, Content content) throws IOException {
    Path file = Files.exists(target) ? target.toRealPath() : target.toAbsolutePath();
    if (Files.exists(file) && !Files.isRegularFile(file)) {
      throw new FileSystemException(target.toString(), null, "is not a regular file");
    }
    Path folder = file.getParent();
    if (folder == null || !Files.isDirectory(folder)) {
      throw new NoSuchFileException(target.toString(), null, "its folder does not exist");
    }
    // Not Files.createTempFile, whose files their owner alone may read. The name is short, for one
    // made from the target's could be too long.
    String id = HexFormat.of().toHexDigits(ThreadLocalRandom.current().nextLong());
    Path temporary = folder.resolve(".foldmax-" + id + ".tmp");
    FileChannel channel =
        FileChannel.open(temporary, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
    try {
      try (channel) {
        content.writeTo(channel);
        channel.force(true);
      }
      move(temporary, file);
    } catch (Throwable e) {
      try {
        Files.deleteIfExists(temporary);
      } catch (IOException suppressed) {
        e.addSuppressed(suppressed);
      }
      throw e;
    }
  }

  private static void move(Path from, Path to) throws IOException {
    try {
      Files.move(from, to, StandardCopyOption.ATOMIC_MOVE);
    } catch (AtomicMoveNotSupportedException e) {
      Files.move(from, to, StandardCopyOption.REPLACE_EXISTING);
    }
  }
}
