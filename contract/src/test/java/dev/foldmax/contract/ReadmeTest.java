package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/**
 * The Java of README.md, compiled and run. What stands here between the markers is, but for
 * indentation, what README.md shows.
 */
class ReadmeTest {
  private static final Path README = Path.of("../README.md");
  private static final Path THIS =
      Path.of("src/test/java", ReadmeTest.class.getName().replace('.', '/') + ".java");

  private static final int DIM = 64;

  @Test
  void theExampleComputesAttention() {
    float[] q = random(1, 8 * 512 * DIM);
    float[] k = random(2, 2 * 512 * DIM);
    float[] v = random(3, 2 * 512 * DIM);
    float[] prompt;
    float[] token;
    // README begin
    Tensor keys = Tensor.of(k, 1, 2, 512, 64); // (batch, heads, length, dim): a view of the array
    Tensor values = Tensor.of(v, 1, 2, 512, 64);
    Tensor queries = Tensor.of(q, 1, 8, 512, 64); // query heads share key heads in groups of 4
    try (Backend backend = Backend.best()) {
      prompt = backend.attend(queries, keys, values, Attention.causal()).toFloatArray();

      // One token over the first 300 rows of the same cache, into an array of one's own.
      token = new float[8 * 64];
      KeyValues cache = KeyValues.dense(keys, values).lengths(Tensor.of(new int[] {300}, 1));
      Tensor query = queries.slice(2, 299, 300);
      backend.attend(query, cache, Attention.causal(), Tensor.of(token, 1, 8, 1, 64), null);
    }
    // README end
    assertThat(prompt).hasSize(8 * 512 * DIM);
    for (int head = 0; head < 8; head++) {
      for (int d = 0; d < DIM; d++) {
        assertThat(prompt[head * 512 * DIM + d])
            .as("the first query sees the first key alone")
            .isEqualTo(v[head / 4 * 512 * DIM + d]);
        assertThat(token[head * DIM + d])
            .as("query 299 of a causal prompt sees keys 0 to 299")
            .isCloseTo(prompt[(head * 512 + 299) * DIM + d], within(1e-6f));
      }
    }
  }

  private static float[] random(long seed, int n) {
    SplittableRandom random = new SplittableRandom(seed);
    float[] numbers = new float[n];
    for (int i = 0; i < n; i++) {
      numbers[i] = (float) random.nextDouble(-1, 1);
    }
    return numbers;
  }

  @Test
  void readmeShowsTheExample() throws IOException {
    String example =
        between(Files.readString(THIS), "    // README begin\n", "    // README end\n");
    String shown = between(Files.readString(README), "```java\n", "```\n");
    assertThat(shown).isEqualTo(example.indent(-4));
  }

  private static String between(String text, String begin, String end) {
    int from = text.indexOf(begin);
    assertThat(from).as("the place of %s", begin).isNotNegative();
    int to = text.indexOf(end, from + begin.length());
    assertThat(to).as("the place of %s", end).isNotNegative();
    return text.substring(from + begin.length(), to);
  }
}
