package dev.foldmax.examples.minilm;

import ai.djl.huggingface.tokenizers.Encoding;
import ai.djl.huggingface.tokenizers.HuggingFaceTokenizer;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** The model's own WordPiece tokenizer, as described by the file that comes with the model. */
final class SentenceTokenizer implements AutoCloseable {
  private static final String RESOURCE = "all-minilm-l6-v2-tokenizer.json";

  /** What the model was trained on; longer sentences are cut. */
  static final int MAX_LENGTH = 256;

  static {
    // Unless told that it is offline, the library reports its use, and downloads another build of
    // its native code where it finds a GPU. It has what is needed for a CPU in its jar.
    System.setProperty("ai.djl.offline", "true");
  }

  private final HuggingFaceTokenizer tokenizer;

  private SentenceTokenizer(HuggingFaceTokenizer tokenizer) {
    this.tokenizer = tokenizer;
  }

  /** Opens the tokenizer of the model on the class path. */
  static SentenceTokenizer open() throws IOException {
    try (InputStream in = OnnxModel.class.getClassLoader().getResourceAsStream(RESOURCE)) {
      if (in == null) {
        throw new FileNotFoundException(RESOURCE + " is not on the class path");
      }
      // The file asks for padding to 128; TokenBatch pads to the longest sentence instead.
      Map<String, String> options =
          Map.of("padding", "false", "truncation", "true", "maxLength", "" + MAX_LENGTH);
      return new SentenceTokenizer(HuggingFaceTokenizer.newInstance(in, options));
    }
  }

  /** The tokens of each sentence, between {@code [CLS]} and {@code [SEP]}, as one batch. */
  TokenBatch encode(List<String> sentences) {
    Encoding[] encodings = tokenizer.batchEncode(sentences);
    return TokenBatch.of(Arrays.stream(encodings).map(Encoding::getIds).toList());
  }

  @Override
  public void close() {
    tokenizer.close();
  }
}
