package dev.foldmax.io;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.FileSystemException;
import java.nio.file.FileSystemLoopException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.HexFormat;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import org.jspecify.annotations.Nullable;

/** Writes a file whole or not at all. */
public final class AtomicFile {
  private AtomicFile() {}

  /** What to write. */
  @FunctionalInterface
  interface Content {
    void writeTo(FileChannel channel) throws IOException;
  }

  /**
   * Writes a file of the given bytes, or leaves what was there.
   *
   * @throws FileSystemException that names the target, whatever cannot be written
   */
  public static void write(Path target, byte[] bytes) throws IOException {
    write(
        target,
        channel -> {
          ByteBuffer rest = ByteBuffer.wrap(bytes);
          while (rest.hasRemaining()) {
            channel.write(rest);
          }
        });
  }

  /** As many links as a path may follow before it is taken to go round in circles. */
  private static final int MOST_LINKS = 40;

  /**
   * Writes a new file under a temporary name in the target's folder, then moves it to its name in
   * one step where the file system can. Whatever fails, the temporary file is removed and a file
   * that had the name before stays as it was; its permissions become those of the new one. Where
   * the target is a symbolic link, the file that it points to is made or replaced.
   *
   * <p>Only a process that is killed leaves its temporary file behind. The next does not mind: each
   * takes a random name.
   *
   * @throws FileSystemException that names the target, whatever cannot be written
   */
  static void write(Path target, Content content) throws IOException {
    Path file = behindLinks(target);
    if (Files.exists(file) && !Files.isRegularFile(file)) {
      throw new FileSystemException(target.toString(), null, "is not a regular file");
    }
    Path folder = file.getParent();
    if (folder == null || !Files.isDirectory(folder)) {
      throw noFolder(target);
    }
    // Not Files.createTempFile, whose files their owner alone may read. The name is short, for one
    // made from the target's could be too long.
    String id = HexFormat.of().toHexDigits(ThreadLocalRandom.current().nextLong());
    Path temporary = folder.resolve(".foldmax-" + id + ".tmp");
    try {
      write(temporary, file, content);
    } catch (ClosedByInterruptException e) {
      throw e;
    } catch (NoSuchFileException e) {
      throw named(noFolder(target), e);
    } catch (AccessDeniedException e) {
      throw named(new AccessDeniedException(target.toString(), null, e.getReason()), e);
    } catch (FileSystemException e) {
      throw named(new FileSystemException(target.toString(), null, e.getReason()), e);
    } catch (IOException e) {
      throw named(new FileSystemException(target.toString(), null, e.getMessage()), e);
    }
  }

  private static IOException noFolder(Path target) {
    return new NoSuchFileException(target.toString(), null, "its folder does not exist");
  }

  private static IOException named(IOException named, IOException cause) {
    named.initCause(cause);
    return named;
  }

  private static void write(Path temporary, Path file, Content content) throws IOException {
    Set<PosixFilePermission> permissions = permissions(file);
    try {
      try (FileChannel channel = create(temporary, permissions)) {
        if (permissions != null) { // those that the process's mask takes from a new file
          Files.setPosixFilePermissions(temporary, permissions);
        }
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

  private static FileChannel create(Path file, @Nullable Set<PosixFilePermission> permissions)
      throws IOException {
    Set<StandardOpenOption> options =
        Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
    return permissions == null
        ? FileChannel.open(file, options)
        : FileChannel.open(file, options, PosixFilePermissions.asFileAttribute(permissions));
  }

  /** The permissions of a file; null if there is none, or none are kept here. */
  private static @Nullable Set<PosixFilePermission> permissions(Path file) throws IOException {
    PosixFileAttributeView view = Files.getFileAttributeView(file, PosixFileAttributeView.class);
    return view == null || !Files.exists(file) ? null : view.readAttributes().permissions();
  }

  /** What a path leads to, whether or not there is anything. */
  private static Path behindLinks(Path target) throws IOException {
    Path file = target.toAbsolutePath();
    for (int links = 0; Files.isSymbolicLink(file); links++) {
      if (links == MOST_LINKS) {
        throw new FileSystemLoopException(target.toString());
      }
      file = file.resolveSibling(Files.readSymbolicLink(file));
    }
    return file;
  }

  private static void move(Path from, Path to) throws IOException {
    try {
      Files.move(from, to, StandardCopyOption.ATOMIC_MOVE);
    } catch (AtomicMoveNotSupportedException e) {
      Files.move(from, to, StandardCopyOption.REPLACE_EXISTING);
    }
  }
}
