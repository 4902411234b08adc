package dev.foldmax.cli;

import static dev.foldmax.cli.Cli.assertSame;
import static dev.foldmax.cli.Cli.npy;
import static dev.foldmax.cli.Cli.random;
import static dev.foldmax.cli.Cli.read;
import static dev.foldmax.cli.Cli.readNpy;
import static dev.foldmax.cli.Cli.run;
import static dev.foldmax.cli.Cli.safeTensors;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.Alignment;
import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Rescale;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;

/** {@code foldmax attend} on good input. */
class AttendTest {
  private static final String REFERENCE = "--backend=reference";

  private final Tensor q = random(1, DType.F32, 2, 4, 5, 8);
  private final Tensor k = random(2, DType.F32, 2, 2, 7, 8);
  private final Tensor v = random(3, DType.F32, 2, 2, 7, 6);
  private final Tensor bias = random(4, DType.F32, 4, 1, 7);
  private final Tensor mask = oneInThreeHidden(2, 1, 5, 7);
  private final Tensor sinks = random(5, DType.F32, 4);
  private final Tensor slopes = Tensor.of(new float[] {0.5f, 0.25f, 0.125f, 0.0625f}, 4);

  @TempDir private Path folder;
  private Path sample;
  private Path out;
  private Path lse;

  @BeforeEach
  void writeTheSample() throws IOException {
    sample = safeTensors(folder.resolve("a sample.safetensors"), Map.of("q", q, "k", k, "v", v));
    out = folder.resolve("out.safetensors");
    lse = folder.resolve("lse.npy");
  }

  private static Tensor oneInThreeHidden(long... shape) {
    Tensor visible = Tensor.allocate(DType.BOOL, shape);
    for (long i = 0; i < visible.elements(); i++) {
      visible.setAt(i, i % 3 == 0 ? 0 : 1);
    }
    return visible;
  }

  /** What the library says, in the command's types. */
  private static Map<String, Tensor> expected(
      Tensor q, KeyValues keyValues, Attention attention, DType lseType) {
    long[] shape = q.shape();
    shape[shape.length - 1] = keyValues.values().shape(-1);
    Tensor output = Tensor.allocate(q.dtype(), shape);
    Tensor logSumExp = Tensor.allocate(lseType, Arrays.copyOf(shape, shape.length - 1));
    try (Backend reference = Backend.reference()) {
      reference.attend(q, keyValues, attention, output, logSumExp);
    }
    return Map.of("output", output, "lse", logSumExp);
  }

  private Map<String, Tensor> expected(Attention attention) {
    return expected(q, KeyValues.dense(k, v), attention, DType.F32);
  }

  private static void assertHolds(Path file, Map<String, Tensor> expected) throws IOException {
    Map<String, Tensor> actual = read(file);
    assertThat(actual.keySet()).isEqualTo(expected.keySet());
    actual.forEach((name, tensor) -> assertSame(tensor, expected.get(name)));
  }

  @Test
  void printsWhatItDid() {
    Cli.Result result = run("attend", sample, "--check", "--repeat", "0.01", REFERENCE).succeeded();

    assertThat(result.out())
        .startsWith("foldmax attend " + sample + System.lineSeparator())
        .contains("q ", "F32 (2, 4, 5, 8)", "F32 (2, 2, 7, 6)")
        .containsPattern("attention +scale 0\\.354\n")
        .containsPattern("backend +reference: ")
        .containsPattern("kernel +reference: ")
        .containsPattern(
            "time +[0-9.]+ [mu]?s \\(best of [0-9]+ repeats?, still warming up\\), first call [0-9.]+ [mu]?s\n")
        .containsPattern("rate +[0-9.e-]+ GB/s")
        .containsPattern("check +against the reference, all 40 rows\n")
        .containsPattern("output +largest error .*: passed at .*% of the tolerance\n")
        .containsPattern("lse +largest error .*: passed");
  }

  /** The backend that users get who ask for none, on commands as they type them. */
  @Test
  void runsOnTheDefaultBackend() throws IOException {
    String files =
        String.format(
            "--q %s --k %s --v %s --causal=top-left --scale 0.125 --bias %s --mask %s --sinks %s",
            npy(folder.resolve("q.npy"), q),
            npy(folder.resolve("k.npy"), k),
            npy(folder.resolve("v.npy"), v),
            npy(folder.resolve("b.npy"), bias),
            npy(folder.resolve("m.npy"), mask),
            npy(folder.resolve("s.npy"), sinks));
    Path output = folder.resolve("o.npy");
    Path plain = safeTensors(folder.resolve("sample.safetensors"), Map.of("q", q, "k", k, "v", v));

    for (String line :
        List.of(
            "attend " + plain + " --check",
            "attend " + plain + " --causal --window 4096,0 --softcap 50 --check --out " + out,
            "attend --phase prefill --slopes " + folder.resolve("s.npy") + " --check " + plain,
            "attend " + files + " --rescale lazy --threads 2 --check --out " + output)) {
      Object[] words = line.split(" ");
      assertThat(run(words).succeeded().out()).as(line).contains("passed", "kernel");
    }
    assertThat(read(out)).containsOnlyKeys("output", "lse");
    assertThat(readNpy(output).shape()).containsExactly(2, 4, 5, 6);
  }

  @Test
  void saysWhyOtherKernelsDeclined() {
    String backend = "--backend=cpu";

    JsonNode json = run("attend", sample, "--json", backend).succeeded().json();
    String words = run("attend", sample, "--verbose", backend).succeeded().out();

    assertThat(json.at("/kernel").asString()).isNotBlank();
    assertThat(json.at("/declined")).isNotEmpty();
    for (JsonNode declined : json.at("/declined")) {
      assertThat(declined.at("/kernel").asString()).isNotBlank();
      assertThat(words).contains(declined.at("/reason").asString());
    }
  }

  @Test
  void computesTheDefinition() throws IOException {
    run("attend", sample, REFERENCE, "--out", out).succeeded();

    Tensor output = read(out).get("output");
    Tensor logSumExp = read(out).get("lse");
    for (int b = 0; b < 2; b++) {
      for (int h = 0; h < 4; h++) {
        for (int i = 0; i < 5; i++) {
          double[] weights = new double[7];
          double sum = 0;
          for (int j = 0; j < 7; j++) {
            double dot = 0;
            for (int d = 0; d < 8; d++) {
              dot += q.get(b, h, i, d) * k.get(b, h / 2, j, d);
            }
            weights[j] = Math.exp(dot / Math.sqrt(8));
            sum += weights[j];
          }
          assertThat(logSumExp.get(b, h, i)).isEqualTo(Math.log(sum), within(1e-6));
          for (int d = 0; d < 6; d++) {
            double mean = 0;
            for (int j = 0; j < 7; j++) {
              mean += weights[j] / sum * v.get(b, h / 2, j, d);
            }
            assertThat(output.get(b, h, i, d)).isEqualTo(mean, within(1e-6));
          }
        }
      }
    }
  }

  @Test
  void combinesCausalWindowAndSoftCap() throws IOException {
    run("attend", sample, REFERENCE, "--causal", "--window", "3,0", "--softcap", "50", "--out", out)
        .succeeded();

    Mask mask = Mask.causal().and(Mask.window(3, 0));
    assertHolds(out, expected(Attention.standard().mask(mask).softCap(50)));
  }

  @Test
  void takesEverythingFromNpyFiles() throws IOException {
    Path output = folder.resolve("o.npy");

    run(
            "attend",
            "--q",
            npy(folder.resolve("q.npy"), q),
            "--k",
            npy(folder.resolve("k.npy"), k),
            "--v",
            npy(folder.resolve("v.npy"), v),
            "--causal=top-left",
            "--scale",
            "0.125",
            "--bias",
            npy(folder.resolve("b.npy"), bias),
            "--mask",
            npy(folder.resolve("m.npy"), mask),
            "--sinks",
            npy(folder.resolve("s.npy"), sinks),
            "--out",
            output,
            "--lse",
            lse,
            "--rescale",
            "lazy",
            REFERENCE)
        .succeeded();

    Map<String, Tensor> expected =
        expected(
            Attention.standard()
                .scale(0.125)
                .mask(Mask.causal(Alignment.TOP_LEFT).and(Mask.of(mask)))
                .bias(bias)
                .sinks(sinks)
                .rescale(Rescale.LAZY));
    assertSame(readNpy(output), expected.get("output"));
    assertSame(readNpy(lse), expected.get("lse"));
  }

  @Test
  void takesEverythingFromOneFile() throws IOException {
    Map<String, Tensor> tensors = new LinkedHashMap<>(Map.of("q", q, "k", k, "v", v));
    Attention attention =
        Attention.standard().mask(Mask.of(mask)).bias(bias).sinks(sinks).alibi(slopes);
    tensors.putAll(Map.of("bias", bias, "mask", mask, "sinks", sinks, "slopes", slopes));
    tensors.put("expected", expected(attention).get("output"));
    safeTensors(sample, tensors);

    Cli.Result result = run("attend", "--check", "--out", out, REFERENCE, sample).succeeded();

    assertHolds(out, expected(attention));
    assertThat(result.out()).containsPattern("expected +largest error 0.*: passed");
  }

  @Test
  void mayLeaveTensorsOut() throws IOException {
    safeTensors(sample, Map.of("q", q, "k", k, "v", v, "bias", bias, "sinks", sinks));

    run("attend", sample, "--tensor", "bias=", "--tensor=sinks=", REFERENCE, "--out", out)
        .succeeded();

    assertHolds(out, expected(Attention.standard()));
  }

  @Test
  void takesOtherNames() throws IOException {
    safeTensors(sample, Map.of("a=b", q, "layer.k", k, "layer.v", v, "q", bias));

    run(
            "attend",
            sample,
            "--tensor=q=a=b",
            "--tensor",
            "k=layer.k",
            "--tensor",
            "v=layer.v",
            REFERENCE,
            "--out",
            out)
        .succeeded();

    assertHolds(out, expected(Attention.standard()));
  }

  /** The file before, between and after the options that a greedy parser would feed it to. */
  @Test
  void theFileMayStandAnywhere() throws IOException {
    List<String> options =
        List.of("--causal", "--check", "--json", REFERENCE, "--out", out.toString());
    Map<String, Tensor> expected = expected(Attention.causal());
    for (int place = 0; place <= options.size(); place++) {
      if (place == options.size() - 1) {
        continue; // Between --out and its value.
      }
      List<Object> args = new ArrayList<>(options);
      args.add(place, sample);
      args.addFirst("attend");
      Files.deleteIfExists(out);

      run(args.toArray()).succeeded();

      assertHolds(out, expected);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"--causal", "--causal=bottom-right", "--causal=top-left"})
  void alignsCausalMasks(String option) throws IOException {
    run("attend", option, sample, REFERENCE, "--out", out).succeeded();

    boolean topLeft = option.endsWith("top-left");
    assertHolds(
        out,
        expected(
            Attention.standard()
                .mask(Mask.causal(topLeft ? Alignment.TOP_LEFT : Alignment.BOTTOM_RIGHT))));
  }

  @Test
  void topLeftHoldsForWindowAndSlopesToo() throws IOException {
    Path file = npy(folder.resolve("slopes.npy"), slopes);

    run(
            "attend",
            sample,
            "--causal=top-left",
            "--window=2,inf",
            "--slopes",
            file,
            REFERENCE,
            "--out",
            out)
        .succeeded();

    assertHolds(
        out,
        expected(
            Attention.standard()
                .mask(
                    Mask.causal(Alignment.TOP_LEFT)
                        .and(Mask.window(2, Mask.UNBOUNDED, Alignment.TOP_LEFT)))
                .alibi(slopes, Alignment.TOP_LEFT)));
  }

  @Test
  void readsPrefixAndUnboundedWindows() throws IOException {
    run("attend", sample, "--prefix", "4", "--window", "inf, 1", REFERENCE, "--out", out)
        .succeeded();

    assertHolds(
        out,
        expected(Attention.standard().mask(Mask.window(Mask.UNBOUNDED, 1).and(Mask.prefix(4)))));
  }

  @Test
  void takesQuantisedKeysAndValues() throws IOException {
    Tensor keys = Tensor.allocate(DType.I8, 2, 2, 7, 8);
    Tensor values = Tensor.allocate(DType.I8, 2, 2, 7, 6);
    fillBytes(keys);
    fillBytes(values);
    Tensor keyScale = random(8, DType.F32, 2, 2, 7);
    Tensor valueScale = random(9, DType.F32, 2, 2, 7);
    safeTensors(sample, Map.of("q", q, "k", keys, "v", values, "v_scale", valueScale));
    Path scales = npy(folder.resolve("k scale.npy"), keyScale);

    run("attend", sample, "--k-scale", scales, REFERENCE, "--out", out, "--check").succeeded();

    assertHolds(
        out,
        expected(
            q,
            KeyValues.dense(keys, values).scales(keyScale, valueScale),
            Attention.standard(),
            DType.F32));
  }

  private static void fillBytes(Tensor tensor) {
    for (int i = 0; i < tensor.elements(); i++) {
      tensor.setAt(i, i * 37 % 255 - 127);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 3, 4})
  void keepsTheRank(int rank) throws IOException {
    Tensor query = q;
    Tensor keys = k;
    Tensor values = v;
    for (int i = 4; i > rank; i--) {
      query = query.select(0, 1);
      keys = keys.select(0, 1);
      values = values.select(0, 1);
    }
    safeTensors(sample, Map.of("q", query, "k", keys, "v", values));

    run("attend", sample, REFERENCE, "--out", out, "--check").succeeded();

    assertHolds(
        out, expected(query, KeyValues.dense(keys, values), Attention.standard(), DType.F32));
  }

  @ParameterizedTest
  @ValueSource(ints = {3, 4})
  void readsAndWritesTheOtherLayout(int rank) throws IOException {
    Map<String, Tensor> expected = new LinkedHashMap<>(expected(Attention.causal()));
    Map<String, Tensor> tensors = new LinkedHashMap<>();
    tensors.put("q", swapped(q, rank));
    tensors.put("k", swapped(k, rank));
    tensors.put("v", swapped(v, rank));
    tensors.put("expected", swapped(expected.get("output"), rank));
    safeTensors(sample, tensors);

    run("attend", sample, "--layout", "blhd", "--causal", REFERENCE, "--out", out, "--check")
        .succeeded();

    Tensor logSumExp = expected.get("lse").permute(0, 2, 1);
    assertHolds(
        out,
        Map.of(
            "output",
            swapped(expected.get("output"), rank),
            "lse",
            rank == 4 ? logSumExp : logSumExp.select(0, 1)));
  }

  /** (length, heads) in place of (heads, length), and without batch for rank 3. */
  private static Tensor swapped(Tensor tensor, int rank) {
    Tensor permuted = tensor.permute(0, 2, 1, 3);
    return rank == 4 ? permuted : permuted.select(0, 1);
  }

  @ParameterizedTest
  @EnumSource(
      value = DType.class,
      names = {"F64", "F32", "F16", "BF16"})
  void writesTheTypeOfQ(DType dtype) throws IOException {
    Tensor query = q.to(dtype);
    Tensor keys = k.to(dtype);
    Tensor values = v.to(dtype);
    safeTensors(sample, Map.of("q", query, "k", keys, "v", values));
    Path npy = folder.resolve("o.npy");
    DType wide = dtype == DType.F64 ? DType.F64 : DType.F32;

    run("attend", sample, REFERENCE, "--out", out, "--check").succeeded();
    run("attend", sample, REFERENCE, "--out", npy, "--lse", lse).succeeded();

    Map<String, Tensor> expected =
        expected(query, KeyValues.dense(keys, values), Attention.standard(), wide);
    assertHolds(out, expected);
    Tensor output = expected.get("output");
    if (dtype == DType.BF16) { // computed in what the file has, not rounded before
      output = Tensor.allocate(DType.F32, output.shape());
      try (Backend reference = Backend.reference()) {
        KeyValues all = KeyValues.dense(keys, values);
        reference.attend(query, all, Attention.standard(), output, null);
      }
    }
    assertSame(readNpy(npy), output);
    assertSame(readNpy(lse), expected.get("lse"));
  }

  @Test
  void writesTheLogSumExpAloneAndBesideTheOutput() throws IOException {
    Map<String, Tensor> expected = expected(Attention.standard());
    Path file = folder.resolve("lse.SAFETENSORS");

    run("attend", sample, REFERENCE, "--lse", file).succeeded();
    assertHolds(file, Map.of("lse", expected.get("lse")));

    run("attend", sample, REFERENCE, "--lse", out, "--out", out).succeeded();
    assertHolds(out, expected);
  }

  @Test
  void leavesNothingElseBehind() throws IOException {
    Files.writeString(out, "an older result");

    run("attend", sample, REFERENCE, "--out", out, "--lse", lse).succeeded();

    assertHolds(out, expected(Attention.standard()));
    try (Stream<Path> files = Files.list(folder)) {
      assertThat(files).containsExactlyInAnyOrder(sample, out, lse);
    }
  }

  @Test
  void printsJson() throws IOException {
    JsonNode json =
        run(
                "attend",
                sample,
                "--causal",
                "--window=4,inf",
                "--tau=5",
                "--json",
                "--check",
                REFERENCE,
                "--out",
                out)
            .succeeded()
            .json();

    assertThat(json.at("/q/dtype").asString()).isEqualTo("F32");
    assertThat(json.at("/q/shape").toString()).isEqualTo("[2,4,5,8]");
    assertThat(json.at("/attention/causal").asString()).isEqualTo("bottom-right");
    assertThat(json.at("/attention/window").asString()).isEqualTo("4,inf");
    assertThat(json.at("/attention/rescale").asString()).isEqualTo("lazy");
    assertThat(json.at("/attention/tau").asDouble()).isEqualTo(5);
    assertThat(json.at("/backend/name").asString()).isEqualTo("reference");
    assertThat(json.at("/kernel").asString()).startsWith("reference");
    assertThat(json.at("/declined").isArray()).isTrue();
    assertThat(json.at("/time/firstSeconds").asDouble()).isPositive();
    // Two sequences of four heads; of 5 queries at 7 keys, seeing 3, 4, 5, 5 and 5.
    assertThat(json.at("/operations").asDouble()).isEqualTo(2.0 * (8 + 6) * 22 * 8);
    assertThat(json.at("/gflopPerSecond").asDouble()).isPositive();
    assertThat(json.at("/gbPerSecond").asDouble()).isPositive();
    assertThat(json.at("/check/rows").asLong()).isEqualTo(40);
    assertThat(json.at("/check/allRows").asBoolean()).isTrue();
    assertThat(json.at("/check/passed").asBoolean()).isTrue();
    assertThat(json.at("/check/output/largestError").isNumber()).isTrue();
    assertThat(json.at("/check/lse/rmsError").isNumber()).isTrue();
    assertThat(json.at("/written/0").asString()).isEqualTo(out.toString());
  }

  @Test
  void countsTheWorkOfDecodingInBytes() {
    String decode = run("attend", sample, REFERENCE).succeeded().out();
    String prefill = run("attend", sample, REFERENCE, "--phase", "prefill").succeeded().out();

    assertThat(decode).containsPattern("rate .* GB/s");
    assertThat(prefill).containsPattern("rate .* GFLOP/s");
  }

  @Test
  void fullyMaskedRowsAreZeroAndPass() throws IOException {
    Tensor nothing = Tensor.allocate(DType.BOOL, 5, 7);
    Path file = npy(folder.resolve("m.npy"), nothing);

    run("attend", sample, "--mask", file, "--check", "--out", out, REFERENCE).succeeded();

    assertThat(read(out).get("output").toDoubleArray()).containsOnly(0);
    assertThat(read(out).get("lse").toDoubleArray()).containsOnly(Double.NEGATIVE_INFINITY);
  }

  @Test
  void acceptsLengthZero() throws IOException {
    safeTensors(
        sample,
        Map.of(
            "q", Tensor.allocate(DType.F32, 1, 2, 0, 8),
            "k", Tensor.allocate(DType.F32, 1, 2, 0, 8),
            "v", Tensor.allocate(DType.F32, 1, 2, 0, 6)));

    run("attend", sample, "--causal", "--check", "--out", out, REFERENCE).succeeded();

    assertThat(read(out).get("output").shape()).containsExactly(1, 2, 0, 6);
  }

  @Test
  void failsTheCheckOfAWrongExpectation() throws IOException {
    Tensor wrong = expected(Attention.standard()).get("output").copy();
    wrong.set(wrong.get(1, 2, 3, 4) + 1e-3, 1, 2, 3, 4);
    safeTensors(sample, Map.of("q", q, "k", k, "v", v, "expected", wrong));

    assertThat(run("attend", sample, REFERENCE).succeeded().out()).doesNotContain("check");
    Cli.Result result = run("attend", sample, "--check", "--json", REFERENCE);

    assertThat(result.status()).isEqualTo(1);
    assertThat(result.err().strip())
        .startsWith("foldmax attend: the check failed: the output differs from the expected one")
        .contains("largest error 1.0e-03")
        .doesNotContain("\n");
    assertThat(result.json().at("/check/passed").asBoolean()).isFalse();
    assertThat(result.json().at("/check/expected/passed").asBoolean()).isFalse();
    assertThat(result.json().at("/check/output/passed").asBoolean()).isTrue();
  }

  @Test
  void writesNumbersThatJsonLacksAsStrings() throws IOException {
    Tensor nan = expected(Attention.standard()).get("output").copy();
    nan.fill(Double.NaN);
    safeTensors(sample, Map.of("q", q, "k", k, "v", v, "expected", nan));

    Cli.Result result = run("attend", sample, "--check", "--json", REFERENCE);

    assertThat(result.status()).isEqualTo(1);
    assertThat(result.json().at("/check/expected/mismatches").asLong()).isEqualTo(240);
  }
}
