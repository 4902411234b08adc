package dev.foldmax.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
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

  @Test
  void aMissingSourceIsNamed() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> KernelSource.load("no.cu"))
        .withMessageContaining("no.cu");
  }
}
