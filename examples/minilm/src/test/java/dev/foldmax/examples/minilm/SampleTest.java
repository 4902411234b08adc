package dev.foldmax.examples.minilm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import ai.onnxruntime.OrtException;
import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Tensor;
import dev.foldmax.io.SafeTensors;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.assertj.core.data.Offset;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The committed sample of real tensors. */
class SampleTest {
  private static final Path SAMPLE = Path.of("../data/minilm-layer0.safetensors");
  private static final int[] LENGTHS = {40, 21, 9, 4};

  /** Of two float32 results that sum in different orders; outputs reach 3.1. */
  private static final Offset<Float> ROUNDING = within(2e-6f);

  private static SafeTensors sample;

  @BeforeAll
  static void open() throws IOException {
    sample = SafeTensors.open(SAMPLE);
  }

  @AfterAll
  static void close() {
    sample.close();
  }

  static List<Backend> backends() {
    return List.of(Backend.reference(), Backend.cpu(2));
  }

  @Test
  void hasTheTensorsOfTheCommandLineInUnderOneMebibyte() throws IOException {
    for (String name : List.of("q", "k", "v", "expected")) {
      assertThat(sample.tensor(name).dtype()).isEqualTo(DType.F32);
      assertThat(sample.tensor(name).shape()).containsExactly(4, 12, 40, 32);
    }
    assertThat(sample.tensor("mask").dtype()).isEqualTo(DType.BOOL);
    assertThat(sample.tensor("mask").shape()).containsExactly(4, 1, 1, 40);
    assertThat(Files.size(SAMPLE)).isLessThan(1 << 20);
  }

  /** All rows, also those of queries that are padding. */
  @ParameterizedTest
  @MethodSource("backends")
  void attentionReproducesOnnxRuntime(Backend backend) {
    Tensor output =
        backend.attend(
            sample.tensor("q"),
            sample.tensor("k"),
            sample.tensor("v"),
            Attention.standard().mask(Mask.of(sample.tensor("mask"))));

    assertThat(output.toFloatArray())
        .containsExactly(sample.tensor("expected").toFloatArray(), ROUNDING);
  }

  @ParameterizedTest
  @MethodSource("backends")
  void lengthsHideWhatTheMaskHides(Backend backend) {
    KeyValues keyValues =
        KeyValues.dense(sample.tensor("k"), sample.tensor("v"))
            .lengths(Tensor.of(LENGTHS, LENGTHS.length));

    Tensor output = backend.attend(sample.tensor("q"), keyValues, Attention.standard());

    assertThat(output.toFloatArray())
        .containsExactly(sample.tensor("expected").toFloatArray(), ROUNDING);
  }

  /** Without the mask, padding would count: only the sentence without any comes out right. */
  @Test
  void theMaskMatters() {
    Tensor expected = sample.tensor("expected");
    Tensor output;
    try (Backend backend = Backend.reference()) {
      output =
          backend.attend(
              sample.tensor("q"), sample.tensor("k"), sample.tensor("v"), Attention.standard());
    }

    assertThat(output.select(0, 0).toFloatArray())
        .containsExactly(expected.select(0, 0).toFloatArray(), ROUNDING);
    for (int b = 1; b < LENGTHS.length; b++) {
      assertThat(largestDifference(output.select(0, b), expected.select(0, b))).isGreaterThan(0.1);
    }
  }

  /** What ONNX Runtime computes on another processor differs in rounding alone. */
  @Test
  void isWhatTheExportWrites(@TempDir Path folder) throws IOException, OrtException {
    Path path = folder.resolve("sample.safetensors");

    ExportSample.export(path);

    try (SafeTensors exported = SafeTensors.open(path)) {
      assertThat(exported.metadata()).isEqualTo(sample.metadata());
      assertThat(exported.names()).isEqualTo(sample.names());
      for (String name : sample.names()) {
        assertThat(exported.tensor(name).hasShapeOf(sample.tensor(name))).isTrue();
        assertThat(largestDifference(exported.tensor(name), sample.tensor(name))).isLessThan(1e-5);
      }
    }
  }

  private static double largestDifference(Tensor a, Tensor b) {
    double[] left = a.toDoubleArray();
    double[] right = b.toDoubleArray();
    double largest = 0;
    for (int i = 0; i < left.length; i++) {
      largest = Math.max(largest, Math.abs(left[i] - right[i]));
    }
    return largest;
  }
}
