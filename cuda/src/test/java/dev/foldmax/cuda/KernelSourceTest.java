package dev.foldmax.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The kernels' sources are complete in themselves. */
class KernelSourceTest {
  /** The names of all sources of kernels. */
  static List<String> sources() throws IOException, URISyntaxException {
    URI one = KernelSource.class.getResource("copy.cu").toURI();
    try (Stream<Path> files = Files.list(Path.of(one).getParent())) {
      return files
          .map(file -> file.getFileName().toString())
          .filter(name -> name.endsWith(".cu"))
          .toList();
    }
  }

  @Test
  void includesAreReadWithWhatTheyInclude() {
    KernelSource source = KernelSource.load("copy.cu");
    assertThat(source.name()).isEqualTo("copy.cu");
    assertThat(source.headers()).containsOnlyKeys("elements.cuh", "arguments.cuh");
    assertThat(source.headers().get("arguments.cuh")).contains("struct AttentionArguments");
  }

  @Test
  void nothingIsIncludedThatTheCompilerMayLack() throws IOException, URISyntaxException {
    assertThat(sources()).contains("copy.cu");
    for (String name : sources()) {
      KernelSource source = KernelSource.load(name);
      assertThat(source.text()).as(name).doesNotContain("#include <");
      source
          .headers()
          .forEach((header, text) -> assertThat(text).as(header).doesNotContain("#include <"));
    }
  }

  /** nvcc takes a function without a space for one of the host, NVRTC refuses it. */
  @Test
  void everyFunctionSaysWhereItRuns() throws IOException, URISyntaxException {
    Pattern function = Pattern.compile("(?m)^[a-zA-Z][^;={}()/#]*\\([^;{}]*\\)\\s*\\{");
    int functions = 0;
    for (String name : sources()) {
      KernelSource source = KernelSource.load(name);
      List<String> texts = new ArrayList<>(source.headers().values());
      texts.add(source.text());
      for (String text : texts) {
        for (MatchResult found : function.matcher(text).results().toList()) {
          assertThat(found.group()).as(name).containsAnyOf("__device__", "__global__", "alignas");
          functions++;
        }
      }
    }
    assertThat(functions).isGreaterThan(100);
  }

  @Test
  void aMissingSourceIsNamed() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> KernelSource.load("no.cu"))
        .withMessageContaining("no.cu");
  }
}
