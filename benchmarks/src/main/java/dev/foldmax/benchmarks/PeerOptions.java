package dev.foldmax.benchmarks;

import java.io.File;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Where the libraries of the peers lie. */
final class PeerOptions {
  static final String NAME = "--peers";

  @Spec(Spec.Target.MIXEE)
  private CommandSpec spec;

  @Option(
      names = NAME,
      split = ",",
      paramLabel = "FOLDER",
      description = "where libtorch_cpu.so and libonnxruntime.so lie, at some depth")
  private List<Path> peers = List.of();

  /** Refuses folders that hold neither. */
  void validate() {
    for (Path folder : peers) {
      PeerLibraries.complaint(folder)
          .ifPresent(
              complaint -> {
                throw new ParameterException(spec.commandLine(), NAME + ": " + complaint);
              });
    }
  }

  /** Whether there are any. */
  boolean isEmpty() {
    return peers.isEmpty();
  }

  /** The folders, separated as in a class path. */
  String folders() {
    return peers.stream()
        .map(folder -> folder.toAbsolutePath().toString())
        .collect(Collectors.joining(File.pathSeparator));
  }

  /** What tells another JVM of them: an option, or none. */
  List<String> jvmOptions() {
    return isEmpty() ? List.of() : List.of("-D" + PeerLibraries.FOLDERS + "=" + folders());
  }
}
