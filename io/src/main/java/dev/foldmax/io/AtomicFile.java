package dev.foldmax.io;

import java.io.Closeable;
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

/**
 * A file that is written whole or not at all: under a temporary name in the target's folder, until
 * {@link #commit} moves it to its name in one step where the file system can. Whatever fails, the
 * temporary file is removed and a file that had the name before stays as it was; its permissions
 * become those of the new one. Where the target is a symbolic link, the file that it points to is
 * made or replaced.
 *
 * <p>Only a process that is killed leaves its temporary file behind, {@code .foldmax-*.tmp}. The
 * next does not mind: each takes a random name.
 *
 * <p>What goes wrong is a {@link FileSystemException} that names the target.
 */
public final class AtomicFile implements Closeable {
  /** As many links as a path may follow before it is taken to go round in circles. */
  private static final int MOST_LINKS = 40;

  private final Path target;
  private final Path file;
  private final Path temporary;
  private final FileChannel channel;
  private volatile boolean committed;
  private volatile boolean discarded;

  private AtomicFile(Path target, Path file, Path temporary, FileChannel channel) {
    this.target = target;
    this.file = file;
    this.temporary = temporary;
    this.channel = channel;
  }

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

  /** Writes a whole file. */
  static void write(Path target, Content content) throws IOException {
    try (AtomicFile file = open(target)) {
      try {
        content.writeTo(file.channel());
      } catch (IOException e) {
        throw named(target, e);
      }
      file.commit();
    }
  }

  /** Makes the temporary file. */
  static AtomicFile open(Path target) throws IOException {
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
      Set<PosixFilePermission> permissions = permissions(file);
      AtomicFile result = new AtomicFile(target, file, temporary, create(temporary, permissions));
      try {
        if (permissions != null) { // those that the process's mask takes from a new file
          Files.setPosixFilePermissions(temporary, permissions);
        }
        return result;
      } catch (Throwable e) {
        try (result) {
          throw e;
        }
      }
    } catch (IOException e) {
      throw named(target, e);
    }
  }

  /** The temporary file, for reading and writing. */
  FileChannel channel() {
    return channel;
  }

  /** Where the temporary file lies. */
  Path temporary() {
    return temporary;
  }

  /**
   * Refuses a second commit, and one after the end.
   *
   * @throws IllegalStateException if there is nothing to commit any more
   */
  void checkUnderWay() {
    if (committed) {
      throw new IllegalStateException(target + ": was committed before");
    }
    if (discarded) {
      throw new IllegalStateException(target + ": was discarded, and is not committed");
    }
    if (!channel.isOpen()) {
      throw new IllegalStateException(target + ": was closed by a failure, and is not committed");
    }
  }

  /**
   * Brings what was written to the disk and moves the file to its name.
   *
   * @throws IllegalStateException if it was committed or discarded before, or a commit has failed
   */
  void commit() throws IOException {
    checkUnderWay();
    try {
      channel.force(true);
      channel.close();
      move(temporary, file);
      committed = true;
    } catch (IOException e) {
      if (discarded) {
        throw caused(new FileSystemException(target.toString(), null, "was discarded"), e);
      }
      throw named(target, e);
    }
  }

  /**
   * Removes the temporary file, from whichever thread: a commit that has not moved it yet fails.
   */
  void discard() throws IOException {
    discarded = true;
    Files.deleteIfExists(temporary);
  }

  /** Removes the temporary file, unless it has become the target. */
  @Override
  public void close() throws IOException {
    try (channel) {
      if (!committed) {
        discard();
      }
    }
  }

  /** The same failure with the target's name, not the temporary one. */
  static IOException named(Path target, IOException e) {
    return switch (e) {
      case ClosedByInterruptException interrupt -> interrupt;
      case NoSuchFileException missing -> caused(missing(target, missing), missing);
      case AccessDeniedException denied ->
          caused(new AccessDeniedException(target.toString(), null, denied.getReason()), denied);
      case FileSystemException other ->
          caused(new FileSystemException(target.toString(), null, other.getReason()), other);
      default -> caused(new FileSystemException(target.toString(), null, e.getMessage()), e);
    };
  }

  private static IOException missing(Path target, NoSuchFileException e) {
    String file = e.getFile();
    Path folder = file == null ? null : target.getFileSystem().getPath(file).getParent();
    return folder != null && Files.isDirectory(folder)
        ? new FileSystemException(target.toString(), null, "its temporary file was removed")
        : noFolder(target);
  }

  private static IOException noFolder(Path target) {
    return new NoSuchFileException(target.toString(), null, "its folder does not exist");
  }

  private static IOException caused(IOException named, IOException cause) {
    named.initCause(cause);
    return named;
  }

  private static FileChannel create(Path file, @Nullable Set<PosixFilePermission> permissions)
      throws IOException {
    Set<StandardOpenOption> options =
        Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.READ, StandardOpenOption.WRITE);
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
