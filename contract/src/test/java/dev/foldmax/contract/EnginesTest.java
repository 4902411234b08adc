package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The Java of docs/engines.md, compiled and run: what stands here between two markers is what the
 * page shows. Each cache holds the same keys and values, and each call must give what a plain call
 * over {@link #keys} and {@link #values} gives, bit by bit where the page says so.
 */
class EnginesTest {
  private static final int layers = 2;
  private static final int layer = 1;
  private static final int capacity = 128;
  private static final int heads = 8;
  private static final int kvHeads = 2;
  private static final int dim = 32;
  private static final int kvDim = kvHeads * dim;

  /** The number of tokens in the cache. */
  private static final int n = 100;

  private static final int pageSize = 16;
  private static final int window = 24;

  private static Backend backend;

  /** Of the tokens so far, (1, key heads, n, dim), of numbers that float16 holds exactly. */
  private static Tensor keys;

  private static Tensor values;

  @TempDir private Path folder;

  @BeforeAll
  static void open() {
    backend = Backend.cpu();
    keys = random(1, 1, kvHeads, n, dim);
    values = random(2, 1, kvHeads, n, dim);
  }

  @AfterAll
  static void close() {
    backend.close();
  }

  private static Tensor random(long seed, long... shape) {
    SplittableRandom random = new SplittableRandom(seed);
    Tensor tensor = Tensor.allocate(DType.F16, shape);
    Tensor flat = tensor.reshape(tensor.elements());
    for (long i = 0; i < flat.elements(); i++) {
      flat.set(random.nextGaussian(), i);
    }
    return tensor.to(DType.F32);
  }

  private static void assertSameAsPlain(KeyValues cache, Attention attention) {
    Tensor query = random(3, 1, heads, 1, dim);
    Tensor expected = backend.attend(query, KeyValues.dense(keys, values), attention);
    assertThat(backend.attend(query, cache, attention).toFloatArray())
        .containsExactly(expected.toFloatArray());
  }

  @Test
  void anArrayForEachLayer() {
    float[][] keyCache = new float[layers][capacity * kvDim];
    float[][] valueCache = new float[layers][capacity * kvDim];
    rows(Tensor.of(keyCache[layer], capacity, kvHeads, dim)).copyFrom(keys);
    rows(Tensor.of(valueCache[layer], capacity, kvHeads, dim)).copyFrom(values);
    // layers begin
    Tensor k = Tensor.of(keyCache[layer], 1, capacity, kvHeads, dim); // float[capacity * kvDim]
    Tensor v = Tensor.of(valueCache[layer], 1, capacity, kvHeads, dim);
    KeyValues cache =
        KeyValues.dense(
            k.slice(1, 0, n).permute(0, 2, 1, 3), // (batch, key heads, length, dim): views
            v.slice(1, 0, n).permute(0, 2, 1, 3));
    // layers end
    assertSameAsPlain(cache, Attention.causal());
  }

  /** The first n rows of (capacity, key heads, dim) as (1, key heads, n, dim). */
  private static Tensor rows(Tensor all) {
    return all.slice(0, 0, n).reshape(1, n, kvHeads, dim).permute(0, 2, 1, 3);
  }

  @Test
  void oneBufferForAllLayers() {
    try (Arena arena = Arena.ofShared()) {
      // buffer begin
      MemorySegment memory = arena.allocate(4L * layers * 2 * capacity * kvDim, 64);
      Tensor all = Tensor.of(memory, DType.F32, layers, 2, capacity, kvHeads, dim);

      Tensor ofLayer = all.select(0, layer); // (keys and values, capacity, key heads, dim)
      KeyValues cache =
          KeyValues.dense(
              ofLayer.select(0, 0).slice(0, 0, n).permute(1, 0, 2), // a batch of 1 may be left out
              ofLayer.select(0, 1).slice(0, 0, n).permute(1, 0, 2));
      // buffer end
      rows(ofLayer.select(0, 0)).copyFrom(keys);
      rows(ofLayer.select(0, 1)).copyFrom(values);
      assertSameAsPlain(cache, Attention.causal());
    }
  }

  @Test
  void pagesWithATable() {
    int pages = 9;
    float[] keyPool = new float[pages * pageSize * kvDim];
    float[] valuePool = new float[pages * pageSize * kvDim];
    int[] pagesOfSequence = {4, 8, 1, 0, 6, 2, 5, 0};
    for (int i = 0; i < n; i++) {
      long page = pagesOfSequence[i / pageSize];
      Tensor to = Tensor.of(keyPool, pages, pageSize, kvHeads, dim).select(0, page);
      to.select(0, i % pageSize).copyFrom(keys.select(0, 0).select(1, i));
      to = Tensor.of(valuePool, pages, pageSize, kvHeads, dim).select(0, page);
      to.select(0, i % pageSize).copyFrom(values.select(0, 0).select(1, i));
    }
    // paged begin
    Tensor k = Tensor.of(keyPool, pages, pageSize, kvHeads, dim).permute(0, 2, 1, 3);
    Tensor v = Tensor.of(valuePool, pages, pageSize, kvHeads, dim).permute(0, 2, 1, 3);
    Tensor table = Tensor.of(pagesOfSequence, 1, pagesOfSequence.length); // (batch, most pages)
    Tensor lengths = Tensor.of(new int[] {n}, 1); // (batch)
    KeyValues cache = KeyValues.paged(k, v, table, lengths);
    // paged end
    assertSameAsPlain(cache, Attention.causal());
  }

  @Test
  void aRingForASlidingLayer() {
    int ring = 32;
    float[] keyRing = new float[ring * kvDim];
    float[] valueRing = new float[ring * kvDim];
    for (int i = n - ring; i < n; i++) {
      Tensor.of(keyRing, ring, kvHeads, dim)
          .select(0, i % ring)
          .copyFrom(keys.select(0, 0).select(1, i));
      Tensor.of(valueRing, ring, kvHeads, dim)
          .select(0, i % ring)
          .copyFrom(values.select(0, 0).select(1, i));
    }
    // ring begin
    Tensor k = Tensor.of(keyRing, 1, ring, kvHeads, dim).permute(0, 2, 1, 3);
    Tensor v = Tensor.of(valueRing, 1, ring, kvHeads, dim).permute(0, 2, 1, 3);
    Tensor first = Tensor.of(new int[] {n - ring}, 1); // the oldest position that is present
    Tensor lengths = Tensor.of(new int[] {ring}, 1);
    KeyValues cache = KeyValues.ring(k, v, first, lengths);
    // The token itself and window - 1 before it.
    Attention sliding = Attention.standard().mask(Mask.causal().and(Mask.window(window - 1, 0)));
    // ring end
    assertSameAsPlain(cache, sliding);
  }

  @Test
  void float16InAMappedFile() throws IOException {
    Path path = folder.resolve("cache");
    try (FileChannel file =
            FileChannel.open(
                path,
                StandardOpenOption.READ,
                StandardOpenOption.WRITE,
                StandardOpenOption.CREATE);
        Arena arena = Arena.ofShared()) {
      // mapped begin
      // file: a FileChannel open for reading and writing; arena: Arena.ofShared()
      long bytes = 2L * layers * 2 * capacity * kvDim;
      MemorySegment memory = file.map(MapMode.READ_WRITE, 0, bytes, arena);
      Tensor all = Tensor.of(memory, DType.F16, layers, 2, capacity, kvHeads, dim);
      // mapped end
      Tensor ofLayer = all.select(0, layer);
      rows(ofLayer.select(0, 0)).copyFrom(keys);
      rows(ofLayer.select(0, 1)).copyFrom(values);
      Tensor k = ofLayer.select(0, 0).slice(0, 0, n).permute(1, 0, 2);
      Tensor v = ofLayer.select(0, 1).slice(0, 0, n).permute(1, 0, 2);
      assertSameAsPlain(KeyValues.dense(k, v), Attention.causal());
    }
  }

  @Test
  void aStepOfAnyNumberOfTokens() {
    KeyValues cache = KeyValues.dense(keys, values);
    Tensor all = random(4, 1, heads, n, dim);
    float[] whole = backend.attend(all, cache, Attention.causal()).toFloatArray();
    for (int tokens : new int[] {1, 5, 30}) {
      float[] q = all.slice(2, n - tokens, n).permute(0, 2, 1, 3).copy().toFloatArray();
      float[] out = new float[q.length];
      // step begin
      // q and out are (tokens, heads, dim); the tokens' own keys are in the cache already.
      Tensor queries = Tensor.of(q, 1, tokens, heads, dim).permute(0, 2, 1, 3);
      Tensor output = Tensor.of(out, 1, tokens, heads, dim).permute(0, 2, 1, 3);
      backend.attend(queries, cache, Attention.causal(), output, null);
      // step end
      Tensor expected = Tensor.of(whole, 1, heads, n, dim).slice(2, n - tokens, n);
      assertThat(output.copy().toFloatArray()).containsExactly(expected.copy().toFloatArray());
    }
  }

  @Test
  void aBatchOfSequencesOfDifferentLengths() {
    int batch = 3;
    int[] tokensOfEach = {40, 100, 1};
    float[] keyCache = new float[batch * capacity * kvDim];
    float[] valueCache = new float[batch * capacity * kvDim];
    float[] q = random(5, batch, heads, 1, dim).toFloatArray();
    float[] out = new float[q.length];
    for (int b = 0; b < batch; b++) {
      int length = tokensOfEach[b];
      Tensor to = Tensor.of(keyCache, batch, capacity, kvHeads, dim).select(0, b);
      to.slice(0, 0, length).permute(1, 0, 2).copyFrom(keys.select(0, 0).slice(1, 0, length));
      to = Tensor.of(valueCache, batch, capacity, kvHeads, dim).select(0, b);
      to.slice(0, 0, length).permute(1, 0, 2).copyFrom(values.select(0, 0).slice(1, 0, length));
    }
    // batch begin
    Tensor k = Tensor.of(keyCache, batch, capacity, kvHeads, dim).permute(0, 2, 1, 3);
    Tensor v = Tensor.of(valueCache, batch, capacity, kvHeads, dim).permute(0, 2, 1, 3);
    KeyValues cache = KeyValues.dense(k, v).lengths(Tensor.of(tokensOfEach, batch));
    Tensor queries = Tensor.of(q, batch, heads, 1, dim);
    backend.attend(queries, cache, Attention.causal(), Tensor.of(out, batch, heads, 1, dim), null);
    // batch end
    for (int b = 0; b < batch; b++) {
      KeyValues own =
          KeyValues.dense(keys.slice(2, 0, tokensOfEach[b]), values.slice(2, 0, tokensOfEach[b]));
      Tensor alone = backend.attend(queries.slice(0, b, b + 1), own, Attention.causal());
      assertThat(Tensor.of(out, batch, heads, 1, dim).slice(0, b, b + 1).copy().toFloatArray())
          .containsExactly(alone.toFloatArray());
    }
  }

  @Test
  void aPrefixThatSequencesShare() {
    int batch = 4;
    int shared = 64;
    int own = 20;
    Tensor ownKeys = random(6, batch, kvHeads, own, dim);
    Tensor ownValues = random(7, batch, kvHeads, own, dim);
    Tensor queries = random(8, batch, heads, 1, dim);
    KeyValues prefix = KeyValues.dense(keys.slice(2, 0, shared), values.slice(2, 0, shared));
    KeyValues rest = KeyValues.dense(ownKeys, ownValues);
    // prefix begin
    // queries: (batch, heads, 1, dim); prefix: keys of a batch of 1; rest: of the whole batch.
    Tensor[] outputs = new Tensor[2];
    Tensor[] lses = new Tensor[2];
    for (int part = 0; part < 2; part++) {
      outputs[part] = Tensor.allocate(DType.F32, batch, heads, 1, dim);
      lses[part] = Tensor.allocate(DType.F32, batch, heads, 1);
    }
    // Over the prefix the batch's queries are those of one sequence, which is read once. Each of
    // them stands behind it and sees all of it, so there is no mask.
    backend.attend(
        queries.permute(2, 1, 0, 3),
        prefix,
        Attention.standard(),
        outputs[0].permute(2, 1, 0, 3),
        lses[0].permute(2, 1, 0));
    backend.attend(queries, rest, Attention.causal(), outputs[1], lses[1]);
    Tensor out = Tensor.allocate(DType.F32, batch, heads, 1, dim);
    backend.merge(List.of(outputs), List.of(lses), out, null);
    // prefix end
    for (int b = 0; b < batch; b++) {
      Tensor wholeKeys = Tensor.allocate(DType.F32, 1, kvHeads, shared + own, dim);
      Tensor wholeValues = Tensor.allocate(DType.F32, 1, kvHeads, shared + own, dim);
      wholeKeys.slice(2, 0, shared).copyFrom(keys.slice(2, 0, shared));
      wholeKeys.slice(2, shared, shared + own).copyFrom(ownKeys.slice(0, b, b + 1));
      wholeValues.slice(2, 0, shared).copyFrom(values.slice(2, 0, shared));
      wholeValues.slice(2, shared, shared + own).copyFrom(ownValues.slice(0, b, b + 1));
      Tensor expected =
          backend.attend(
              queries.slice(0, b, b + 1),
              KeyValues.dense(wholeKeys, wholeValues),
              Attention.causal());
      assertThat(out.slice(0, b, b + 1).copy().toFloatArray())
          .containsExactly(expected.toFloatArray(), within(2e-6f));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"layers", "buffer", "paged", "ring", "mapped", "step", "batch", "prefix"})
  void thePageShowsTheExample(String example) throws IOException {
    Pages.assertShows("docs/engines.md", EnginesTest.class, example);
  }
}
