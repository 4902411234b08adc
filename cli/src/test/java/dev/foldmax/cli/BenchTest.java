package dev.foldmax.cli;

import static dev.foldmax.cli.Cli.run;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.awt.Font;
import java.awt.font.FontRenderContext;
import java.awt.image.BufferedImage;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import javax.imageio.ImageIO;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** {@code foldmax bench}: what it reports, not how fast anything is. */
class BenchTest {
  @TempDir private Path folder;

  @Test
  void measuresAndDraws() throws Exception {
    assumeFonts();
    JsonNode json =
        run("bench", "--backend=cpu", "--threads=1", "--seconds=1", "--json", "--out", folder)
            .succeeded()
            .json();

    assertThat(json.at("/backends")).hasSize(1);
    assertThat(json.at("/backends/0/description").asString()).contains("Vector API", "threads 1");
    JsonNode results = json.at("/backends/0/results");
    assertThat(results.findValuesAsString("work"))
        .startsWith("multiply-adds, F32", "memory read", "memory copy")
        .anyMatch(work -> work.startsWith("logsumexp "))
        .anyMatch(work -> work.startsWith("softmax "))
        .anyMatch(work -> work.startsWith("prefill ") && work.endsWith(" causal"))
        .anyMatch(work -> work.startsWith("decode ") && work.endsWith(" BF16"));
    for (JsonNode result : results) {
      double rate = result.at("/rate").asDouble();
      assertThat(result.at("/seconds").asDouble()).isPositive();
      assertThat(rate).isPositive();
      if (!result.at("/ceiling").isNull()) {
        double ceiling = rateOf(results, result.at("/ceiling").asString());
        assertThat(result.at("/share").asDouble()).isCloseTo(rate / ceiling, within(1e-9));
      }
    }

    JsonNode written = new JsonMapper().readTree(Files.readString(folder.resolve("bench.json")));
    assertThat(written).isEqualTo(json);
    String svg = Files.readString(folder.resolve("bench.svg"));
    assertThat(svg).contains("softmax 8192 x 4096 F32", "prefill L 2048");
    DocumentBuilderFactory xml = DocumentBuilderFactory.newInstance();
    xml.setFeature("http://apache.org/xml/features/nonvalidating/load-external-dtd", false);
    xml.newDocumentBuilder().parse(folder.resolve("bench.svg").toFile());
    BufferedImage picture = ImageIO.read(folder.resolve("bench.png").toFile());
    assertThat(picture.getWidth()).isEqualTo(1800);
  }

  private static double rateOf(JsonNode results, String work) {
    for (JsonNode result : results) {
      if (result.at("/work").asString().equals(work)) {
        return result.at("/rate").asDouble();
      }
    }
    throw new AssertionError("no result of " + work);
  }

  @Test
  void sharesAreOfTheCeiling() {
    BenchResult ceiling = new BenchResult("cpu", "memory read", 0.1, 20e9, "B/s", null);
    BenchResult work = new BenchResult("cpu", "decode", 2e-3, 15e9, "B/s", ceiling);

    assertThat(ceiling.describe()).isEqualTo("100 ms, 20.0 GB/s");
    assertThat(work.describe()).isEqualTo("2.00 ms, 15.0 GB/s, 75 % of memory read");
    assertThat(new BenchResult("cuda", "prefill", 1, 6.5e14, "FLOP/s", null).describeRate())
        .isEqualTo("650 TFLOP/s");
  }

  @Test
  void wrongCommandLinesAreNamed() throws IOException {
    assertThat(run("bench", "--seconds", "0").failed(2)).contains("--seconds", "1 to 3600");
    assertThat(run("bench", "--seconds", "x").failed(2))
        .contains("--seconds: expected a number, got 'x'");
    assertThat(run("bench", "--threads", "0").failed(2)).contains("--threads", "at least 1");
    assertThat(run("bench", "--threads", "2", "--backend", "cuda").failed(2))
        .contains("--threads is for the CPU backend");
    assertThat(run("bench", "--backend", "tpu").failed(2)).contains("all, cpu or cuda");
    Path file = Files.createFile(folder.resolve("file"));
    for (Path place : List.of(file, folder.resolve("none"))) {
      assertThat(run("bench", "--out", place).failed(2)).contains("--out: expected a folder");
    }
  }

  /** Some systems have no fonts, and then the JVM cannot draw. */
  private static void assumeFonts() {
    try {
      new Font(Font.SANS_SERIF, Font.PLAIN, 12)
          .getStringBounds("x", new FontRenderContext(null, false, false));
    } catch (LinkageError | InternalError e) {
      assumeTrue(false, "this system has no fonts: " + e.getMessage());
    }
  }
}
