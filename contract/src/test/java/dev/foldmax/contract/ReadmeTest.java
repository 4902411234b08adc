package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import dev.foldmax.TopK;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * The Java of README.md and docs/usage.md, compiled and run. What stands here between two markers
 * is, but for indentation, what the page shows.
 */
class ReadmeTest {
  private static final Path ROOT = Path.of("..");
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
    // attention begin
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
    // attention end
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

  @Test
  void aStepOfDecodingOverPages() {
    float[] q = random(4, 2 * 8 * DIM);
    float[] k = random(5, 8 * 2 * 16 * DIM);
    float[] v = random(6, 8 * 2 * 16 * DIM);
    float[] scores = random(7, 2 * 1000);
    try (Backend backend = Backend.best()) {
      // pages begin
      Tensor keys = Tensor.of(k, 8, 2, 16, 64); // (pages, key heads, page size, dim)
      Tensor values = Tensor.of(v, 8, 2, 16, 64);
      Tensor table = Tensor.of(new int[] {5, 0, 3, 2, 7, 0}, 2, 3); // the last 0 is not read
      Tensor lengths = Tensor.of(new int[] {40, 20}, 2); // read at each call: update it in place
      KeyValues cache = KeyValues.paged(keys, values, table, lengths);

      Tensor query = Tensor.of(q, 2, 8, 1, 64); // (batch, query heads, queries, dim)
      Tensor all = backend.attend(query, cache, Attention.causal());
      Mask local = Mask.causal().and(Mask.window(31, Mask.UNBOUNDED)); // the last 32 keys
      Tensor last = backend.attend(query, cache, Attention.standard().mask(local));
      // pages end
      Mask same = Mask.of((sequence, head, i, j) -> j >= sequence.endKey() - 32);
      Tensor expected = backend.attend(query, cache, Attention.standard().mask(same));
      assertThat(last.toFloatArray()).containsExactly(expected.toFloatArray(), within(1e-6f));
      assertThat(last.toFloatArray()).isNotEqualTo(all.toFloatArray());

      // halves begin
      // The first two pages of each sequence, and the rest: 8 keys of one, none of the other.
      KeyValues[] parts = {
        KeyValues.paged(keys, values, table.slice(1, 0, 2), Tensor.of(new int[] {32, 20}, 2)),
        KeyValues.paged(keys, values, table.slice(1, 2, 3), Tensor.of(new int[] {8, 0}, 2))
      };
      List<Tensor> outputs = new ArrayList<>();
      List<Tensor> lses = new ArrayList<>();
      for (KeyValues part : parts) {
        Tensor output = Tensor.allocate(DType.F32, 2, 8, 1, 64);
        Tensor lse = Tensor.allocate(DType.F32, 2, 8, 1);
        backend.attend(query, part, Attention.standard(), output, lse);
        outputs.add(output);
        lses.add(lse);
      }
      Tensor merged = Tensor.allocate(DType.F32, 2, 8, 1, 64);
      backend.merge(outputs, lses, merged, null);
      // halves end
      assertThat(merged.toFloatArray()).containsExactly(all.toFloatArray(), within(1e-6f));

      // token begin
      Tensor logits = Tensor.of(scores, 2, 1000); // (batch, vocabulary)
      TopK best = backend.topK(logits, 5); // values, indices, probabilities: each (2, 5)
      Sampling sampling = Sampling.seeded(42).temperature(0.8).topK(40).topP(0.95);
      long[] tokens = backend.sample(logits, sampling).toLongArray(); // one for each sequence
      // token end
      long[] forty = backend.topK(logits, 40).indices().toLongArray();
      for (int row = 0; row < 2; row++) {
        assertThat(best.values().get(row, 0))
            .isEqualTo(logits.get(row, best.indices().toLongArray()[row * 5]));
        assertThat(Arrays.copyOfRange(forty, row * 40, row * 40 + 40)).contains(tokens[row]);
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

  @ParameterizedTest
  @CsvSource({
    "README.md, attention",
    "docs/usage.md, pages",
    "docs/usage.md, halves",
    "docs/usage.md, token"
  })
  void thePageShowsTheExample(String page, String example) throws IOException {
    String code =
        between(Files.readString(THIS), "// " + example + " begin\n", "// " + example + " end\n");
    String shown = code.stripTrailing().stripIndent() + "\n";
    assertThat(Files.readString(ROOT.resolve(page))).contains("```java\n" + shown + "```\n");
  }

  private static String between(String text, String begin, String end) {
    int from = text.indexOf(begin);
    assertThat(from).as("the place of %s", begin).isNotNegative();
    int to = text.indexOf(end, from + begin.length());
    assertThat(to).as("the place of %s", end).isNotNegative();
    return text.substring(from + begin.length(), to);
  }
}
