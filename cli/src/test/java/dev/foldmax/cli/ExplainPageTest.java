package dev.foldmax.cli;

import static dev.foldmax.cli.Cli.npy;
import static dev.foldmax.cli.Cli.random;
import static dev.foldmax.cli.Cli.run;
import static dev.foldmax.cli.Cli.safeTensors;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.DType;
import dev.foldmax.SoftmaxState;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.assertj.core.data.Offset;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.openqa.selenium.By;
import org.openqa.selenium.Keys;
import org.openqa.selenium.WebElement;

/** The page of {@code foldmax explain} in a browser. */
class ExplainPageTest {
  private static final int QUERIES = 12;
  private static final int KEYS = 40;
  private static final int DIM = 8;
  private static final int VALUE_DIM = 5;
  private static final int TILE = 3;
  private static final Offset<Double> CLOSE = within(1e-11);

  private static Browser browser;

  private final Tensor q = random(1, DType.F32, QUERIES, DIM);
  private final Tensor k = random(2, DType.F32, KEYS, DIM);
  private final Tensor v = random(3, DType.F32, KEYS, VALUE_DIM);

  @TempDir private Path folder;
  private Path page;

  @BeforeAll
  static void startTheBrowser(@TempDir Path profile) {
    browser = Browser.start(profile);
  }

  @AfterAll
  static void closeTheBrowser() {
    if (browser != null) {
      browser.close();
    }
  }

  @BeforeEach
  void wide() {
    page = folder.resolve("page.html");
    browser.show(1200, 900, "light");
  }

  @AfterEach
  void nothingWentWrong() {
    assertThat(browser.logs()).isEmpty();
    assertThat(browser.script("return performance.getEntriesByType('resource').length"))
        .as("requests")
        .isEqualTo(0L);
  }

  private void explain(Object... args) {
    List<Object> words = new ArrayList<>(List.of("explain", "--no-timing", "--html", page));
    words.addAll(List.of(args));
    run(words.toArray()).succeeded();
    browser.open(page);
  }

  private void explainAttention(Object... args) throws IOException {
    Path file = folder.resolve("s.safetensors");
    safeTensors(file, Map.of("q", q, "k", k, "v", v));
    List<Object> words = new ArrayList<>(List.of(file, "--tile", TILE));
    words.addAll(List.of(args));
    explain(words.toArray());
  }

  private double score(int query, int key) {
    double dot = 0;
    for (int d = 0; d < DIM; d++) {
      dot += q.get(query, d) * k.get(key, d);
    }
    return dot / Math.sqrt(DIM);
  }

  private static WebElement button(String name) {
    return browser.find(By.xpath("//button[@aria-label='" + name + "' or .='" + name + "']"));
  }

  private static int tile() {
    return Integer.parseInt(
        String.valueOf(browser.script("return document.getElementById('jump').value")));
  }

  @Test
  void theFiveLinesAreThoseOfSoftmaxState() throws IOException {
    explainAttention("--query=9", "--causal=top-left", "--window=20,9");
    SoftmaxState state = new SoftmaxState(VALUE_DIM);
    double max = Double.NEGATIVE_INFINITY;
    int tiles = Math.ceilDiv(KEYS, TILE);
    for (int t = 0; t < tiles; t++) {
      int begin = t * TILE;
      int end = Math.min(begin + TILE, 10); // causal: query 9 sees the keys up to 9
      double before = state.sum();
      int n = Math.max(0, end - begin);
      double[] scores = new double[n];
      double[] values = new double[n * VALUE_DIM];
      for (int j = 0; j < n; j++) {
        scores[j] = score(9, begin + j);
        for (int d = 0; d < VALUE_DIM; d++) {
          values[j * VALUE_DIM + d] = v.get(begin + j, d);
        }
      }
      state.addTile(scores, values);
      double correction = state.max() == max ? 1 : Math.exp(max - state.max());

      Map<String, Double> shown = browser.numbers();
      assertThat(shown.get("m-after")).isEqualTo(state.max(), CLOSE);
      assertThat(shown.get("c")).isEqualTo(correction, CLOSE);
      assertThat(shown.get("l-after")).isEqualTo(state.sum(), CLOSE);
      assertThat(shown.get("sum-p")).isEqualTo(state.sum() - before * correction, within(1e-9));
      double[] output = state.output();
      for (int d = 0; d < 3; d++) {
        assertThat(shown.get("o-" + d)).isEqualTo(output[d] * state.sum(), CLOSE);
      }
      assertThat(browser.text("#where")).startsWith("Tile " + (t + 1) + " of " + tiles);
      max = state.max();
      assertThat(button("Forward one tile").isEnabled()).isEqualTo(t < tiles - 1);
      if (t < tiles - 1) {
        button("Forward one tile").click();
      }
    }
    assertThat(browser.number("final-lse")).isEqualTo(state.logSumExp(), CLOSE);
    assertThat(browser.number("output-1")).isEqualTo(state.output()[1], CLOSE);
    assertThat(browser.number("lse")).isEqualTo(state.logSumExp(), CLOSE);
  }

  /** What a reader sees is what a reader can compute: the shown digits of line 4. */
  @Test
  void aReaderCanDeriveTheSumAgain() throws IOException {
    explainAttention();
    for (int t = 0; t < 5; t++) {
      String line = browser.text("#lines li:nth-child(4) .numbers");
      String[] parts = line.split("[·+=]", -1);
      double l = Double.parseDouble(parts[0].strip()) * Double.parseDouble(parts[1].strip());
      assertThat(l + Double.parseDouble(parts[2].strip()))
          .as(line)
          .isEqualTo(Double.parseDouble(parts[3].strip()), within(2e-4));
      button("Forward one tile").click();
    }
  }

  @Test
  void stepsByEveryMeans() throws IOException {
    explainAttention("--query=3");
    int last = Math.ceilDiv(KEYS, TILE);
    assertThat(tile()).isEqualTo(1);
    assertThat(button("Back one tile").isEnabled()).isFalse();

    WebElement body = browser.one("body");
    body.sendKeys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT, Keys.ARROW_RIGHT);
    assertThat(tile()).isEqualTo(3);
    button("Back one tile").click();
    assertThat(tile()).isEqualTo(2);
    button("Last tile").sendKeys(Keys.ENTER);
    assertThat(tile()).isEqualTo(last);
    button("First tile").sendKeys(Keys.SPACE);
    assertThat(tile()).isEqualTo(1);
    button("Play").sendKeys(Keys.END);
    assertThat(tile()).isEqualTo(last);
    button("Play").sendKeys(Keys.HOME);
    assertThat(tile()).isEqualTo(1);
    WebElement slider = browser.one("input[type=range]");
    slider.sendKeys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT);
    assertThat(tile()).isEqualTo(4);
    assertThat(slider.getDomAttribute("aria-valuetext")).isEqualTo("Tile 4 of 14, keys 9 to 11");
    browser.script("document.getElementById('jump').value = ''");
    browser.one("#jump").sendKeys("999", Keys.ENTER);
    assertThat(tile()).as("past the end").isEqualTo(last);
    WebElement chart = browser.one("svg.chart .hit");
    chart.click(); // its middle
    assertThat(tile()).isBetween(7, 8);
  }

  @Test
  void jumpsFromRiseToRise() throws IOException {
    explainAttention("--query=3");
    List<Integer> rises = new ArrayList<>();
    double max = Double.NEGATIVE_INFINITY;
    for (int t = 0; t * TILE < KEYS; t++) {
      double before = max;
      for (int j = t * TILE; j < Math.min((t + 1) * TILE, KEYS); j++) {
        max = Math.max(max, score(3, j));
      }
      if (t > 0 && max > before) {
        rises.add(t + 1);
      }
    }
    assertThat(rises).isNotEmpty();
    for (int rise : rises) {
      button("Forward to the next rise").click();
      assertThat(tile()).isEqualTo(rise);
      assertThat(browser.text("#where")).contains("The maximum rises by");
    }
    assertThat(button("Forward to the next rise").isEnabled()).isFalse();
    assertThat(browser.one("svg.chart").getAccessibleName())
        .contains("the maximum rises " + rises.size() + " time");
  }

  @Test
  void keepsAStaleMaximum() throws IOException {
    Path x = npy(folder.resolve("x.npy"), Tensor.of(new float[] {0, 1, 5}, 3));
    explain(x, "--tile=1", "--rescale=lazy", "--tau=4"); // 2.77 natural

    button("Forward one tile").click();
    assertThat(browser.number("m-after")).isZero();
    assertThat(browser.number("sum-p")).isEqualTo(Math.E, CLOSE);
    assertThat(browser.text("#where")).contains("max(S) lies above m by 1,", "the stale m stays");
    button("Forward one tile").click();
    assertThat(browser.number("m-after")).isEqualTo(5);
    assertThat(browser.number("l-after")).isEqualTo((1 + Math.E) * Math.exp(-5) + 1, CLOSE);
  }

  @Test
  void playsToTheEnd() throws IOException {
    Path x = npy(folder.resolve("x.npy"), random(5, DType.F32, 3));
    explain(x, "--tile=1");

    button("Play").click();

    assertThat(button("Pause").isDisplayed()).isTrue();
    long deadline = System.nanoTime() + Duration.ofSeconds(10).toNanos();
    while (browser.all("#finish h3").isEmpty() && System.nanoTime() < deadline) {
      browser.settle();
    }
    assertThat(tile()).isEqualTo(3);
    while (browser.all("#stepper button").stream().anyMatch(b -> b.getText().equals("Pause"))
        && System.nanoTime() < deadline) {
      browser.settle();
    }
    assertThat(button("Play").isDisplayed()).isTrue();
  }

  @Test
  void theMapReadsOut() throws IOException {
    explainAttention("--causal=top-left", "--query=5");
    WebElement map = browser.one("svg.map");

    map.sendKeys(Keys.ARROW_RIGHT);

    boolean rises =
        Math.max(score(5, 3), Math.max(score(5, 4), score(5, 5)))
            > Math.max(score(5, 0), Math.max(score(5, 1), score(5, 2)));
    assertThat(browser.text("#readout"))
        .isEqualTo("query 5, tile 2: the maximum " + (rises ? "rises 1 time." : "stays."));
    map.sendKeys(Keys.ARROW_RIGHT);
    assertThat(browser.text("#readout")).isEqualTo("query 5, tile 3: hidden.");
    map.sendKeys(Keys.ARROW_UP, Keys.ARROW_UP);
    assertThat(browser.text("#readout")).startsWith("query 3, tile 3: ");
    assertThat(tile()).as("the stepper's").isEqualTo(1);
  }

  @Test
  void saysWhichDialectCostsLeast() throws IOException {
    Path x = npy(folder.resolve("x.npy"), random(5, DType.F32, 4, 300));
    run("explain", x, "--html", page).succeeded();
    browser.open(page);

    String verdict = browser.text("#verdict");

    List<String> marked =
        browser.all("#head tr.least th").stream().map(WebElement::getText).toList();
    assertThat(marked).isNotEmpty().allSatisfy(name -> assertThat(verdict).contains(name));
    assertThat(browser.text("#head")).contains("Times were measured on this machine");
    explain(x);
    assertThat(browser.all("#verdict, #head tr.least")).isEmpty();
    assertThat(browser.text("#head")).contains("Times were not measured.");
  }

  @ParameterizedTest
  @CsvSource({"400, light", "400, dark", "1600, light", "1600, dark"})
  void isReadable(int width, String scheme) throws IOException {
    browser.show(width, 900, scheme);
    explainAttention("--query=most-rises");

    assertThat((Long) browser.script("return document.documentElement.scrollWidth"))
        .as("nothing sticks out")
        .isLessThanOrEqualTo(width);
    Object worst =
        browser.script(
            """
            const style = getComputedStyle(document.documentElement);
            const canvas = document.createElement("canvas").getContext("2d");
            const light = (name) => {
              canvas.fillStyle = style.getPropertyValue(name);
              const hex = canvas.fillStyle.slice(1);
              const [r, g, b] = [0, 2, 4].map((i) => {
                const c = parseInt(hex.slice(i, i + 2), 16) / 255;
                return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
              });
              return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const contrast = (a, b) =>
              (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
            let worst = 21;
            for (const ink of ["--ink", "--soft", "--accent", "--rise", "--good", "--bad"])
              for (const ground of ["--card", "--ground"])
                worst = Math.min(worst, contrast(ink, ground));
            return worst;
            """);
    assertThat(((Number) worst).doubleValue()).as("contrast").isGreaterThanOrEqualTo(4.5);
    String ground =
        String.valueOf(browser.script("return getComputedStyle(document.body).backgroundColor"));
    assertThat(ground).isEqualTo(scheme.equals("dark") ? "rgb(20, 23, 26)" : "rgb(252, 251, 248)");
  }

  @Test
  void everythingThatActsHasAName() throws IOException {
    explainAttention();

    browser.one("summary").click(); // what is folded away has no name
    List<WebElement> controls = browser.all("button, input, svg, section, [role=region], summary");
    assertThat(controls).hasSizeGreaterThan(20);
    assertThat(controls)
        .allSatisfy(
            control ->
                assertThat(control.getAccessibleName())
                    .as(control.getDomProperty("outerHTML").lines().findFirst().orElse(""))
                    .isNotBlank());
    assertThat(browser.one("html").getDomAttribute("lang")).isEqualTo("en");
    assertThat(browser.all("h1")).hasSize(1);
  }

  /** A name from outside stays a name. */
  @Test
  void namesAreNoMarkup() throws IOException {
    String name = "<img src=x onerror=owned()>&amp;\"'-->.npy";
    Path file = npy(folder.resolve(name), random(6, DType.F32, 5));
    Path in = folder.resolve("<!--<script>owned.safetensors");
    safeTensors(in, Map.of("</script><script>owned()//", random(7, DType.F32, 4)));
    Path ending = Files.createDirectory(folder.resolve("<")).resolve("script><b>{{data}}.npy");

    explain(file);
    assertThat(browser.text("h1")).contains(name);
    assertThat(browser.script("return document.title").toString()).contains(name);
    assertThat(browser.all("img")).isEmpty();

    explain(in, "--row=0");
    assertThat(browser.text("h1")).contains(in.getFileName().toString());
    assertThat(browser.all("script")).hasSize(2);

    explain(npy(ending, random(6, DType.F32, 5)));
    assertThat(browser.text("h1")).contains("</script><b>{{data}}.npy");
    assertThat(browser.all("b")).isEmpty();
  }

  /** Should markup get in all the same, the page's policy keeps it from running. */
  @Test
  void runsNoScriptButItsOwn() throws IOException {
    explainAttention();

    browser.script(
        "const s = document.createElement('script'); s.textContent = 'window.owned = 1';"
            + " document.body.append(s)");

    assertThat(browser.script("return window.owned")).isNull();
    assertThat(browser.logs()).hasSize(1).first().asString().contains("Content Security Policy");
  }

  @Test
  void saysWhatItCannotPlot() throws IOException {
    Tensor x = Tensor.of(new float[] {Float.NaN, 1, 2, Float.NEGATIVE_INFINITY}, 2, 2);
    explain(npy(folder.resolve("x.npy"), x), "--row=0");
    assertThat(browser.text("#trouble"))
        .contains("This row is NaN", "The score of element 0 is NaN");
    assertThat(browser.all("svg.chart, #stepper")).isEmpty();
    browser.one("svg.map").sendKeys(Keys.ARROW_RIGHT);
    assertThat(browser.text("#readout")).isEqualTo("row 0, tile 2: the row is NaN.");

    x.fill(Double.NEGATIVE_INFINITY);
    explain(npy(folder.resolve("y.npy"), x));
    assertThat(browser.text("#condition")).contains("Nothing is visible", "Its output is 0");
    assertThat(browser.all("svg")).isEmpty();

    explain(npy(folder.resolve("z.npy"), Tensor.allocate(DType.F32, 1, 0)));
    assertThat(browser.text("#condition")).contains("none of its 0 elements");
  }

  @Test
  void aRowOfOneElement() throws IOException {
    explain(npy(folder.resolve("x.npy"), Tensor.of(new float[] {-3}, 1)));

    assertThat(browser.number("m-after")).isEqualTo(-3);
    assertThat(browser.number("final-lse")).isEqualTo(-3);
    assertThat(browser.all("#stepper button:enabled"))
        .extracting(WebElement::getText)
        .containsExactly("Play");
  }

  @Test
  void aLongRow() throws IOException {
    explain(npy(folder.resolve("x.npy"), random(8, DType.F32, 1, 530_000)));

    assertThat(browser.text("#where")).startsWith("Tile 1 of 2071, elements 0 to 255");
    button("Last tile").click();
    assertThat(browser.number("final-lse"))
        .isEqualTo(Math.log(530_000) + 0.5, within(0.01)); // of normal numbers
    assertThat(browser.all("svg.chart circle").size()).isLessThan(700);
  }
}
