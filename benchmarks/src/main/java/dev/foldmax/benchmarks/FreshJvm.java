package dev.foldmax.benchmarks;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Other JVMs, with the classes and modules of this one. */
final class FreshJvm {
  private FreshJvm() {}

  /** A process that runs a main class, not started yet. */
  static ProcessBuilder of(Class<?> main, List<String> options, String... arguments) {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of("--add-modules", "jdk.incubator.vector"));
    command.add("--enable-native-access=ALL-UNNAMED");
    command.addAll(options);
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
    command.addAll(List.of(arguments));
    return new ProcessBuilder(command);
  }
}
