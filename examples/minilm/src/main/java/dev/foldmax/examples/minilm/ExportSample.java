package dev.foldmax.examples.minilm;

import ai.onnxruntime.OrtException;
import dev.foldmax.Tensor;
import dev.foldmax.io.SafeTensors;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Writes the sample in {@code examples/data}: the queries, keys, values and padding mask of one
 * layer's attention on real sentences, with ONNX Runtime's own result. Its README tells what is in
 * it.
 */
public final class ExportSample {
  private static final Path DEFAULT_PATH = Path.of("examples/data/minilm-layer0.safetensors");
  private static final int LAYER = 0;

  /** Of quite different lengths, so that three of them are padded; few enough for 1 MiB. */
  private static final List<String> SENTENCES =
      List.of(
          "Softmax is a fold: the state is a maximum, a sum and a weighted sum of values, and two"
              + " states that have seen different keys merge into the state of all the keys.",
          "Whenever a larger score turns up, everything that was added before shrinks by the same"
              + " factor.",
          "The kitten sleeps in the sun.",
          "Attention!");

  private ExportSample() {}

  /**
   * Runs the program.
   *
   * @param args the file to write; without any, the one in {@code examples/data} below the current
   *     folder
   */
  public static void main(String[] args) throws IOException, OrtException {
    Path path = args.length == 0 ? DEFAULT_PATH : Path.of(args[0]);
    export(path);
    System.out.println("wrote " + path);
  }

  /** Computes the sample and writes it. */
  static void export(Path path) throws IOException, OrtException {
    TokenBatch tokens;
    try (SentenceTokenizer tokenizer = SentenceTokenizer.open()) {
      tokens = tokenizer.encode(SENTENCES);
    }
    AttentionTensors attention = AttentionTensors.of(OnnxModel.load(), LAYER, tokens);

    Map<String, Tensor> tensors = new LinkedHashMap<>();
    tensors.put("q", attention.q());
    tensors.put("k", attention.k());
    tensors.put("v", attention.v());
    tensors.put("mask", tokens.mask());
    tensors.put("expected", attention.output());

    Map<String, String> metadata = new LinkedHashMap<>();
    metadata.put("model", "sentence-transformers/all-MiniLM-L6-v2");
    metadata.put("license", "Apache-2.0");
    metadata.put("layer", Integer.toString(LAYER));
    metadata.put("expected", "ONNX Runtime " + OnnxRuntime.version());
    metadata.put("scale", "1/sqrt(dim), not applied to q");
    metadata.put("mask", "true means visible");
    metadata.put(
        "lengths",
        IntStream.of(tokens.lengths())
            .mapToObj(Integer::toString)
            .collect(Collectors.joining(",")));
    for (int b = 0; b < tokens.batch(); b++) {
      metadata.put("sentence." + b, SENTENCES.get(b));
    }
    SafeTensors.write(path, tensors, metadata);
  }
}
