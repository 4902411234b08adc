package dev.foldmax.examples.decoder;

import dev.foldmax.Backend;
import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import java.util.Arrays;

/** Continues a prompt, always with the token of the largest logit. */
record Generator(Decoder decoder, Backend backend) {
  private static final Sampling LARGEST = Sampling.seeded(0).temperature(0);

  /**
   * Continues a prompt token by token.
   *
   * @param chunk how many tokens of the prompt are taken in at a time
   * @param cache empty
   * @return the tokens that follow the prompt
   */
  int[] generate(int[] prompt, int count, int chunk, KvCache cache) {
    int[] tokens = new int[count];
    float[] logits = decoder.prefill(prompt, chunk, cache, backend);
    for (int i = 0; i < count; i++) {
      tokens[i] = largest(logits)[0];
      if (i + 1 < count) {
        logits = decoder.step(new int[] {tokens[i]}, cache, backend);
      }
    }
    return tokens;
  }

  /**
   * The same tokens, in fewer steps where the text repeats itself: what followed when the last
   * token came before is a draft, and one step checks all of it (speculative decoding, Leviathan et
   * al., arXiv 2211.17192, with the prompt itself as the model that drafts).
   *
   * @param drafts the most tokens of a draft
   */
  int[] generateByDrafts(int[] prompt, int count, int chunk, int drafts, KvCache cache) {
    int[] text = Arrays.copyOf(prompt, prompt.length + count);
    int length = prompt.length;
    text[length++] = largest(decoder.prefill(prompt, chunk, cache, backend))[0];
    while (length < text.length) {
      int[] draft = draft(text, length, Math.min(drafts, text.length - length - 1));
      int[] step = new int[1 + draft.length];
      step[0] = text[length - 1];
      System.arraycopy(draft, 0, step, 1, draft.length);
      int[] followers = largest(decoder.step(step, cache, backend));
      int accepted = 0; // each draft token that is what the model says after those before it
      while (accepted < draft.length && draft[accepted] == followers[accepted]) {
        accepted++;
      }
      System.arraycopy(followers, 0, text, length, accepted + 1);
      length += accepted + 1;
      cache.truncate(length - 1); // the last token's own keys come with the next step
    }
    return Arrays.copyOfRange(text, prompt.length, text.length);
  }

  /** What followed the last time that the last token came before. */
  private static int[] draft(int[] text, int length, int most) {
    for (int i = length - 2; i >= 0; i--) {
      if (text[i] == text[length - 1]) {
        return Arrays.copyOfRange(text, i + 1, Math.min(i + 1 + most, length));
      }
    }
    return new int[0];
  }

  /** The token of the largest logit of each row. */
  private int[] largest(float[] logits) {
    int vocabulary = decoder.shape().vocabulary();
    Tensor rows = Tensor.of(logits, logits.length / vocabulary, vocabulary);
    return Arrays.stream(backend.sample(rows, LARGEST).toLongArray())
        .mapToInt(Math::toIntExact)
        .toArray();
  }
}
