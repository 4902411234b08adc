package dev.foldmax.examples.minilm;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Ids are those of BERT's uncased vocabulary: 101 is [CLS], 102 is [SEP]. */
class SentenceTokenizerTest {
  private static TokenBatch encode(String... sentences) throws IOException {
    try (SentenceTokenizer tokenizer = SentenceTokenizer.open()) {
      return tokenizer.encode(List.of(sentences));
    }
  }

  @Test
  void splitsPunctuationAndIgnoresCaseAndAccents() throws IOException {
    TokenBatch tokens = encode("Hello, world!", "h\u00e9LLO");

    assertThat(tokens.lengths()).containsExactly(6, 3);
    assertThat(tokens.ids())
        .containsExactly(101, 7592, 1010, 2088, 999, 102, 101, 7592, 102, 0, 0, 0);
  }

  @Test
  void splitsRareWordsIntoPieces() throws IOException {
    // em ##bed ##ding ##s, the example of the model's tokenizer everywhere.
    assertThat(encode("embeddings").ids()).containsExactly(101, 7861, 8270, 4667, 2015, 102);
  }

  @Test
  void cutsAtTheLengthThatTheModelWasTrainedOn() throws IOException {
    TokenBatch tokens = encode("word ".repeat(1000));

    assertThat(tokens.length()).isEqualTo(SentenceTokenizer.MAX_LENGTH);
    assertThat(tokens.ids()).startsWith(101).endsWith(102);
  }

  @Test
  void tellsTheLibraryToStayOffline() throws IOException {
    assertThat(encode("word").lengths()).containsExactly(3);
    assertThat(System.getProperty("ai.djl.offline")).isEqualTo("true");
  }
}
