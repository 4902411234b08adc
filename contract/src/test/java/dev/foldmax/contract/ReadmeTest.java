package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.Alignment;
import dev.foldmax.Attention;
import dev.foldmax.AttentionPartial;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import dev.foldmax.TopK;
import dev.foldmax.io.MappedOutput;
import dev.foldmax.io.SafeTensors;
import dev.foldmax.io.SafeTensors.Description;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * The Java of README.md, docs/usage.md and docs/partials.md, compiled and run. What stands here
 * between two markers is, but for indentation, what the page shows.
 */
class ReadmeTest {
  private static final int DIM = 64;

  /** As a reader would: pasted into a file, and run by the java command that the page gives. */
  @Test
  void theProgramOfTheReadmeRuns(@TempDir Path folder) throws Exception {
    String page = Pages.read("README.md");
    Path program = folder.resolve("Attend.java");
    Files.writeString(program, Pages.between(page, "```java\n", "```\n"));
    Path out = folder.resolve("out");

    Process java =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--add-modules",
                "jdk.incubator.vector",
                "--class-path",
                System.getProperty("java.class.path"),
                program.toString())
            .redirectErrorStream(true)
            .redirectOutput(out.toFile())
            .start();

    assertThat(java.waitFor()).as(Files.readString(out)).isZero();
    assertThat(Files.readString(out)).contains("largest difference: ");
    double difference =
        Double.parseDouble(
            Pages.between(Files.readString(out) + "\n", "largest difference: ", "\n"));
    assertThat(difference).isLessThan(1e-6);
  }

  @Test
  void aCausalPromptInTwoParts() {
    float[] q = random(8, 8 * 512 * DIM);
    float[] k = random(9, 2 * 512 * DIM);
    float[] v = random(10, 2 * 512 * DIM);
    try (Backend backend = Backend.best()) {
      // parts begin
      Tensor query = Tensor.of(q, 1, 8, 512, 64);
      Tensor keys = Tensor.of(k, 1, 2, 512, 64);
      Tensor values = Tensor.of(v, 1, 2, 512, 64);
      // Keys 0 to 299: query i sees key j where j <= i. Aligned bottom-right, as by default, the
      // last query would stand at the last key, 299, and the others before it: wrong here.
      Attention first = Attention.standard().mask(Mask.causal(Alignment.TOP_LEFT));
      // Keys 300 to 511, which the call counts from 0: the last query stands at the last key.
      Attention second = Attention.causal();

      Tensor[] outputs = new Tensor[2];
      Tensor[] lses = new Tensor[2];
      for (int part = 0; part < 2; part++) {
        int begin = part == 0 ? 0 : 300;
        int end = part == 0 ? 300 : 512;
        KeyValues kv = KeyValues.dense(keys.slice(2, begin, end), values.slice(2, begin, end));
        outputs[part] = Tensor.allocate(DType.F32, 1, 8, 512, 64);
        lses[part] = Tensor.allocate(DType.F32, 1, 8, 512);
        backend.attend(query, kv, part == 0 ? first : second, outputs[part], lses[part]);
      }
      Tensor merged = Tensor.allocate(DType.F32, 1, 8, 512, 64);
      backend.merge(List.of(outputs), List.of(lses), merged, null);
      // parts end
      Tensor whole = backend.attend(query, keys, values, Attention.causal());
      assertThat(merged.toFloatArray()).containsExactly(whole.toFloatArray(), within(1e-6f));
    }
  }

  @Test
  void filesAndMappedMemory(@TempDir Path folder) throws IOException {
    Path input = folder.resolve("in.safetensors");
    Path output = folder.resolve("out.safetensors");
    float[] q = random(11, 8 * 40 * DIM);
    float[] k = random(12, 8 * 40 * DIM);
    float[] v = random(13, 8 * 40 * DIM);
    Map<String, Tensor> inputs =
        Map.of(
            "q", Tensor.of(q, 1, 8, 40, 64),
            "k", Tensor.of(k, 1, 8, 40, 64),
            "v", Tensor.of(v, 1, 8, 40, 64));
    SafeTensors.write(input, inputs, Map.of());
    try (Backend backend = Backend.best()) {
      // files begin
      try (SafeTensors file = SafeTensors.open(input)) {
        Tensor query = file.tensor("q"); // (batch, heads, length, dim): a view of the mapped file
        KeyValues kv = KeyValues.dense(file.tensor("k"), file.tensor("v"));
        Map<String, Description> results =
            Map.of("output", Description.of(DType.F32, query.shape()));
        try (MappedOutput out = SafeTensors.create(output, results, Map.of())) {
          backend.attend(query, kv, Attention.causal(), out.tensor("output"), null);
          out.commit(); // without it, close removes the file
        }
      }
      // files end
      Tensor expected =
          backend.attend(inputs.get("q"), inputs.get("k"), inputs.get("v"), Attention.causal());
      try (SafeTensors file = SafeTensors.open(output)) {
        assertThat(file.tensor("output").toFloatArray()).isEqualTo(expected.toFloatArray());
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

  @Test
  void partsOfSeveralMachinesFinish() {
    int begin = 1536;
    int end = 3000;
    int total = 3000;
    Tensor query = Tensor.of(random(21, 8 * 4 * DIM), 1, 8, 4, DIM);
    Tensor allKeys = Tensor.of(random(22, 2 * total * DIM), 1, 2, total, DIM);
    Tensor allValues = Tensor.of(random(23, 2 * total * DIM), 1, 2, total, DIM);
    Tensor keys = allKeys.slice(2, begin, end).copy();
    Tensor values = allValues.slice(2, begin, end).copy();
    Tensor out = Tensor.allocate(DType.F32, 1, 8, 4, DIM);
    Tensor lse = Tensor.allocate(DType.F32, 1, 8, 4);
    try (Backend backend = Backend.cpu(2)) {
      AttentionPartial others =
          backend.attendPartial(
              Arena.ofAuto(),
              query,
              KeyValues.dense(allKeys, allValues),
              Attention.causal(),
              0,
              begin);
      // machines begin
      // On each machine: keys begin to end of total, of which it holds no others.
      KeyValues held = KeyValues.slice(keys, values, begin, total);
      AttentionPartial partial =
          backend.attendPartial(Arena.ofAuto(), query, held, Attention.causal(), begin, end);
      Map<String, String> texts = partial.metadata(); // with a digest over all of it
      Map<String, Tensor> tensors = partial.tensors();

      // Where they arrive, in any order.
      AttentionPartial arrived = AttentionPartial.of(texts, tensors); // refuses what has changed
      backend.finish(List.of(arrived, others), out, lse);
      // machines end
      assertThat(out.toFloatArray())
          .isEqualTo(backend.attend(query, allKeys, allValues, Attention.causal()).toFloatArray());
    }
  }

  @ParameterizedTest
  @CsvSource({
    "docs/usage.md, pages",
    "docs/usage.md, halves",
    "docs/usage.md, parts",
    "docs/usage.md, files",
    "docs/usage.md, token",
    "docs/partials.md, machines"
  })
  void thePageShowsTheExample(String page, String example) throws IOException {
    Pages.assertShows(page, ReadmeTest.class, example);
  }
}
