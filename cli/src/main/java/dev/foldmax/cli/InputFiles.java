package dev.foldmax.cli;

import dev.foldmax.Tensor;
import dev.foldmax.io.NpyFile;
import dev.foldmax.io.PartialFile;
import dev.foldmax.io.SafeTensors;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** The files that a command reads, mapped until this is closed. */
final class InputFiles implements AutoCloseable {
  private static final int MOST_NAMES = 12;

  private final List<Runnable> closers = new ArrayList<>();
  private final Map<Path, BasicFileAttributes> seen = new LinkedHashMap<>();

  /** What reads files. */
  @FunctionalInterface
  interface Job {
    void run() throws IOException;
  }

  /** Whether a file is, by its name, of the format. */
  static boolean isSafeTensors(Path path) {
    return path.toString().toLowerCase(Locale.ROOT).endsWith(".safetensors");
  }

  /** Whether a file is, by its name, of the format. */
  static boolean isNpy(Path path) {
    return path.toString().toLowerCase(Locale.ROOT).endsWith(".npy");
  }

  /** Maps an .npy file. */
  Source npy(Path path, String name) throws IOException {
    look(path);
    NpyFile file = NpyFile.open(path);
    closers.add(file::close);
    return new Source(path.toString(), name, file.tensor());
  }

  /** Maps a .safetensors file. */
  SafeTensors safeTensors(Path path) throws IOException {
    look(path);
    SafeTensors file = SafeTensors.open(path);
    closers.add(file::close);
    return file;
  }

  /**
   * The tensor x of an .npy file, or one of a .safetensors file.
   *
   * @param tensorName which of them; null where it has only one
   */
  Source sole(Path path, @Nullable String tensorName) throws IOException {
    if (!isSafeTensors(path)) {
      return npy(path, "x");
    }
    SafeTensors tensors = safeTensors(path);
    if (tensorName == null && tensors.names().size() > 1) {
      throw new Failure(
          path + ": has the tensors " + list(tensors.names()) + "; choose one with --tensor NAME");
    }
    String name =
        tensorName == null ? tensors.names().stream().findFirst().orElse("x") : tensorName;
    return find(tensors, path, name, name)
        .orElseThrow(() -> new Failure(missing(path, name, tensors.names())));
  }

  /** Maps a file of a partial and checks it; this reads all of it. */
  PartialFile partial(Path path) throws IOException {
    look(path);
    PartialFile file = PartialFile.open(path);
    closers.add(file::close);
    return file;
  }

  /** A tensor of a file that {@link #safeTensors} has mapped, if it is there. */
  static Optional<Source> find(SafeTensors file, Path path, String tensorName, String name) {
    if (!file.has(tensorName)) {
      return Optional.empty();
    }
    Tensor tensor = file.tensor(tensorName);
    String origin = tensorName.equals(name) ? path.toString() : path + ": " + tensorName;
    return Optional.of(new Source(origin, name, tensor));
  }

  /** Some of the names of tensors, for messages. */
  static String list(Collection<String> names) {
    String first = names.stream().limit(MOST_NAMES).collect(Collectors.joining(", "));
    return names.size() <= MOST_NAMES
        ? first
        : first + " and " + (names.size() - MOST_NAMES) + " more";
  }

  /** What to say of a tensor that a file lacks. */
  static String missing(Path file, String name, Collection<String> names) {
    return file
        + (names.isEmpty()
            ? ": has no tensors"
            : ": has no tensor " + name + ", only " + list(names));
  }

  /** Refuses what is no file, and notes what may change. */
  private void look(Path path) throws IOException {
    if (Files.notExists(path)) {
      throw new NoSuchFileException(path.toString());
    }
    if (Files.isDirectory(path)) {
      throw new Failure(path + ": is a folder, expected a file");
    }
    seen.put(path, Files.readAttributes(path, BasicFileAttributes.class));
  }

  /**
   * Runs what reads the files.
   *
   * @throws Failure if one of them was written to meanwhile: the result would be of neither state.
   *     One that was replaced is still there for those who have it open
   */
  void whileUnchanged(Job job) throws IOException {
    try {
      job.run();
    } catch (InternalError fault) { // memory behind the end of a mapped file
      checkUnchanged(fault);
      throw fault;
    }
    checkUnchanged(null);
  }

  private void checkUnchanged(@Nullable Throwable cause) throws IOException {
    for (Map.Entry<Path, BasicFileAttributes> entry : seen.entrySet()) {
      Path path = entry.getKey();
      if (Files.notExists(path)) {
        continue;
      }
      BasicFileAttributes before = entry.getValue();
      BasicFileAttributes now = Files.readAttributes(path, BasicFileAttributes.class);
      if (!Objects.equals(before.fileKey(), now.fileKey())) {
        continue;
      }
      if (now.size() < before.size()) {
        throw new Failure(path + ": was cut short while it was read", cause);
      }
      if (now.size() != before.size()
          || !now.lastModifiedTime().equals(before.lastModifiedTime())) {
        throw new Failure(path + ": changed while it was read", cause);
      }
    }
  }

  @Override
  public void close() {
    closers.forEach(Runnable::run);
  }
}
