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
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.function.ThrowingConsumer;
import org.junit.jupiter.api.io.TempDir;

/**
 * The kernels compile under the options that the backend gives: by the toolkit's compiler, without
 * a warning, and by the run-time compiler, which refuses some of what the other accepts (a function
 * that is not marked as the device's, a header of the system). The latter stops at PTX, since what
 * follows is the same in both. Each where it is installed; no device is needed.
 */
class SpecialisationsTest {
  private static final long MOST_SECONDS = 120;
  private static final int NEWEST = 13_000;

  /** A line of the list. */
  private record Specialisation(
      String virtual, String architecture, String source, Map<String, Integer> macros) {
    static Specialisation of(String line) {
      String[] words = line.split(" ", -1);
      String[] architectures = words[0].split(",", -1);
      Map<String, Integer> macros = new TreeMap<>();
      for (int i = 2; i < words.length; i++) {
        String[] macro = words[i].split("=", -1);
        macros.put(macro[0], Integer.valueOf(macro[1]));
      }
      return new Specialisation(architectures[0], architectures[1], words[1], macros);
    }

    @Override
    public String toString() {
      return "%s %s %s".formatted(architecture, source, macros);
    }
  }

  private static List<Specialisation> all() throws IOException {
    try (InputStream in = SpecialisationsTest.class.getResourceAsStream("specialisations.txt")) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8)
          .lines()
          .filter(line -> !line.startsWith("#"))
          .map(Specialisation::of)
          .toList();
    }
  }

  private static Stream<DynamicTest> each(ThrowingConsumer<Specialisation> compile)
      throws IOException {
    return all().stream().map(one -> dynamicTest(one.toString(), () -> compile.accept(one)));
  }

  @Test
  void everySourceIsOnTheList() throws IOException, URISyntaxException {
    assertThat(all().stream().map(Specialisation::source).distinct())
        .containsExactlyInAnyOrderElementsOf(KernelSourceTest.sources());
  }

  @TestFactory
  Stream<DynamicTest> theToolkitsCompilerTakesThem(@TempDir Path folder)
      throws IOException, InterruptedException {
    try {
      Process nvcc = new ProcessBuilder("nvcc", "--version").redirectErrorStream(true).start();
      nvcc.getInputStream().readAllBytes();
      nvcc.waitFor();
    } catch (IOException e) {
      return Assumptions.abort("nvcc is not on the path: it compiles no kernels here");
    }
    return each(one -> compileByToolkit(one, folder.resolve("kernel.cubin")));
  }

  private static void compileByToolkit(Specialisation one, Path target)
      throws IOException, InterruptedException, URISyntaxException {
    List<String> command = new ArrayList<>(List.of("nvcc", "-cubin", "-Werror=all-warnings"));
    command.add("-gencode=arch=" + one.virtual() + ",code=" + one.architecture());
    command.addAll(CodeProvider.options(one.macros()));
    command.addAll(List.of("-o", target.toString()));
    command.add(Path.of(SpecialisationsTest.class.getResource(one.source()).toURI()).toString());
    Process nvcc = new ProcessBuilder(command).redirectErrorStream(true).start();
    String output = new String(nvcc.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertThat(nvcc.waitFor(MOST_SECONDS, TimeUnit.SECONDS)).isTrue();
    assertThat(nvcc.exitValue()).as(output).isZero();
  }

  @TestFactory
  Stream<DynamicTest> theRunTimeCompilerTakesThem() throws IOException {
    NvrtcLibrary.Found found = NvrtcLibrary.found(NEWEST);
    Nvrtc nvrtc = found.nvrtc();
    if (nvrtc == null) {
      return Assumptions.abort(found.problem());
    }
    return each(
        one -> {
          KernelCompiler.Target ptx =
              new KernelCompiler.Target("--gpu-architecture=" + one.virtual(), true);
          KernelSource source = KernelSource.load(one.source());
          byte[] code = nvrtc.compile(source, ptx, CodeProvider.options(one.macros()));
          assertThat(new String(code, StandardCharsets.UTF_8)).contains(".entry");
        });
  }
}
