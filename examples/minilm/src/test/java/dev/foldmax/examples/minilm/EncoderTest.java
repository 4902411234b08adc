package dev.foldmax.examples.minilm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import ai.onnxruntime.OrtException;
import dev.foldmax.Backend;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The whole encoder, against ONNX Runtime with the original model. */
class EncoderTest {
  private static SentenceTokenizer tokenizer;
  private static OnnxModel model;
  private static Encoder encoder;

  @BeforeAll
  static void load() throws IOException {
    tokenizer = SentenceTokenizer.open();
    model = OnnxModel.load();
    encoder = Encoder.of(model);
  }

  @AfterAll
  static void close() {
    tokenizer.close();
  }

  static List<Backend> backends() {
    return List.of(Backend.reference(), Backend.cpu(2));
  }

  @ParameterizedTest
  @MethodSource("backends")
  void reproducesOnnxRuntime(Backend backend) throws OrtException {
    TokenBatch tokens =
        tokenizer.encode(
            List.of(
                "Yes.",
                "The quick brown fox jumps over the lazy dog, and the dog lets it.",
                "",
                "Unbelievably, 1805.02867 isn't a number: it's a paper -- \"Online normalizer"
                    + " calculation for softmax\"!",
                "word ".repeat(100)));
    assertThat(tokens.lengths()).startsWith(4).contains(2, 102);

    float[] states = encoder.encode(tokens, backend);

    try (OnnxRuntime original = OnnxRuntime.open(model.file())) {
      Comparison comparison = Comparison.of(states, original.lastHiddenState(tokens), tokens);
      // Measured: 5.5e-6 where states reach 6, and 2.3e-7 where the vectors' components reach 0.4.
      assertThat(comparison.stateDifference()).isLessThan(3e-5);
      assertThat(comparison.vectorDifference()).isLessThan(1e-6);
      assertThat(comparison.cosine()).isGreaterThanOrEqualTo(0.999999);
    }
  }

  /** The similarities that the model's authors print for these sentences, to four digits. */
  @ParameterizedTest
  @MethodSource("backends")
  void findsThePublishedSimilarities(Backend backend) {
    TokenBatch tokens =
        tokenizer.encode(
            List.of(
                "The weather is lovely today.",
                "It's so sunny outside!",
                "He drove to the stadium."));

    SentenceVectors vectors = SentenceVectors.pool(encoder.encode(tokens, backend), tokens);

    assertThat(vectors.cosine(0, vectors, 1)).isCloseTo(0.6660, within(1e-4));
    assertThat(vectors.cosine(0, vectors, 2)).isCloseTo(0.1046, within(1e-4));
    assertThat(vectors.cosine(1, vectors, 2)).isCloseTo(0.1411, within(1e-4));
  }

  @ParameterizedTest
  @MethodSource("backends")
  void encodesASentenceAloneAsBesideLongerOnes(Backend backend) {
    String sentence = "Padding is not seen.";
    TokenBatch alone = tokenizer.encode(List.of(sentence));
    TokenBatch padded = tokenizer.encode(List.of("A sentence. ".repeat(20), sentence));
    assertThat(padded.length()).isGreaterThan(2 * alone.length());

    SentenceVectors one = SentenceVectors.pool(encoder.encode(alone, backend), alone);
    SentenceVectors two = SentenceVectors.pool(encoder.encode(padded, backend), padded);

    assertThat(two.cosine(1, one, 0)).isCloseTo(1, within(1e-9));
  }

  @Test
  void programPrintsSimilaritiesAndTheComparison() throws IOException, OrtException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    try (Backend backend = Backend.reference();
        PrintStream print = new PrintStream(out, true, StandardCharsets.UTF_8)) {
      MiniLm.run(List.of("One sentence.", "Another sentence of more words."), backend, print);
    }

    assertThat(out.toString(StandardCharsets.UTF_8))
        .contains("1.000   One sentence.")
        .containsPattern("0\\.\\d{3}  1\\.000   Another sentence of more words\\.")
        .contains("2 sentences of 5 to 8 tokens")
        .containsPattern("sentence vectors +largest difference \\d\\.\\de-0\\d")
        .contains("smallest cosine 1.000000");
  }
}
