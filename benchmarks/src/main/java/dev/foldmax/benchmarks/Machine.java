package dev.foldmax.benchmarks;

import dev.foldmax.Backend;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/**
 * Where a measurement was made.
 *
 * @param cpu the processor's name
 * @param cores how many the JVM sees
 * @param backend what the CPU backend says of itself
 * @param jdk vendor and version
 * @param system the operating system and architecture
 */
record Machine(String cpu, int cores, String backend, String jdk, String system) {
  /** This one. */
  static Machine here() {
    String architecture = System.getProperty("os.arch");
    try (Backend backend = Backend.cpu()) {
      return new Machine(
          cpuName(architecture),
          Runtime.getRuntime().availableProcessors(),
          backend.description(),
          System.getProperty("java.vendor") + " " + System.getProperty("java.vm.version"),
          System.getProperty("os.name") + ", " + architecture);
    }
  }

  /** As Linux tells it; elsewhere the architecture. */
  private static String cpuName(String otherwise) {
    Path file = Path.of("/proc/cpuinfo");
    if (!Files.isReadable(file)) {
      return otherwise;
    }
    try (Stream<String> lines = Files.lines(file)) {
      return lines
          .filter(line -> line.startsWith("model name"))
          .findFirst()
          .map(line -> line.substring(line.indexOf(':') + 1).strip())
          .orElse(otherwise);
    } catch (IOException e) {
      return otherwise;
    }
  }
}
