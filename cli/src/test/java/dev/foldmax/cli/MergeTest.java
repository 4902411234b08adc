package dev.foldmax.cli;

import static dev.foldmax.cli.Cli.random;
import static dev.foldmax.cli.Cli.read;
import static dev.foldmax.cli.Cli.readNpy;
import static dev.foldmax.cli.Cli.run;
import static dev.foldmax.cli.Cli.safeTensors;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.Attention;
import dev.foldmax.AttentionPartial;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;
import dev.foldmax.io.PartialFile;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code foldmax attend --keys} and {@code foldmax merge}. */
class MergeTest {
  private static final int CELL = 1536;
  private static final int KEYS = 3 * CELL + 100;

  @TempDir private Path folder;
  private Path sample;
  private Path one;
  private Path merged;

  @BeforeEach
  void writeTheSample() throws IOException {
    sample = folder.resolve("sample.safetensors");
    one = folder.resolve("one.safetensors");
    merged = folder.resolve("merged.safetensors");
    safeTensors(
        sample,
        Map.of(
            "q", random(1, DType.F16, 4, 5, 8),
            "k", random(2, DType.F16, 2, KEYS, 8),
            "v", random(3, DType.F16, 2, KEYS, 6),
            "mask", random(4, DType.F32, 5, KEYS).to(DType.BOOL),
            "bias", random(5, DType.F32, KEYS),
            "sinks", random(6, DType.F32, 4),
            "slopes", random(7, DType.F32, 4)));
  }

  private static Object[] words(Object... parts) {
    List<Object> words = new ArrayList<>();
    for (Object part : parts) {
      if (part instanceof String text) {
        words.addAll(List.of(text.split(" ")));
      } else if (part instanceof List<?> list) {
        words.addAll(list);
      } else {
        words.add(part);
      }
    }
    return words.toArray();
  }

  private static Cli.Result attend(Object... parts) {
    return run(words("attend", List.of(parts))).succeeded();
  }

  private Path partial(String keys, Object... options) {
    Path file = folder.resolve("part " + keys.replace("..", "-") + ".safetensors");
    run(words("attend", sample, "--keys", keys, "--partial", file, List.of(words(options))))
        .succeeded();
    return file;
  }

  /** Every file is the one of a single run, byte by byte. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "--causal",
        "--window 2000,0 --layout bhld",
        "--softcap 3 --phase prefill",
        "--prefix 1700 --scale 0.3 --tensor sinks=",
        "--tensor bias= --tensor mask= --tensor slopes= --rescale lazy",
        "--layout blhd --tensor k=kt --tensor v=vt --tensor q=qt --causal=top-left"
      })
  void cutAtCells(String definition) throws IOException {
    Map<String, Tensor> tensors = read(sample);
    for (String name : List.of("q", "k", "v")) {
      tensors.put(name + "t", tensors.get(name).permute(1, 0, 2).copy());
    }
    safeTensors(sample, tensors);
    attend(words(sample, definition, "--out", one));
    Path c = partial(2 * CELL + "..", definition);
    Path a = partial(".." + CELL, definition, "--threads 1");
    Path b = partial(CELL + ".." + 2 * CELL, definition);

    Cli.Result result = run("merge", c, a, b, "--out", merged).succeeded();

    assertThat(result.out()).contains("all " + KEYS, "those of a single run");
    assertThat(merged).hasSameBinaryContentAs(one);
  }

  /** A machine that has nothing but its own keys. */
  @Test
  void slices() throws IOException {
    attend(sample, "--causal", "--out", one);
    Map<String, Tensor> tensors = read(sample);
    List<Path> parts = new ArrayList<>();
    for (int begin : new int[] {0, CELL}) {
      int end = begin == 0 ? CELL : KEYS;
      for (String name : List.of("k", "v")) {
        tensors.put(name, read(sample).get(name).slice(1, begin, end).copy());
      }
      Path own = safeTensors(folder.resolve("own" + begin + ".safetensors"), tensors);
      Path part = folder.resolve("slice" + begin + ".safetensors");
      Object[] words =
          words("attend", own, "--causal --keys", begin + ".." + end, "--partial", part);
      assertThat(run(words).failed(1)).contains("bias", "expected what broadcasts to");
      run(words(List.of(words), "--total-keys", "" + KEYS)).succeeded();
      assertThat(
              run(words(
                      "attend",
                      own,
                      "--causal --keys 7..9 --total-keys " + KEYS,
                      "--partial",
                      part))
                  .failed(1))
          .contains(own.toString(), "k is", "expected 2 keys", "7..9", "all " + KEYS);
      parts.add(part);
    }
    run("merge", parts.get(0), parts.get(1), "--out", merged, "--threads", 1).succeeded();
    assertThat(merged).hasSameBinaryContentAs(one);
  }

  @Test
  void cutAnywhere() throws IOException {
    attend(sample, "--causal", "--out", one);
    Path a = partial("..1000", "--causal");
    Path b = partial("1000..1010", "--causal");
    Path c = partial("1010..", "--causal");
    Cli.Result result = run("merge", b, c, a, "--out", merged, "--json").succeeded();
    assertThat(result.json().get("exact").asBoolean()).isFalse();
    assertNear(read(merged), read(one));
  }

  private static void assertNear(Map<String, Tensor> actual, Map<String, Tensor> expected) {
    assertThat(actual.keySet()).isEqualTo(expected.keySet());
    actual.forEach(
        (name, tensor) -> {
          double[] numbers = tensor.toDoubleArray();
          double[] wanted = expected.get(name).toDoubleArray();
          assertThat(tensor.toString()).isEqualTo(expected.get(name).toString());
          assertThat(numbers).hasSameSizeAs(wanted);
          for (int i = 0; i < numbers.length; i++) {
            assertThat(numbers[i]).isCloseTo(wanted[i], within(4e-3));
          }
        });
  }

  @Test
  void finishedParts() throws IOException {
    attend(sample, "--causal", "--out", one);
    Path a = folder.resolve("a.safetensors");
    Path b = folder.resolve("b.safetensors");
    attend(sample, "--causal", "--keys=..2000", "--finished", "--out", a);
    attend(sample, "--causal", "--keys=2000..", "--finished", "--out", b);
    assertThat(run("merge", b, a, "--out", merged).succeeded().out()).contains("all " + KEYS);
    assertNear(read(merged), read(one));
    assertThat(run("merge", a, "--out", merged).failed(1)).contains("2000.." + KEYS, "no part");
    assertThat(run("merge", a, b, a, "--out", merged).failed(1)).contains(a.toString(), "already");
    Path other = folder.resolve("other.safetensors");
    attend(sample, "--keys=2000..", "--finished", "--out", other);
    assertThat(run("merge", a, other).failed(1))
        .contains(
            a.toString(),
            other.toString(),
            "mask is tensor",
            "expected causal BOTTOM_RIGHT and tensor");
    byte[] bytes = Files.readAllBytes(b);
    bytes[bytes.length - 1] ^= 1;
    Files.write(b, bytes);
    assertThat(run("merge", a, b).failed(1)).contains(b.toString(), "altered");
  }

  /** What other systems write: nothing but numbers. */
  @Test
  void partsOfOthers() throws IOException {
    attend(sample, "--tensor=sinks=", "--tensor=mask=", "--out", one);
    List<Object> pairs = new ArrayList<>();
    for (String keys : List.of("..9", "9..3000", "3000..")) {
      Path output = folder.resolve("o" + pairs.size() + ".npy");
      Path lse = folder.resolve("l" + pairs.size() + ".npy");
      attend(
          sample,
          "--tensor=sinks=",
          "--tensor=mask=",
          "--keys",
          keys,
          "--finished",
          "--out",
          output,
          "--lse",
          lse);
      pairs.add(output);
      pairs.add(lse);
    }
    Cli.Result result = run(words("merge", pairs, "--out", merged)).succeeded();
    assertThat(result.out()).contains("not known of " + pairs.get(0));
    assertNear(read(merged), read(one));

    Path a = folder.resolve("a.safetensors");
    safeTensors(
        a, Map.of("output", readNpy((Path) pairs.get(0)), "lse", readNpy((Path) pairs.get(1))));
    run("merge", a, "--lse", folder.resolve("lse.npy")).succeeded();
    assertThat(readNpy(folder.resolve("lse.npy")).toFloatArray())
        .isEqualTo(readNpy((Path) pairs.get(1)).toFloatArray());
    assertThat(run("merge", pairs.get(0), pairs.get(2)).failed(1))
        .contains(pairs.get(0) + ", " + pairs.get(2), "expected a floating output and a logsumexp");
    assertThat(run("merge", pairs.get(0)).failed(2)).contains("in pairs");
    assertThat(run("merge", pairs.get(0), a).failed(2)).contains("got both");
  }

  @Test
  void partialsThatDoNotBelongTogether() throws IOException {
    Path a = partial("..1536", "--causal");
    Path b = partial("1536..", "--causal");
    Path other = partial("1536..4000", "--causal --scale 2");
    assertThat(run("merge", a).failed(1)).contains("1536.." + KEYS, "in no part");
    assertThat(run("merge", b, a, b).failed(1)).contains(b.toString(), "already");
    assertThat(run("merge", a, other).failed(1))
        .contains(a.toString(), other.toString(), "scale is 2.0, expected 0.35");
    Path reference = partial("1536..4708", "--causal --backend reference");
    assertThat(run("merge", a, reference).failed(1)).contains("backend is reference, expected cpu");
    Path finished = folder.resolve("finished.safetensors");
    attend(sample, "--causal", "--keys=1536..", "--finished", "--out", finished);
    assertThat(run("merge", a, finished).failed(1))
        .contains(finished + ": expected partials alone");
    byte[] bytes = Files.readAllBytes(b);
    Files.write(b, Arrays.copyOf(bytes, bytes.length - 5));
    assertThat(run("merge", a, b).failed(1)).contains(b.toString(), "beyond the file's");
    bytes[bytes.length - 5] ^= 0x10;
    Files.write(b, bytes);
    assertThat(run("merge", a, b).failed(1)).contains(b.toString(), "altered");
    assertThat(run("merge", a, sample).failed(1)).contains(sample + ": has no tensor output");
    assertThat(run("merge", a, b, "--out", a.resolveSibling("no") + "/x.npy").failed(1))
        .contains("folder does not exist");
    assertThat(run("merge", a, b, "--out", a).failed(2)).contains("would overwrite");
  }

  /** The result would be of neither state. */
  @Test
  void saysThatAnInputChanged() throws Exception {
    Path part = folder.resolve("part.safetensors");
    Path npy = folder.resolve("o.npy");
    attend(sample, "--keys=..2000", "--finished", "--out", npy, "--lse", folder.resolve("l.npy"));
    Path a = partial("..1536");
    Path b = partial("1536..");
    Object[][] jobs = {
      {sample, words("attend", sample, "--keys=..2000 --partial", part)},
      {sample, words("attend", sample, "--keys=..2000 --finished --out", part)},
      {b, words("merge", a, b, "--out", part)},
      {npy, words("merge", npy, folder.resolve("l.npy"), "--out", part)}
    };
    for (Object[] job : jobs) {
      Path input = (Path) job[0];
      AtomicBoolean ended = new AtomicBoolean();
      CountDownLatch begun = new CountDownLatch(1);
      Thread other =
          Thread.ofPlatform()
              .start(
                  () -> {
                    for (long second = 1; !ended.get(); second++) {
                      assertThat(input.toFile().setLastModified(1000 * second)).isTrue();
                      begun.countDown();
                    }
                  });
      begun.await();
      try {
        Cli.Result result = run((Object[]) job[1]);
        for (int i = 0; i < 200 && result.status() == 0; i++) { // over before the other's turn
          Files.delete(part);
          result = run((Object[]) job[1]);
        }
        assertThat(result.failed(1)).contains(input + ": changed while it was read");
      } finally {
        ended.set(true);
        other.join();
      }
      assertThat(part).doesNotExist();
    }
  }

  /** Known parts are checked though others are beside them. */
  @Test
  void finishedPartsBesideOthers() throws IOException {
    Path a = folder.resolve("a.safetensors");
    Path b = folder.resolve("b.safetensors");
    Path other = folder.resolve("other.safetensors");
    attend(sample, "--keys=..1000", "--finished", "--out", a);
    attend(sample, "--keys=3000..", "--finished", "--out", b);
    Path foreign = folder.resolve("foreign.safetensors");
    attend(sample, "--keys=1000..3000", "--finished", "--out", foreign);
    safeTensors(foreign, read(foreign));
    attend(sample, "--out", one);

    assertThat(run("merge", b, foreign, a, "--out", merged).succeeded().out())
        .contains("not known of " + foreign);
    assertNear(read(merged), read(one));

    assertThat(run("merge", a, foreign, a).failed(1)).contains(a + ": has the keys", "already");
    attend(sample, "--keys=2000..4000", "--finished", "--out", other);
    assertThat(run("merge", foreign, b, other).failed(1))
        .contains(b + ": has the keys 3000.." + KEYS, other + " has 3000..4000 already");
    attend(sample, "--keys=1000..2000", "--scale=2", "--finished", "--out", other);
    assertThat(run("merge", a, other, foreign).failed(1))
        .contains(other + ": does not belong to " + a, "scale is 2.0");
  }

  /** A name that no longer says what the file is does not make it one of another system. */
  @Test
  void finishedPartsWithAlteredNames() throws IOException {
    Path a = folder.resolve("a.safetensors");
    attend(sample, "--keys=..1000", "--finished", "--out", a);
    String text = Files.readString(a, StandardCharsets.ISO_8859_1);
    for (String name : List.of("foldmax.finishee", "goldmax.finished")) {
      Files.writeString(a, text.replace("foldmax.finished", name), StandardCharsets.ISO_8859_1);
      assertThat(run("merge", a).failed(1)).contains(a + ": was altered");
    }
  }

  /** The reference makes and finishes partials of its own. */
  @Test
  void ofTheReference() throws IOException {
    attend(sample, "--causal", "--backend=reference", "--out", one);
    Path a = partial("..3000", "--causal --backend reference");
    Path b = partial("3000..", "--causal --backend reference");
    assertThat(run("merge", a, b, "--out", merged).succeeded().out())
        .contains("reference: float64", "has no cells");
    assertNear(read(merged), read(one));
  }

  /** A partial that a program wrote has its q's shape, and says nothing of files. */
  @Test
  void ofAProgram() throws IOException {
    Tensor q = random(1, DType.F32, 3, 8);
    Tensor k = random(2, DType.F32, 40, 8);
    Path a = folder.resolve("program.safetensors");
    try (Backend backend = Backend.cpu(1);
        Arena arena = Arena.ofConfined()) {
      AttentionPartial all =
          backend.attendPartial(arena, q, KeyValues.dense(k, k), Attention.causal(), 0, 40);
      PartialFile.write(a, all);
      Path out = folder.resolve("o.npy");
      run("merge", a, "--out", out).succeeded();
      assertThat(readNpy(out).toFloatArray())
          .isEqualTo(backend.attend(q, k, k, Attention.causal()).toFloatArray());
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = ';',
      value = {
        "--keys 1;expected a range of keys such as 4096..8192",
        "--keys ..;expected a range of keys",
        "--keys 5..5;expected a range of keys",
        "--keys=-1..5;expected a range of keys",
        "--keys 1..x;expected a range of keys",
        "--keys 1..5;--keys needs one of --partial FILE",
        "--keys 1..5 --finished;--finished needs --out",
        "--keys 1..5 --finished --out o.npy;--finished needs --out",
        "--keys 1..5 --finished --partial p.safetensors;--keys needs one of",
        "--keys 1..5 --partial p.safetensors --out o.npy;--out conflicts with --partial",
        "--keys 1..5 --partial p.npy;ends in .safetensors",
        "--keys 1..5 --partial p.safetensors --check;--check needs all keys",
        "--keys 1..5 --partial p.safetensors --total-keys 4;--total-keys: expected at least",
        "--partial p.safetensors;--partial needs --keys",
        "--finished;--finished needs --keys",
        "--total-keys 7;--total-keys needs --keys"
      })
  void wrongOptions(String options, String message) {
    assertThat(run(words("attend", sample, options)).failed(2)).contains(message);
  }

  @Test
  void keysThatAreNotThere() {
    Path part = folder.resolve("p.safetensors");
    assertThat(run("attend", sample, "--keys=4000..9999", "--partial", part).failed(1))
        .contains("expected a range within 0.." + KEYS + ", got 4000..9999");
    assertThat(run("attend", sample, "--keys=9999..", "--partial", part).failed(1))
        .contains("expected a range within 0.." + KEYS);
    assertThat(part).doesNotExist();
    assertThat(run("merge").failed(2)).contains("FILE");
    assertThat(run("merge", part).failed(1)).contains(part + ": no such file");
    assertThat(run("merge", "a.txt").failed(2)).contains("expected files that end in");
    assertThat(run("merge", part, "--threads=0").failed(2)).contains("--threads");
  }
}
