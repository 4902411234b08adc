package dev.foldmax.examples.minilm;

import ai.onnxruntime.OrtException;
import dev.foldmax.Backend;
import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.IntStream;

/**
 * Encodes sentences, prints how similar they are, and compares the encoder with ONNX Runtime on the
 * original model.
 */
public final class MiniLm {
  private static final List<String> SENTENCES =
      List.of(
          "The weather is lovely today.",
          "It's so sunny outside!",
          "He drove to the stadium.",
          "A cat sleeps on the warm windowsill.",
          "The kitten is napping in the sun by the window, and nobody dares to wake it before it"
              + " has had its three hours.",
          "Softmax turns scores into weights.",
          "Attention averages the values, each weighted by the exponential of its score.");

  private MiniLm() {}

  /**
   * Runs the program.
   *
   * @param args the sentences; without any, a few of its own. Before them may stand {@code
   *     --reference}, for attention by the reference backend instead of the fastest one
   */
  public static void main(String[] args) throws IOException, OrtException {
    List<String> sentences = new ArrayList<>(List.of(args));
    boolean reference = sentences.remove("--reference");
    try (Backend backend = reference ? Backend.reference() : Backend.best()) {
      run(sentences.isEmpty() ? SENTENCES : sentences, backend, System.out);
    }
  }

  /** Encodes the sentences as one batch, and prints similarities and the comparison. */
  static void run(List<String> sentences, Backend backend, PrintStream out)
      throws IOException, OrtException {
    TokenBatch tokens;
    try (SentenceTokenizer tokenizer = SentenceTokenizer.open()) {
      tokens = tokenizer.encode(sentences);
    }
    OnnxModel model = OnnxModel.load();
    float[] states = Encoder.of(model).encode(tokens, backend); // (batch, length, hidden)

    out.printf("all-MiniLM-L6-v2, attention by %s%n%n", backend.description());
    printSimilarities(sentences, SentenceVectors.pool(states, tokens), out);
    try (OnnxRuntime original = OnnxRuntime.open(model.file())) {
      Comparison comparison = Comparison.of(states, original.lastHiddenState(tokens), tokens);
      out.printf(
          Locale.ROOT,
          """

          Compared with ONNX Runtime %s on the original model, %d sentences of %d to %d tokens:
            hidden states     largest difference %.1e, padding aside
            sentence vectors  largest difference %.1e, smallest cosine %.9f
          """,
          OnnxRuntime.version(),
          tokens.batch(),
          IntStream.of(tokens.lengths()).min().orElse(0),
          tokens.length(),
          comparison.stateDifference(),
          comparison.vectorDifference(),
          comparison.cosine());
    }
  }

  private static void printSimilarities(
      List<String> sentences, SentenceVectors vectors, PrintStream out) {
    for (int i = 0; i < sentences.size(); i++) {
      out.printf("%3d  ", i + 1);
      for (int j = 0; j <= i; j++) {
        out.printf(Locale.ROOT, "%6.3f ", vectors.cosine(i, vectors, j));
      }
      out.printf("  %s%n", sentences.get(i));
    }
  }
}
