package dev.foldmax.examples.decoder;

import dev.foldmax.Backend;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.SplittableRandom;

/** Continues one prompt with every kind of cache, and says whether they agree. */
final class GenerateTokens {
  private static final int PROMPT = 100;
  private static final int COUNT = 60;
  private static final int CHUNK = 32;
  private static final int DRAFTS = 4;
  private static final long SEED = 1;

  private GenerateTokens() {}

  /** Runs the program; it takes no arguments. */
  public static void main(String[] arguments) throws IOException {
    Decoder decoder = new Decoder(ModelShape.SMALL, SEED);
    int[] prompt =
        new SplittableRandom(SEED).ints(PROMPT, 0, decoder.shape().vocabulary()).toArray();
    Path folder = Files.createTempDirectory("foldmax-decoder");
    Path file = folder.resolve("cache.f16");
    try (Backend backend = Backend.best()) {
      Generator generator = new Generator(decoder, backend);
      System.out.println("attention by " + backend.description());
      int[] first = null;
      for (var entry : caches(decoder.shape(), file).entrySet()) {
        try (KvCache cache = entry.getValue()) {
          int[] tokens = generator.generateByDrafts(prompt, COUNT, CHUNK, DRAFTS, cache);
          if (first == null) {
            first = tokens;
            System.out.println("tokens " + Arrays.toString(Arrays.copyOf(tokens, 12)) + " ...");
          }
          System.out.printf(
              "%-28s %s%n",
              entry.getKey(), Arrays.equals(tokens, first) ? "the same tokens" : "OTHER TOKENS");
        }
      }
    } finally {
      Files.deleteIfExists(file);
      Files.delete(folder);
    }
  }

  private static Map<String, KvCache> caches(ModelShape shape, Path file) throws IOException {
    int capacity = PROMPT + COUNT + DRAFTS;
    Map<String, KvCache> caches = new LinkedHashMap<>();
    caches.put("an array for each layer", new LayerCache(shape, capacity));
    caches.put("one buffer off the heap", BufferCache.offHeap(shape, capacity));
    caches.put("float16 in a mapped file", BufferCache.mapped(shape, capacity, file));
    caches.put("pages", new PagedCache(shape, capacity, SEED));
    caches.put("rings for sliding layers", new RingCache(shape, capacity, CHUNK));
    return caches;
  }
}
