package dev.foldmax.examples.minilm;

import dev.foldmax.Tensor;
import java.util.List;

/** Tokens of several sentences, padded at the end to the longest. */
final class TokenBatch {
  private final long[] ids; // (batch, length)
  private final int[] lengths; // (batch)
  private final int length;

  private TokenBatch(long[] ids, int[] lengths, int length) {
    this.ids = ids;
    this.lengths = lengths;
    this.length = length;
  }

  /** Pads sentences to the longest of them. */
  static TokenBatch of(List<long[]> sentences) {
    int length = sentences.stream().mapToInt(ids -> ids.length).max().orElse(0);
    int[] lengths = new int[sentences.size()]; // (batch)
    long[] ids = new long[sentences.size() * length]; // (batch, length), all 0, the token [PAD]
    for (int b = 0; b < lengths.length; b++) {
      long[] sentence = sentences.get(b);
      lengths[b] = sentence.length;
      System.arraycopy(sentence, 0, ids, b * length, sentence.length);
    }
    return new TokenBatch(ids, lengths, length);
  }

  /** Each token's number in the vocabulary: (batch, length), row-major; not a copy. */
  long[] ids() {
    return ids;
  }

  /** How many tokens of each sentence are real: (batch); not a copy. */
  int[] lengths() {
    return lengths;
  }

  /** How many tokens the longest sentence has. */
  int length() {
    return length;
  }

  /** How many sentences there are. */
  int batch() {
    return lengths.length;
  }

  /** Whether a token is real, not padding. */
  boolean isReal(int sentence, int position) {
    return position < lengths[sentence];
  }

  /**
   * Which keys queries may see: BOOL, (batch, 1, 1, length), the same for all heads and queries.
   */
  Tensor mask() {
    boolean[] real = new boolean[ids.length]; // (batch, length)
    for (int b = 0; b < batch(); b++) {
      for (int i = 0; i < length; i++) {
        real[b * length + i] = isReal(b, i);
      }
    }
    return Tensor.of(real, batch(), 1, 1, length);
  }
}
