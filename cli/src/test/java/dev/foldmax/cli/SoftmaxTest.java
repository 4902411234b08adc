package dev.foldmax.cli;

import static dev.foldmax.cli.Cli.assertSame;
import static dev.foldmax.cli.Cli.npy;
import static dev.foldmax.cli.Cli.random;
import static dev.foldmax.cli.Cli.read;
import static dev.foldmax.cli.Cli.readNpy;
import static dev.foldmax.cli.Cli.run;
import static dev.foldmax.cli.Cli.safeTensors;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import dev.foldmax.TopK;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import tools.jackson.databind.JsonNode;

/** {@code foldmax softmax} on good input. */
class SoftmaxTest {
  private static final String REFERENCE = "--backend=reference";

  private final Tensor x = random(1, DType.F32, 2, 3, 11);

  @TempDir private Path folder;
  private Path logits;
  private Path out;
  private Path top;

  @BeforeEach
  void writeTheLogits() throws IOException {
    logits = npy(folder.resolve("logits.npy"), x);
    out = folder.resolve("p.npy");
    top = folder.resolve("t.safetensors");
  }

  @Test
  void computesTheDefinition() throws IOException {
    run("softmax", logits, "--out", out, REFERENCE).succeeded();

    Tensor p = readNpy(out);
    for (int a = 0; a < 2; a++) {
      for (int b = 0; b < 3; b++) {
        double sum = 0;
        for (int i = 0; i < 11; i++) {
          sum += Math.exp(x.get(a, b, i));
        }
        for (int i = 0; i < 11; i++) {
          assertThat(p.get(a, b, i)).isEqualTo(Math.exp(x.get(a, b, i)) / sum, within(1e-7));
        }
      }
    }
  }

  @Test
  void writesLogarithmAndLogSumExp() throws IOException {
    Path lse = folder.resolve("l.npy");

    run("softmax", "--log", logits, "--out", out, "--lse", lse, REFERENCE).succeeded();

    try (Backend reference = Backend.reference()) {
      assertSame(readNpy(out), reference.logSoftmax(x));
      assertSame(readNpy(lse), reference.logSumExp(x));
    }
  }

  @Test
  void writesTheLogSumExpAlone() throws IOException {
    Path lse = folder.resolve("l.safetensors");

    run("softmax", logits, "--lse", lse, REFERENCE).succeeded();

    try (Backend reference = Backend.reference()) {
      assertThat(read(lse)).hasSize(1);
      assertSame(read(lse).get("lse"), reference.logSumExp(x));
    }
  }

  @Test
  void writesTheTopK() throws IOException {
    run("softmax", logits, "--top-k", "4", "--out", top, "--lse", top, REFERENCE).succeeded();

    try (Backend reference = Backend.reference()) {
      TopK expected = reference.topK(x, 4);
      Map<String, Tensor> tensors = read(top);
      assertThat(tensors).containsOnlyKeys("values", "indices", "probabilities", "lse");
      assertSame(tensors.get("values"), expected.values());
      assertSame(tensors.get("indices"), expected.indices());
      assertSame(tensors.get("probabilities"), expected.probabilities());
      assertSame(tensors.get("lse"), reference.logSumExp(x));
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = DType.class,
      names = {"F64", "F32", "F16", "BF16"})
  void writesTheTypeOfTheInput(DType dtype) throws IOException {
    Tensor input = x.to(dtype);
    Path file = safeTensors(folder.resolve("x.safetensors"), Map.of("only", input));
    Path both = folder.resolve("both.safetensors");

    run("softmax", file, "--out", both, "--lse", both, REFERENCE).succeeded();
    run("softmax", file, "--out", out, REFERENCE).succeeded();

    try (Backend reference = Backend.reference()) {
      Tensor expected = reference.softmax(input);
      assertThat(read(both)).containsOnlyKeys("output", "lse");
      assertSame(read(both).get("output"), expected);
      assertSame(read(both).get("lse"), reference.logSumExp(input));
      Tensor ofArray = Tensor.allocate(dtype == DType.BF16 ? DType.F32 : dtype, input.shape());
      reference.softmax(input, ofArray); // rounded once, to what the file has
      assertSame(readNpy(out), ofArray);
    }
  }

  @Test
  void choosesATensor() throws IOException {
    Tensor other = random(2, DType.F32, 5);
    Path file = safeTensors(folder.resolve("x.safetensors"), Map.of("a", x, "b", other));

    run("softmax", "--tensor", "b", file, "--out", out, REFERENCE).succeeded();

    try (Backend reference = Backend.reference()) {
      assertSame(readNpy(out), reference.softmax(other));
    }
  }

  @Test
  void showsTheLargestWhenAskedForNothing() throws IOException {
    Path file = npy(folder.resolve("x.npy"), Tensor.of(new float[] {0, 2, 1}, 3));

    assertThat(run("softmax", file, REFERENCE).succeeded().out())
        .contains("foldmax softmax " + file + System.lineSeparator())
        .containsPattern("x +F32 \\(3\\)")
        .containsPattern("time +[0-9.]+ [mu]?s")
        .containsPattern("rate +[0-9.e-]+ GB/s")
        .containsPattern("row 0 +1: 2.00 \\(66.5 %\\), 2: 1.00 \\(24.5 %\\), 0: 0 \\(9.00 %\\)");
  }

  @Test
  void saysHowManyRowsItDoesNotShow() throws IOException {
    Path file = npy(folder.resolve("x.npy"), Tensor.of(new float[10], 5, 2));

    assertThat(run("softmax", file, REFERENCE).succeeded().out())
        .contains("row 3")
        .doesNotContain("row 4")
        .contains(" 1 more row" + System.lineSeparator());
  }

  @Test
  void showsSmallProbabilities() throws IOException {
    Path file = npy(folder.resolve("x.npy"), Tensor.of(new float[] {1234, 1220, -1e9f}, 3));

    assertThat(run("softmax", file, REFERENCE).succeeded().out())
        .containsPattern("0: 1234 \\(100 %\\), 1: 1220 \\(8.32e-05 %\\), 2: -1.00e\\+09 \\(0 %\\)");
  }

  @Test
  void printsJson() {
    JsonNode json = run("softmax", "--top-k", "2", "--json", logits, REFERENCE).succeeded().json();

    assertThat(json.at("/x/shape").toString()).isEqualTo("[2,3,11]");
    assertThat(json.at("/backend/name").asString()).isEqualTo("reference");
    assertThat(json.at("/time/bestSeconds").asDouble()).isPositive();
    assertThat(json.at("/gbPerSecond").asDouble()).isPositive();
    assertThat(json.at("/rows").size()).isEqualTo(4);
    JsonNode largest = json.at("/rows/3/largest");
    try (Backend reference = Backend.reference()) {
      TopK expected = reference.topK(x, 2);
      assertThat(largest.at("/1/index").asLong()).isEqualTo(expected.indices().longAt(3 * 2 + 1));
      assertThat(largest.at("/1/value").asDouble()).isEqualTo(expected.values().get(1, 0, 1));
      assertThat(largest.at("/0/probability").asDouble())
          .isEqualTo(expected.probabilities().get(1, 0, 0));
    }
  }

  @Test
  void keepsNaNInItsRow() throws IOException {
    Tensor rows = Tensor.of(new float[] {1, Float.NaN, 2, 3}, 2, 2);
    Path file = npy(folder.resolve("x.npy"), rows);

    JsonNode json = run("softmax", file, "--json", REFERENCE).succeeded().json();

    assertThat(json.at("/rows/0/largest/0/value").asString()).isEqualTo("NaN");
    assertThat(json.at("/rows/1/largest/0/value").asDouble()).isEqualTo(3);
    assertThat(run("softmax", file, REFERENCE).succeeded().out())
        .containsPattern("row 0 +1: NaN \\(NaN\\), 0: 1.00 \\(NaN\\)\n");
  }
}
