package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** The pages of the project, and the tests whose lines they show. */
final class Pages {
  private static final Path ROOT = Path.of("..");

  private Pages() {}

  static String read(String page) throws IOException {
    return Files.readString(ROOT.resolve(page));
  }

  /**
   * Checks that a page shows an example of a test: what stands there between the comments {@code
   * NAME begin} and {@code NAME end}, but for indentation.
   */
  static void assertShows(String page, Class<?> test, String example) throws IOException {
    Path source = Path.of("src/test/java", test.getName().replace('.', '/') + ".java");
    String code =
        between(Files.readString(source), "// " + example + " begin\n", "// " + example + " end\n");
    String shown = code.stripTrailing().stripIndent() + "\n";
    assertThat(read(page)).contains("```java\n" + shown + "```\n");
  }

  /** What stands between the first place of one text and the next of another. */
  static String between(String text, String begin, String end) {
    int from = text.indexOf(begin);
    assertThat(from).as("the place of %s", begin).isNotNegative();
    int to = text.indexOf(end, from + begin.length());
    assertThat(to).as("the place of %s", end).isNotNegative();
    return text.substring(from + begin.length(), to);
  }
}
