package dev.foldmax.cli;

import static dev.foldmax.cli.Cli.npy;
import static dev.foldmax.cli.Cli.random;
import static dev.foldmax.cli.Cli.run;
import static dev.foldmax.cli.Cli.safeTensors;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import tools.jackson.databind.JsonNode;

/** {@code foldmax explain}: its summary, its JSON, and command lines that are wrong. */
class ExplainTest {
  private static final String NO_TIMING = "--no-timing";

  private final Map<String, Tensor> tensors = new LinkedHashMap<>();

  @TempDir private Path folder;
  private Path sample;
  private Path logits;

  @BeforeEach
  void writeFiles() throws IOException {
    tensors.put("q", random(1, DType.F32, 2, 4, 30, 8));
    tensors.put("k", random(2, DType.F32, 2, 2, 50, 8));
    tensors.put("v", random(3, DType.F32, 2, 2, 50, 6));
    sample = safeTensors(folder.resolve("s.safetensors"), tensors);
    logits = npy(folder.resolve("x.npy"), random(4, DType.F32, 2, 3, 70));
  }

  private JsonNode explain(Object... args) {
    Object[] all = new Object[args.length + 3];
    all[0] = "explain";
    System.arraycopy(args, 0, all, 1, args.length);
    all[args.length + 1] = "--json";
    all[args.length + 2] = NO_TIMING;
    return run(all).succeeded().json();
  }

  /** The logsumexp of a query from the reference backend, over the whole call. */
  private double reference(Attention attention, int b, int h, int i) {
    Tensor out = Tensor.allocate(DType.F64, 2, 4, 30, 6);
    Tensor lse = Tensor.allocate(DType.F64, 2, 4, 30);
    try (Backend backend = Backend.reference()) {
      KeyValues cache = KeyValues.dense(tensors.get("k"), tensors.get("v"));
      backend.attend(tensors.get("q"), cache, attention, out, lse);
    }
    return lse.get(b, h, i);
  }

  @Test
  void explainsTheLastQueryOfTheFirstHead() {
    JsonNode json = explain(sample, "--causal");

    assertThat(json.at("/batch").asLong()).isZero();
    assertThat(json.at("/headNumber").asLong()).isZero();
    assertThat(json.at("/row/number").asLong()).isEqualTo(29);
    assertThat(json.at("/row/condition").asString()).isEqualTo("ORDINARY");
    assertThat(json.at("/row/visibleKeys").asInt()).isEqualTo(50);
    double lse = reference(Attention.causal(), 0, 0, 29);
    assertThat(json.at("/row/logSumExp").asDouble()).isEqualTo(lse, within(1e-12));
    assertThat(json.at("/trace/logSumExp").asDouble()).isEqualTo(lse, within(1e-12));
    for (JsonNode error : json.at("/errors")) {
      double most = error.at("/name").asString().contains("P in") ? 0.01 : 1e-6;
      assertThat(error.at("/largestError").asDouble()).isLessThan(most);
      assertThat(error.at("/logSumExpError").asDouble()).isLessThan(1e-5);
    }
    assertThat(json.at("/errors").size()).isEqualTo(4);
    assertThat(json.at("/head/numbers").size()).isEqualTo(30);
  }

  @Test
  void explainsTheChosenQuery() {
    JsonNode json = explain(sample, "--batch=-1", "--head=3", "--query=7", "--window=5,2");

    Attention attention = Attention.standard().mask(Mask.window(5, 2));
    assertThat(json.at("/row/number").asLong()).isEqualTo(7);
    assertThat(json.at("/row/visibleKeys").asInt()).isEqualTo(8);
    assertThat(json.at("/trace/logSumExp").asDouble())
        .isEqualTo(reference(attention, 1, 3, 7), within(1e-12));
  }

  @Test
  void knowsAllThatChangesAScore() throws IOException {
    Tensor bias = random(5, DType.F32, 4, 30, 50);
    Tensor mask = Tensor.allocate(DType.BOOL, 2, 1, 30, 50);
    SplittableRandom random = new SplittableRandom(6);
    for (long i = 0; i < mask.elements(); i++) {
      mask.setAt(i, random.nextInt(4) == 0 ? 0 : 1);
    }
    Tensor sinks = random(7, DType.F32, 4);
    Tensor slopes = Tensor.of(new float[] {0.5f, 0.25f, 0.125f, 0.0625f}, 4);
    tensors.put("bias", bias);
    tensors.put("mask", mask);
    tensors.put("sinks", sinks);
    tensors.put("slopes", slopes);
    safeTensors(sample, tensors);
    Attention attention =
        Attention.standard()
            .mask(Mask.of(mask))
            .bias(bias)
            .alibi(slopes)
            .sinks(sinks)
            .softCap(2)
            .scale(0.7);

    JsonNode json =
        explain(sample, "--softcap=2", "--scale=0.7", "--batch=1", "--head=2", "--query=11");

    assertThat(json.at("/trace/logSumExp").asDouble())
        .isEqualTo(reference(attention, 1, 2, 11), within(1e-12));
    assertThat(json.at("/row/sink").asDouble()).isEqualTo(sinks.get(2));
    assertThat(json.at("/errors/0/largestError").asDouble()).isLessThan(1e-5);
    assertThat(json.at("/errors/1/largestError").asDouble())
        .as("scores as kernels see them")
        .isLessThan(1e-5);
  }

  @ParameterizedTest
  @EnumSource(
      value = DType.class,
      names = {"F64", "F32", "F16", "BF16"})
  void readsEveryType(DType dtype) throws IOException {
    tensors.replaceAll((name, tensor) -> tensor.to(dtype));
    safeTensors(sample, tensors);

    JsonNode json = explain(sample, "--head=1");

    assertThat(json.at("/trace/logSumExp").asDouble())
        .isEqualTo(reference(Attention.standard(), 0, 1, 29), within(1e-12));
    assertThat(json.at("/errors/0/name").asString())
        .isEqualTo("CPU kernels, in " + (dtype == DType.F64 ? "f64" : "f32"));
    assertThat(json.at("/errors/0/largestError").asDouble())
        .isLessThan(dtype == DType.F64 ? 1e-14 : 1e-6);
  }

  @Test
  void readsQuantisedValues() throws IOException {
    Tensor values = Tensor.allocate(DType.I8, 2, 2, 50, 6);
    SplittableRandom random = new SplittableRandom(8);
    for (long i = 0; i < values.elements(); i++) {
      values.setAt(i, random.nextInt(-127, 128));
    }
    Tensor scales = Tensor.allocate(DType.F32, 2, 2, 50);
    scales.fill(0.01);
    tensors.put("v", values);
    tensors.put("v_scale", scales);
    safeTensors(sample, tensors);

    JsonNode json = explain(sample);

    assertThat(json.at("/errors/1/largestError").asDouble()).isLessThan(1e-6);
    assertThat(json.at("/trace/output/0").asDouble()).isBetween(-1.27, 1.27);
  }

  @Test
  void promisesOfBitsHold() {
    JsonNode json = explain(sample, "--causal", "--splits=3,5");

    assertThat(json.at("/comparisons").size()).isEqualTo(5);
    for (int i = 0; i < 3; i++) {
      JsonNode comparison = json.at("/comparisons/" + i);
      assertThat(comparison.at("/sameBits").asBoolean()).as(comparison.toString()).isTrue();
      assertThat(comparison.at("/numbers").asInt()).isEqualTo(7);
    }
    assertThat(json.at("/comparisons/4/one").asString()).isEqualTo("f32 fold, 3 parts merged");
    assertThat(json.at("/comparisons/4/other").asString()).isEqualTo("f32 fold, 5 parts merged");
  }

  @Test
  void findsTheQueryWithMostRises() throws IOException {
    float[] keys = new float[40];
    float[] queries = {-1, 0, 1, -1};
    for (int j = 0; j < 40; j++) {
      keys[j] = j;
    }
    safeTensors(
        sample,
        Map.of(
            "q",
            Tensor.of(queries, 4, 1),
            "k",
            Tensor.of(keys, 40, 1),
            "v",
            Tensor.of(keys, 40, 1)));

    JsonNode json = explain(sample, "--query=most-rises", "--tile=4");

    assertThat(json.at("/row/number").asLong()).isEqualTo(2);
    assertThat(json.at("/trace/corrections").asInt()).isEqualTo(9);
    assertThat(json.at("/head/dialects/1/corrections").asInt()).isEqualTo(9);
    assertThat(json.at("/head/dialects/0/corrections").asInt()).isEqualTo(36);
    assertThat(json.at("/head/dialects/0/multiplications").asInt()).isEqualTo(72);
  }

  @Test
  void explainsTheRowOfATensor() throws IOException {
    Tensor x = Cli.readNpy(logits);
    JsonNode json = explain(logits, "--row=4", "--tile=8");

    double sum = 0;
    for (int j = 0; j < 70; j++) {
      sum += Math.exp(x.get(1, 1, j));
    }
    assertThat(json.at("/trace/logSumExp").asDouble()).isEqualTo(Math.log(sum), within(1e-12));
    assertThat(json.at("/trace/steps/begin").size()).isEqualTo(9);
    assertThat(json.at("/head/rows").asLong()).isEqualTo(6);
    assertThat(json.at("/row/valueDimension").asInt()).isZero();
    assertThat(explain(logits).at("/row/number").asLong()).isEqualTo(5);
  }

  @Test
  void choosesATensorOfAFile() throws IOException {
    safeTensors(sample, Map.of("a", random(1, DType.F32, 3, 4), "b", random(2, DType.F16, 9)));

    assertThat(explain(sample, "--row=0", "--tensor=b").at("/x/dtype").asString()).isEqualTo("F16");
    assertThat(run("explain", sample, "--row=0").failed(1))
        .contains("has the tensors a, b; choose one with --tensor NAME");
  }

  @Test
  void followsTheDialect() {
    JsonNode json = explain(logits, "--tau=64", "--tile=2");

    assertThat(json.at("/trace/dialect").asString()).isEqualTo("LAZY, tau 64");
    assertThat(json.at("/trace/corrections").asInt()).isZero();
    assertThat(json.at("/trace/logSumExp").asDouble())
        .isEqualTo(json.at("/row/logSumExp").asDouble(), within(1e-12));
  }

  @Test
  void fitsATerminal() {
    String text = run("explain", logits).succeeded().out();

    assertThat(text.lines().skip(1))
        .allSatisfy(line -> assertThat(line).hasSizeLessThanOrEqualTo(80));
    assertThat(text).matches("\\p{ASCII}*");
    assertThat(text)
        .contains("The maximum m over 18 tiles", "The elements that matter", "LAZY, tau 8")
        .contains("Without the maximum", "Errors against the float64 reference", "same bits")
        .contains("ns a tile");
    assertThat(text.replaceAll("\\s+", " ")).contains("Measured here, just now");
    assertThat(run("explain", logits, NO_TIMING).succeeded().out()).doesNotContain("ns a tile");
  }

  @Test
  void aRowOfOneKey() throws IOException {
    Path one = npy(folder.resolve("one.npy"), Tensor.of(new float[] {2.5f}, 1));

    JsonNode json = explain(one);

    assertThat(json.at("/trace/logSumExp").asDouble()).isEqualTo(2.5);
    assertThat(json.at("/trace/steps/share/0").asDouble()).isEqualTo(1);
    assertThat(run("explain", one).succeeded().out()).contains("The maximum m over 1 tile");
  }

  @Test
  void saysThatNothingIsVisible() throws IOException {
    Path empty = npy(folder.resolve("e.npy"), Tensor.allocate(DType.F32, 2, 0));
    Tensor hidden = Tensor.allocate(DType.F32, 3);
    hidden.fill(Double.NEGATIVE_INFINITY);
    Path none = npy(folder.resolve("n.npy"), hidden);

    for (Path file : new Path[] {empty, none}) {
      assertThat(run("explain", file).succeeded().out())
          .contains("No element is visible: the output is 0, and the logsumexp -Infinity.")
          .doesNotContain("NaN", "The elements that matter");
      assertThat(explain(file).at("/row/condition").asString()).isEqualTo("EMPTY");
    }
    assertThat(
            explain(sample, "--causal", "--window=0,0", "--query=0").at("/row/visibleKeys").asInt())
        .isEqualTo(1);
    JsonNode before = explain(sample, "--causal=top-left", "--window=inf,0", "--mask", hideAll());
    assertThat(before.at("/row/condition").asString()).isEqualTo("EMPTY");
  }

  private Path hideAll() throws IOException {
    return npy(folder.resolve("m.npy"), Tensor.allocate(DType.BOOL, 1, 1));
  }

  @Test
  void saysThatThereIsNothingToExplain() throws IOException {
    long[][] shapes = {{0, 2, 5, 4}, {2, 0, 5, 4}, {2, 2, 5, 0}};
    for (long[] shape : shapes) {
      Tensor tensor = Tensor.allocate(DType.F32, shape);
      Path file =
          safeTensors(
              folder.resolve("none.safetensors"), Map.of("q", tensor, "k", tensor, "v", tensor));
      String what = shape[3] == 0 ? "output to explain, v is" : "head to explain, q is";
      assertThat(run("explain", file).failed(1)).contains(file + ": there is no " + what);
    }
  }

  @Test
  void saysWhatMakesARowNaN() throws IOException {
    Tensor x = random(9, DType.F32, 20);
    x.setAt(7, Double.NaN);
    x.setAt(9, Double.POSITIVE_INFINITY);
    Path file = npy(folder.resolve("n.npy"), x);

    assertThat(run("explain", file).succeeded().out())
        .contains("The score of element 7 is NaN: the whole row is NaN.")
        .contains("2 scores of this row are NaN or +inf; this is the first.");
    JsonNode json = explain(file);
    assertThat(json.at("/row/condition").asString()).isEqualTo("NOT_A_NUMBER");
    assertThat(json.at("/trace").isNull()).isTrue();
  }

  @Test
  void saysWhichValueIsNotFinite() throws IOException {
    tensors.get("v").set(Double.NaN, 0, 0, 13, 2);
    safeTensors(sample, tensors);

    assertThat(run("explain", sample).succeeded().out().replaceAll("\\s+", " "))
        .contains("Component 2 of the value of key 13 is NaN, and the key is visible");
    assertThat(run("explain", sample, "--window=3,0").succeeded().out()).doesNotContain("NaN");
  }

  @Test
  void aLongRowHasLargerTiles() throws IOException {
    Path file = npy(folder.resolve("long.npy"), random(10, DType.F32, 530_000));

    JsonNode json = explain(file, "--html", folder.resolve("p.html"));

    assertThat(json.at("/trace/tile").asInt()).isEqualTo(256);
    assertThat(json.at("/trace/steps/begin").size()).isLessThanOrEqualTo(4096);
    assertThat(json.at("/head/rises/0").size()).isLessThanOrEqualTo(128);
    assertThat(Files.size(folder.resolve("p.html"))).isLessThan(3_000_000);
    assertThat(run("explain", file, "--tile=100").failed(2))
        .contains("a row of 530000 keys would have more than 4096 tiles, so expected at least 130");
  }

  @Test
  void writesTheSamePageTwice() throws IOException {
    Path page = folder.resolve("p.html");

    String text = run("explain", sample, NO_TIMING, "--html", page).succeeded().out();

    assertThat(text).contains("wrote").contains(page.toString());
    String first = Files.readString(page);
    run("explain", sample, NO_TIMING, "--html", page).succeeded();
    assertThat(Files.readString(page)).isEqualTo(first);
    assertThat(explain(sample, "--html", page).at("/written/0").asString())
        .isEqualTo(page.toString());
  }

  /** Where no browser is, this at least; ExplainPageTest has the rest. */
  @Test
  void aNameCannotEndTheDataOfThePage() throws IOException {
    Path odd = Files.createDirectory(folder.resolve("<")).resolve("script><b>&\".npy");
    Path page = folder.resolve("p.html");

    run("explain", npy(odd, random(1, DType.F32, 4)), NO_TIMING, "--html", page).succeeded();

    String html = Files.readString(page);
    assertThat(html).contains("&lt;/script&gt;&lt;b&gt;&amp;&quot;.npy</title>");
    assertThat(html).contains("\\u003c/script\\u003e\\u003cb\\u003e\\u0026\\\".npy");
    assertThat(html.split("</script>", -1)).as("that of the data, and the page's own").hasSize(3);
    assertThat(html).doesNotContain("<b>");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '"',
      value = {
        "--query=two          | --query: expected a number or most-rises, got 'two'",
        "--tile=0             | --tile: expected at least 1, got 0",
        "--splits=3           | --splits: expected two numbers of parts, such as 2,8, got '3'",
        "--splits=0,3         | got '0,3'",
        "--splits=a,3         | got 'a,3'",
        "--html=page.txt      | --html: expected a file that ends in .html, got page.txt",
        "--row=0 --head=1     | --head is for an attention and conflicts with rows",
        "--row=0 --causal     | --causal is for an attention and conflicts with rows",
        "--expected=e.npy     | --expected: foldmax explain compares with the reference",
      })
  void namesTheWrongOption(String options, String message) {
    Object[] args = ("explain;" + sample + ";" + options.replace(' ', ';')).split(";");

    assertThat(run(args).failed(2)).startsWith("foldmax explain: ").contains(message);
  }

  @Test
  void wantsAFile() {
    assertThat(run("explain").failed(2)).contains("missing --q");
    assertThat(run("explain", "--row=1").failed(2)).contains("--row needs a FILE");
    assertThat(run("explain", logits, "--q", logits).failed(2)).contains("--q conflicts with");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "--query=30   | --query: there are 30, so expected -30 to 29, got 30",
        "--head=4     | --head: there are 4, so expected -4 to 3, got 4",
        "--batch=-3   | --batch: there are 2, so expected -2 to 1, got -3",
        "--html=no/where/p.html | its folder does not exist",
      })
  void namesWhatIsNotThere(String option, String message) {
    assertThat(run("explain", sample, option).failed(1)).contains(message);
  }

  @Test
  void neverOverwritesAnInput() throws IOException {
    Path odd = safeTensors(folder.resolve("odd.safetensors"), tensors);
    Path page = Files.createSymbolicLink(folder.resolve("odd.html"), odd);

    assertThat(run("explain", odd, "--html", page).failed(2)).contains("would overwrite");
  }
}
