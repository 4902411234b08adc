package dev.foldmax.cli;

import dev.foldmax.Tensor;
import dev.foldmax.io.NpyFile;
import dev.foldmax.io.SafeTensors;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Map;
import java.util.stream.Collectors;
import picocli.CommandLine;
import picocli.CommandLine.ParameterException;

/**
 * A file to write; its name's ending says in which format.
 *
 * @param option the option that named it
 * @param path where it goes
 */
record OutputFile(String option, Path path) {
  /**
   * Refuses a name without a format and one that is also an input's.
   *
   * @throws ParameterException for a command line that must be changed
   */
  void validate(CommandLine command, Collection<Path> inputs) {
    if (!InputFiles.isSafeTensors(path) && !InputFiles.isNpy(path)) {
      throw new ParameterException(
          command, option + ": expected a file that ends in .npy or .safetensors, got " + path);
    }
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

  /**
   * Whether two names are those of one file, existing or not.
   *
   * @param other a file
   */
  boolean isSameFile(Path other) {
    return isSameFile(path, other);
  }

  private static boolean isSameFile(Path one, Path other) {
    try {
      if (Files.exists(one) && Files.exists(other)) {
        return Files.isSameFile(one, other);
      }
    } catch (IOException e) {
      // Then the names decide.
    }
    return one.toAbsolutePath().normalize().equals(other.toAbsolutePath().normalize());
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
