package dev.foldmax.cuda;

import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Compiled code on disk, so that a specialisation is compiled once for a user and not once for a
 * process. Files appear whole (written under another name, then moved) and carry a checksum, so
 * several processes may share a folder, and a damaged file is as good as none. Where the folder
 * cannot be used, nothing is kept, and one line in the log says so.
 */
final class CodeCache {
  private static final System.Logger LOG = System.getLogger("dev.foldmax.cuda");

  /** In front of each file, with the form's version; the checksum follows, then the code. */
  private static final byte[] MAGIC = "foldmax1".getBytes(StandardCharsets.US_ASCII);

  private final Path folder;
  private final AtomicBoolean told = new AtomicBoolean();

  CodeCache(Path folder) {
    this.folder = folder;
  }

  /** In the user's folder for caches. */
  static CodeCache ofUser() {
    return new CodeCache(folder(System::getProperty, System::getenv).resolve("cuda"));
  }

  /** Where caches go: as told by foldmax.cache, or as is usual on the system. */
  static Path folder(
      Function<String, @Nullable String> properties, Function<String, @Nullable String> variables) {
    String told = properties.apply("foldmax.cache");
    if (told != null && !told.isBlank()) {
      return Path.of(told);
    }
    for (String variable : new String[] {"XDG_CACHE_HOME", "LOCALAPPDATA"}) {
      String root = variables.apply(variable);
      if (root != null && !root.isBlank()) {
        return Path.of(root, "foldmax");
      }
    }
    String home = properties.apply("user.home");
    return Path.of(home == null ? "." : home, ".cache", "foldmax");
  }

  /**
   * What was stored under a key, if it is there and whole.
   *
   * @param key letters and digits
   */
  Optional<byte[]> read(String key) {
    Path file = file(key);
    byte[] all;
    // Not by a channel, which an interrupted thread cannot read from.
    try (InputStream in = new FileInputStream(file.toFile())) {
      all = in.readAllBytes();
    } catch (IOException e) {
      return Optional.empty();
    }
    int begin = MAGIC.length + Digest.BYTES;
    if (all.length <= begin) {
      return Optional.empty();
    }
    byte[] code = Arrays.copyOfRange(all, begin, all.length);
    boolean whole =
        Arrays.equals(all, 0, MAGIC.length, MAGIC, 0, MAGIC.length)
            && Arrays.equals(
                all, MAGIC.length, begin, new Digest().add(code).bytes(), 0, Digest.BYTES);
    return whole ? Optional.of(code) : Optional.empty();
  }

  /** Stores code under a key; a failure is not the caller's concern. */
  void write(String key, byte[] code) {
    try {
      Files.createDirectories(folder);
      Path part = Files.createTempFile(folder, key.substring(0, 8), ".part");
      try {
        try (OutputStream out = new FileOutputStream(part.toFile())) {
          out.write(MAGIC);
          out.write(new Digest().add(code).bytes());
          out.write(code);
        }
        Files.move(part, file(key), StandardCopyOption.ATOMIC_MOVE);
      } finally {
        Files.deleteIfExists(part);
      }
    } catch (IOException e) {
      if (told.compareAndSet(false, true)) {
        LOG.log(
            System.Logger.Level.INFO,
            "kernels are compiled anew by each process, since "
                + folder
                + " cannot be written ("
                + e
                + "); -Dfoldmax.cache=<folder> names another");
      }
    }
  }

  private Path file(String key) {
    return folder.resolve(key + ".bin");
  }
}
