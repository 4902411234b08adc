package dev.foldmax.cli;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import dev.foldmax.io.MappedOutput;
import dev.foldmax.io.NpyFile;
import dev.foldmax.io.SafeTensors;
import dev.foldmax.io.SafeTensors.Description;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.ParameterException;

/**
 * A file to write; its name's ending says in which format.
 *
 * @param option the option that named it
 * @param path where it goes
 */
record OutputFile(String option, Path path) {
  /** As many links as a path may follow before it is taken to go round in circles. */
  private static final int MOST_LINKS = 40;

  /**
   * The files of {@code --out} and {@code --lse}. One .safetensors file may be both, and is then
   * that of {@code --out} alone.
   *
   * @param inputs files that must not be overwritten
   * @throws ParameterException for a command line that must be changed
   */
  static List<OutputFile> of(
      CommandLine command, @Nullable Path out, @Nullable Path lse, Collection<Path> inputs) {
    List<OutputFile> files = new ArrayList<>();
    if (out != null) {
      files.add(new OutputFile("--out", out));
    }
    if (lse != null) {
      files.add(new OutputFile("--lse", lse));
    }
    for (OutputFile file : files) {
      file.validate(command, inputs);
    }
    if (out != null && lse != null && isSameFile(out, lse)) {
      if (!InputFiles.isSafeTensors(out)) {
        throw new ParameterException(command, "--out and --lse name the same file, " + out);
      }
      files.removeLast();
    }
    return files;
  }

  /**
   * The file of {@code --partial}.
   *
   * @param inputs files that must not be overwritten
   * @throws ParameterException for a command line that must be changed
   */
  static OutputFile partial(CommandLine command, Path path, Collection<Path> inputs) {
    OutputFile file = new OutputFile(PartOptions.PARTIAL, path);
    if (!file.isSafeTensors()) {
      throw new ParameterException(
          command, file.option + ": expected a file that ends in .safetensors, got " + path);
    }
    file.validate(command, inputs);
    return file;
  }

  /**
   * Refuses a name without a format and one that is also an input's.
   *
   * @throws ParameterException for a command line that must be changed
   */
  private void validate(CommandLine command, Collection<Path> inputs) {
    if (!InputFiles.isSafeTensors(path) && !InputFiles.isNpy(path)) {
      throw new ParameterException(
          command, option + ": expected a file that ends in .npy or .safetensors, got " + path);
    }
    refuseInputs(command, inputs);
  }

  /**
   * Refuses a name that is also an input's.
   *
   * @throws ParameterException for a command line that must be changed
   */
  void refuseInputs(CommandLine command, Collection<Path> inputs) {
    for (Path input : inputs) {
      if (isSameFile(input, path)) {
        throw new ParameterException(
            command, option + " " + path + " would overwrite the input " + input);
      }
    }
  }

  /** Finds out before a long job, not after it, that its result has no place. */
  void checkPlace() {
    Path folder = path.toAbsolutePath().getParent();
    if (folder == null || !Files.isDirectory(folder)) {
      throw new Failure(path + ": its folder does not exist");
    }
    if (Files.isDirectory(path)) {
      throw new Failure(path + ": is a folder, expected a file");
    }
    if (!Files.isWritable(folder)) {
      throw new Failure(path + ": its folder is not writable");
    }
  }

  /** Whether several tensors fit. */
  boolean isSafeTensors() {
    return InputFiles.isSafeTensors(path);
  }

  /** Whether two names are those of one file, existing or not. */
  private static boolean isSameFile(Path one, Path other) {
    try {
      if (Files.exists(one) && Files.exists(other)) {
        return Files.isSameFile(one, other);
      }
    } catch (IOException e) {
      // Then the names decide.
    }
    return behindLinks(one).equals(behindLinks(other));
  }

  /**
   * The path of a file without links, be it there or not; the file behind a link to what is not
   * there yet.
   */
  private static Path behindLinks(Path path) {
    Path file = path.toAbsolutePath();
    try {
      for (int links = 0; links < MOST_LINKS && Files.isSymbolicLink(file); links++) {
        file = file.resolveSibling(Files.readSymbolicLink(file));
      }
      for (Path spelling : List.of(file, file.normalize())) {
        Path folder = spelling.getParent();
        Path name = spelling.getFileName();
        if (folder != null && name != null && Files.isDirectory(folder)) {
          return folder.toRealPath().resolve(name);
        }
      }
    } catch (IOException e) {
      // Then the name has to do.
    }
    return file.normalize();
  }

  /** The file and what is in it, for people. */
  String describe(Map<String, Tensor> tensors) {
    return path
        + ": "
        + tensors.entrySet().stream()
            .map(entry -> entry.getKey() + " " + Quantity.tensor(entry.getValue()))
            .collect(Collectors.joining(", "));
  }

  /**
   * Begins the file.
   *
   * @param tensors by name; exactly one for an .npy file, which has F32 in place of BF16
   */
  MappedOutput create(Map<String, Description> tensors) throws IOException {
    if (isSafeTensors()) {
      return SafeTensors.create(path, tensors, Map.of());
    }
    Description only = tensors.values().iterator().next();
    long[] shape = only.shape().stream().mapToLong(Long::longValue).toArray();
    return NpyFile.create(path, only.dtype() == DType.BF16 ? DType.F32 : only.dtype(), shape);
  }

  /**
   * Writes the file, whole or not at all.
   *
   * @param tensors by name; exactly one for an .npy file
   */
  void write(Map<String, Tensor> tensors) throws IOException {
    if (isSafeTensors()) {
      SafeTensors.write(path, tensors, Map.of());
    } else {
      NpyFile.write(path, tensors.values().iterator().next());
    }
  }
}
