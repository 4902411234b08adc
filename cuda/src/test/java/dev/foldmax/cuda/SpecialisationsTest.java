package dev.foldmax.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.io.IOException;
import java.io.InputStream;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/**
 * The kernels compile without a warning, where CUDA's compiler is installed; no device is needed.
 */
class SpecialisationsTest {
  private static final long MOST_SECONDS = 120;

  @TempDir private static Path folder;

  @BeforeAll
  static void assumeCompiler() throws InterruptedException {
    try {
      Process nvcc = new ProcessBuilder("nvcc", "--version").redirectErrorStream(true).start();
      nvcc.getInputStream().readAllBytes();
      nvcc.waitFor();
    } catch (IOException e) {
      Assumptions.abort("nvcc is not on the path: kernels are not compiled here");
    }
  }

  private static List<String> lines() throws IOException {
    try (InputStream in = SpecialisationsTest.class.getResourceAsStream("specialisations.txt")) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8)
          .lines()
          .filter(line -> !line.startsWith("#"))
          .toList();
    }
  }

  @TestFactory
  Stream<DynamicTest> everySpecialisationCompiles() throws IOException {
    return lines().stream().map(line -> dynamicTest(line, () -> compile(line.split(" ", -1))));
  }

  @Test
  void everySourceIsOnTheList() throws IOException, URISyntaxException {
    assertThat(lines().stream().map(line -> line.split(" ", -1)[1]).distinct())
        .containsExactlyInAnyOrderElementsOf(KernelSourceTest.sources());
  }

  private static void compile(String[] words)
      throws IOException, InterruptedException, URISyntaxException {
    String[] architecture = words[0].split(",", -1);
    Path source = Path.of(SpecialisationsTest.class.getResource(words[1]).toURI());
    List<String> command = new ArrayList<>();
    command.add("nvcc");
    command.add("-cubin");
    command.add("-std=c++17");
    command.add("-Werror=all-warnings");
    command.add("-gencode=arch=" + architecture[0] + ",code=" + architecture[1]);
    for (int i = 2; i < words.length; i++) {
      command.add("-D" + words[i]);
    }
    command.add("-o");
    command.add(folder.resolve("kernel.cubin").toString());
    command.add(source.toString());
    Process nvcc = new ProcessBuilder(command).redirectErrorStream(true).start();
    String output = new String(nvcc.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertThat(nvcc.waitFor(MOST_SECONDS, TimeUnit.SECONDS)).isTrue();
    assertThat(nvcc.exitValue()).as(output).isZero();
  }
}
