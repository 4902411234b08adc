package dev.foldmax.examples.decoder;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.Backend;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The same tokens, whatever the cache and however the prompt is cut. */
class DecoderTest {
  private static final int CAPACITY = 150;
  private static final int COUNT = 24;
  private static final Decoder DECODER = new Decoder(ModelShape.SMALL, 7);
  private static final int[] PROMPT =
      new SplittableRandom(8).ints(90, 0, ModelShape.SMALL.vocabulary()).toArray();

  private static Backend backend;

  @TempDir private Path folder;

  @BeforeAll
  static void open() {
    backend = Backend.cpu();
  }

  @AfterAll
  static void close() {
    backend.close();
  }

  enum Kind {
    LAYERS,
    OFF_HEAP,
    MAPPED,
    PAGES,
    RINGS
  }

  private KvCache cache(Kind kind) throws IOException {
    ModelShape shape = DECODER.shape();
    return switch (kind) {
      case LAYERS -> new LayerCache(shape, CAPACITY);
      case OFF_HEAP -> BufferCache.offHeap(shape, CAPACITY);
      case MAPPED -> BufferCache.mapped(shape, CAPACITY, folder.resolve("cache"));
      case PAGES -> new PagedCache(shape, CAPACITY, 9);
      case RINGS -> new RingCache(shape, CAPACITY, PROMPT.length);
    };
  }

  @ParameterizedTest
  @EnumSource
  void everyCacheAndEveryChunkGiveTheSameTokens(Kind kind) throws IOException {
    Generator generator = new Generator(DECODER, backend);
    int[] expected;
    try (KvCache cache = new LayerCache(DECODER.shape(), CAPACITY)) {
      expected = generator.generate(PROMPT, COUNT, PROMPT.length, cache);
    }
    assertThat(Arrays.stream(expected).distinct().count()).isGreaterThan(5);
    for (int chunk : new int[] {7, PROMPT.length}) {
      try (KvCache cache = cache(kind)) {
        assertThat(generator.generate(PROMPT, COUNT, chunk, cache))
            .as("chunks of %d", chunk)
            .isEqualTo(expected);
      }
      try (KvCache cache = cache(kind)) {
        assertThat(generator.generateByDrafts(PROMPT, COUNT, chunk, 5, cache))
            .as("drafts, chunks of %d", chunk)
            .isEqualTo(expected);
      }
    }
  }

  /** With grouped query heads the CPU backend promises it: see docs/numerics.md, Phase. */
  @ParameterizedTest
  @EnumSource
  void everyCacheAndEveryChunkGiveTheSameBits(Kind kind) throws IOException {
    float[] expected;
    try (KvCache cache = new LayerCache(DECODER.shape(), CAPACITY)) {
      expected = DECODER.prefill(PROMPT, PROMPT.length, cache, backend);
    }
    for (int chunk : new int[] {1, 7, 32}) {
      try (KvCache cache = cache(kind)) {
        assertThat(DECODER.prefill(PROMPT, chunk, cache, backend)).containsExactly(expected);
      }
    }
  }

  @Test
  void theReferenceAgrees() {
    try (Backend reference = Backend.reference();
        KvCache one = new LayerCache(DECODER.shape(), CAPACITY);
        KvCache other = new RingCache(DECODER.shape(), CAPACITY, 30)) {
      float[] logits = DECODER.prefill(PROMPT, 90, one, backend);
      float[] expected = DECODER.prefill(PROMPT, 30, other, reference);
      assertThat(logits).containsExactly(expected, within(1e-3f));
    }
  }

  /** A text that repeats itself, so that drafts are accepted, and some are not. */
  @ParameterizedTest
  @ValueSource(ints = {1, 9})
  void draftsSaveSteps(int drafts) {
    int[] steps = new int[1];
    KvCache counting =
        new RingCache(DECODER.shape(), 400, PROMPT.length) {
          @Override
          void advance(int tokens) {
            steps[0]++;
            super.advance(tokens);
          }
        };
    Generator generator = new Generator(DECODER, backend);
    int[] tokens = generator.generateByDrafts(PROMPT, 120, 90, drafts, counting);
    assertThat(steps[0]).isLessThan(120);
    try (KvCache cache = new LayerCache(DECODER.shape(), 400)) {
      assertThat(tokens).isEqualTo(generator.generate(PROMPT, 120, 90, cache));
    }
  }

  /** A ring goes back as far as it has the keys that the next token sees, and no further. */
  @Test
  void aRingForgetsOnlyWhatItCanDoWithout() {
    int most = 10;
    int[] more = {3, 1, 4};
    RingCache ring = new RingCache(DECODER.shape(), CAPACITY, most);
    DECODER.prefill(PROMPT, most, ring, backend);
    int least = PROMPT.length - most;
    for (int to : new int[] {1, 30, least - 1}) {
      assertThatIllegalStateException()
          .isThrownBy(() -> ring.truncate(to))
          .withMessageContaining("that token " + to + " would see")
          .withMessageContaining("truncate to 0 or to " + least + " and more");
      assertThat(ring.length()).isEqualTo(PROMPT.length);
    }
    assertThatIllegalArgumentException().isThrownBy(() -> ring.truncate(-1));
    assertThatIllegalArgumentException().isThrownBy(() -> ring.truncate(PROMPT.length + 1));
    for (int to : new int[] {PROMPT.length - 3, least, 0}) {
      ring.truncate(to);
      KvCache all = new LayerCache(DECODER.shape(), CAPACITY);
      if (to > 0) {
        DECODER.prefill(Arrays.copyOf(PROMPT, to), most, all, backend);
      }
      assertThat(DECODER.step(more, ring, backend))
          .as("from %d on", to)
          .containsExactly(DECODER.step(more, all, backend));
      ring.truncate(to);
      DECODER.step(Arrays.copyOfRange(PROMPT, to, Math.min(to + most, 90)), ring, backend);
    }
  }

  @Test
  void aMappedFileKeepsThePromptForLater() throws IOException {
    try (KvCache cache = cache(Kind.MAPPED)) {
      DECODER.prefill(PROMPT, 90, cache, backend);
    }
    int[] more = {3, 1, 4};
    float[] expected;
    try (KvCache cache = new LayerCache(DECODER.shape(), CAPACITY)) {
      DECODER.prefill(PROMPT, 90, cache, backend);
      expected = DECODER.step(more, cache, backend);
    }
    try (KvCache cache = cache(Kind.MAPPED)) {
      cache.advance(PROMPT.length);
      assertThat(DECODER.step(more, cache, backend)).containsExactly(expected);
    }
  }

  @Test
  void whatDoesNotFitIsRefused() {
    KvCache small = new LayerCache(DECODER.shape(), 80);
    assertThatIllegalStateException()
        .isThrownBy(() -> DECODER.prefill(PROMPT, 90, small, backend))
        .withMessageContaining("holds 80 tokens, 90");
    KvCache ring = new RingCache(DECODER.shape(), CAPACITY, 8);
    assertThatIllegalArgumentException()
        .isThrownBy(() -> DECODER.prefill(PROMPT, 9, ring, backend))
        .withMessageContaining("at most 8 tokens");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> small.truncate(1))
        .withMessageContaining("expected 0 to 0, got 1");
  }
}
