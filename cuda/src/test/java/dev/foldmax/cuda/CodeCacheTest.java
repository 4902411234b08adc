package dev.foldmax.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Code on disk and in memory, with a compiler that counts. */
class CodeCacheTest {
  @TempDir private Path folder;

  /** Gives its options as code. */
  private static final class Counting implements KernelCompiler {
    private final AtomicInteger compilations = new AtomicInteger();
    private String version = "1";

    @Override
    public String version() {
      return version;
    }

    @Override
    public Target target(int capability) {
      return new Target("sm_" + capability, false);
    }

    @Override
    public byte[] compile(KernelSource source, Target target, List<String> options) {
      compilations.incrementAndGet();
      return (source.name() + target + options).getBytes(StandardCharsets.UTF_8);
    }
  }

  private Path onlyFile() throws IOException {
    try (Stream<Path> files = Files.list(folder)) {
      return files.toList().getFirst();
    }
  }

  private long files() throws IOException {
    try (Stream<Path> files = Files.list(folder)) {
      return files.count();
    }
  }

  @Test
  void codeIsCompiledOnceForAllProcesses() throws IOException {
    Counting compiler = new Counting();
    byte[] first = new CodeProvider(compiler, new CodeCache(folder), 90).get("copy.cu", Map.of());
    byte[] second = new CodeProvider(compiler, new CodeCache(folder), 90).get("copy.cu", Map.of());
    assertThat(second).isEqualTo(first);
    assertThat(compiler.compilations).hasValue(1);
    assertThat(files()).isEqualTo(1);
  }

  @Test
  void macrosDeviceAndCompilerMakeOtherCode() throws IOException {
    Counting compiler = new Counting();
    CodeCache cache = new CodeCache(folder);
    new CodeProvider(compiler, cache, 90).get("copy.cu", Map.of("A", 1, "B", 2));
    new CodeProvider(compiler, cache, 90).get("copy.cu", Map.of("B", 2, "A", 1));
    assertThat(files()).isEqualTo(1);
    new CodeProvider(compiler, cache, 90).get("copy.cu", Map.of("A", 2, "B", 1));
    new CodeProvider(compiler, cache, 80).get("copy.cu", Map.of("A", 1, "B", 2));
    compiler.version = "2";
    new CodeProvider(compiler, cache, 90).get("copy.cu", Map.of("A", 1, "B", 2));
    assertThat(files()).isEqualTo(4);
    assertThat(compiler.compilations).hasValue(4);
  }

  @Test
  void damagedFilesAreCompiledAnew() throws IOException {
    Counting compiler = new Counting();
    CodeProvider provider = new CodeProvider(compiler, new CodeCache(folder), 90);
    byte[] code = provider.get("copy.cu", Map.of());
    Path file = onlyFile();
    byte[] whole = Files.readAllBytes(file);
    List<byte[]> damages = new ArrayList<>();
    for (int i : new int[] {0, 3, 8, 20, 45, whole.length - 1}) {
      byte[] flipped = whole.clone();
      flipped[i] ^= 1;
      damages.add(flipped);
    }
    for (int length : new int[] {0, 5, 8, 40, whole.length - 1}) {
      damages.add(Arrays.copyOf(whole, length));
    }
    damages.add(Arrays.copyOf(whole, whole.length + 1));
    int compilations = 1;
    for (byte[] damaged : damages) {
      Files.write(file, damaged);
      assertThat(provider.get("copy.cu", Map.of())).isEqualTo(code);
      assertThat(compiler.compilations).hasValue(++compilations);
      assertThat(Files.readAllBytes(file)).isEqualTo(whole);
    }
  }

  @Test
  void aFolderThatCannotBeIsNoObstacle() throws IOException {
    Path file = Files.writeString(folder.resolve("file"), "no folder");
    Counting compiler = new Counting();
    CodeProvider provider = new CodeProvider(compiler, new CodeCache(file.resolve("x")), 90);
    assertThat(provider.get("copy.cu", Map.of())).isNotEmpty();
    assertThat(provider.get("copy.cu", Map.of())).isNotEmpty();
    assertThat(compiler.compilations).hasValue(2);
  }

  /** Many at once, as processes would be: each with a cache of its own over one folder. */
  @Test
  void severalWritersLeaveWholeFiles() throws Exception {
    byte[] code = new byte[200_000];
    Arrays.fill(code, (byte) 7);
    try (ExecutorService threads = Executors.newFixedThreadPool(8)) {
      List<Future<?>> all = new ArrayList<>();
      for (int t = 0; t < 8; t++) {
        all.add(
            threads.submit(
                () -> {
                  CodeCache own = new CodeCache(folder);
                  for (int n = 0; n < 25; n++) {
                    own.write("0123456789abcdef", code);
                    assertThat(own.read("0123456789abcdef")).hasValue(code);
                  }
                }));
      }
      for (Future<?> one : all) {
        one.get();
      }
    }
    assertThat(files()).isEqualTo(1);
  }

  @Test
  void anInterruptedThreadReadsAndWritesAllTheSame() {
    CodeCache cache = new CodeCache(folder);
    Thread.currentThread().interrupt();
    cache.write("0123456789abcdef", new byte[] {1, 2, 3});
    assertThat(cache.read("0123456789abcdef")).hasValue(new byte[] {1, 2, 3});
    assertThat(Thread.interrupted()).isTrue();
  }

  @Test
  void theFolderIsTheUsersFolderForCaches() {
    assertThat(
            CodeCache.folder(
                Map.of("foldmax.cache", "/x", "user.home", "/h")::get,
                Map.of("XDG_CACHE_HOME", "/c")::get))
        .isEqualTo(Path.of("/x"));
    assertThat(
            CodeCache.folder(
                Map.of("user.home", "/h")::get,
                Map.of("XDG_CACHE_HOME", "/c", "LOCALAPPDATA", "/l")::get))
        .isEqualTo(Path.of("/c/foldmax"));
    assertThat(CodeCache.folder(Map.of("user.home", "/h")::get, Map.of("LOCALAPPDATA", "/l")::get))
        .isEqualTo(Path.of("/l/foldmax"));
    assertThat(CodeCache.folder(Map.of("user.home", "/h")::get, Map.of("XDG_CACHE_HOME", "")::get))
        .isEqualTo(Path.of("/h/.cache/foldmax"));
  }

  @Test
  void ofThreadsThatAskTogetherOneCompiles() throws Exception {
    ConcurrentHashMap<String, FutureTask<Integer>> values = new ConcurrentHashMap<>();
    AtomicInteger made = new AtomicInteger();
    CountDownLatch begun = new CountDownLatch(1);
    try (ExecutorService threads = Executors.newFixedThreadPool(4)) {
      List<Future<Integer>> all = new ArrayList<>();
      for (int t = 0; t < 4; t++) {
        all.add(
            threads.submit(
                () -> {
                  begun.await();
                  return Kernels.once(values, "key", key -> made.incrementAndGet());
                }));
      }
      begun.countDown();
      for (Future<Integer> one : all) {
        assertThat(one.get()).isEqualTo(1);
      }
    }
  }

  @Test
  void aFailureIsThrownAndForgotten() {
    ConcurrentHashMap<String, FutureTask<Integer>> values = new ConcurrentHashMap<>();
    for (int n = 0; n < 2; n++) {
      assertThatExceptionOfType(CudaException.class)
          .isThrownBy(
              () ->
                  Kernels.once(
                      values,
                      "key",
                      key -> {
                        throw new CudaException("broken", 6);
                      }))
          .withMessage("broken");
    }
    assertThat(Kernels.<String, Integer>once(values, "key", key -> 5)).isEqualTo(5);
  }
}
