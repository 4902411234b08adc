package dev.foldmax.benchmarks;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Where the libraries of PyTorch and ONNX Runtime lie, if they do.
 *
 * @param torch {@code libtorch_cpu.so}
 * @param onnxRuntime {@code libonnxruntime.so}
 */
record PeerLibraries(Optional<Path> torch, Optional<Path> onnxRuntime) {
  /** The system property with the folders to search, separated as in a class path. */
  static final String FOLDERS = "foldmax.peers";

  private static final int MAX_DEPTH = 6;

  /**
   * Why a folder gives no peer, as when its name is misspelt.
   *
   * @return a sentence, or nothing where a library lies below it
   */
  static Optional<String> complaint(Path folder) {
    if (!Files.isDirectory(folder)) {
      return Optional.of(folder + " is no folder");
    }
    PeerLibraries found = in(folder.toString());
    return found.torch.isEmpty() && found.onnxRuntime.isEmpty()
        ? Optional.of(folder + " holds neither libtorch_cpu.so nor libonnxruntime.so")
        : Optional.empty();
  }

  /** Those below the folders that the system property names. */
  static PeerLibraries here() {
    return in(System.getProperty(FOLDERS, ""));
  }

  /** Those below some folders, separated as in a class path. */
  static PeerLibraries in(String folders) {
    return new PeerLibraries(find(folders, "libtorch_cpu.so"), find(folders, "libonnxruntime.so"));
  }

  /** Who can be measured, in order. */
  List<Contender> contenders() {
    return Arrays.stream(Contender.values())
        .filter(
            contender ->
                switch (contender) {
                  case FOLDMAX, NAIVE -> true;
                  case PYTORCH -> torch.isPresent();
                  case ONNX_RUNTIME -> onnxRuntime.isPresent();
                })
        .toList();
  }

  /** The first file whose name begins with {@code name}: a version may follow. */
  private static Optional<Path> find(String folders, String name) {
    for (String folder : folders.split(File.pathSeparator, -1)) {
      if (folder.isEmpty()) {
        continue;
      }
      try (Stream<Path> files =
          Files.find(
              Path.of(folder),
              MAX_DEPTH,
              (path, attributes) ->
                  path.getFileName().toString().startsWith(name) && Files.isRegularFile(path))) {
        Optional<Path> first = files.sorted().findFirst();
        if (first.isPresent()) {
          return first.map(Path::toAbsolutePath);
        }
      } catch (IOException e) {
        throw new UncheckedIOException("cannot search " + folder, e);
      }
    }
    return Optional.empty();
  }
}
