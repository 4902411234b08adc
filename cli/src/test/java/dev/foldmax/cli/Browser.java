package dev.foldmax.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.openqa.selenium.By;
import org.openqa.selenium.WebElement;
import org.openqa.selenium.chrome.ChromeDriver;
import org.openqa.selenium.chrome.ChromeDriverService;
import org.openqa.selenium.chrome.ChromeOptions;
import org.openqa.selenium.logging.LogEntry;
import org.openqa.selenium.logging.LogType;
import org.openqa.selenium.logging.LoggingPreferences;

/** A headless Chromium with a profile of its own. */
final class Browser implements AutoCloseable {
  /** Set where tests are to fail without a browser, not to be skipped. */
  private static final String REQUIRED = "FOLDMAX_TEST_BROWSER";

  /** Held, for a logger that nobody holds forgets its level. Its warnings are of no use here. */
  private static final Logger DEVTOOLS = Logger.getLogger("org.openqa.selenium.devtools");

  private final ChromeDriver driver;

  private Browser(ChromeDriver driver) {
    this.driver = driver;
  }

  /** Starts one, or skips the tests that need it. */
  static Browser start(Path profile) {
    Optional<Path> chromium =
        find("chromium").or(() -> find("chromium-browser")).or(() -> find("google-chrome"));
    Optional<Path> chromedriver = find("chromedriver");
    boolean isThere = chromium.isPresent() && chromedriver.isPresent();
    if (!"required".equals(System.getenv(REQUIRED))) {
      assumeTrue(isThere, "no chromium with a chromedriver on the path: pages are not tested");
    }
    assertThat(isThere).as("chromium and chromedriver, as %s wants", REQUIRED).isTrue();
    DEVTOOLS.setLevel(Level.OFF);
    LoggingPreferences logs = new LoggingPreferences();
    logs.enable(LogType.BROWSER, Level.ALL);
    ChromeOptions options = new ChromeOptions();
    options.setBinary(chromium.orElseThrow().toFile());
    options.setCapability("goog:loggingPrefs", logs);
    options.addArguments(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--user-data-dir=" + profile);
    ChromeDriverService service =
        new ChromeDriverService.Builder()
            .usingDriverExecutable(chromedriver.orElseThrow().toFile())
            .usingAnyFreePort()
            .build();
    return new Browser(new ChromeDriver(service, options));
  }

  private static Optional<Path> find(String program) {
    for (String folder : System.getenv("PATH").split(File.pathSeparator, -1)) {
      Path file = Path.of(folder, program);
      if (Files.isExecutable(file)) {
        return Optional.of(file);
      }
    }
    return Optional.empty();
  }

  /** Opens a page from its file, and waits until its charts are drawn. */
  void open(Path page) {
    logs(); // those of the page before
    driver.get(page.toUri().toString());
    settle();
  }

  /** Waits until what depends on the page's size is drawn: two frames. */
  void settle() {
    driver.executeAsyncScript(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));");
  }

  /** The viewport, in CSS pixels, and the colours that the user prefers. */
  void show(int width, int height, String scheme) {
    driver.executeCdpCommand(
        "Emulation.setDeviceMetricsOverride",
        Map.of("width", width, "height", height, "deviceScaleFactor", 1, "mobile", false));
    driver.executeCdpCommand(
        "Emulation.setEmulatedMedia",
        Map.of("features", List.of(Map.of("name", "prefers-color-scheme", "value", scheme))));
    settle();
  }

  /** What a script returns. */
  Object script(String script) {
    return driver.executeScript(script);
  }

  /** The element that a selector finds. */
  WebElement find(By by) {
    return driver.findElement(by);
  }

  /** The elements that a CSS selector finds. */
  List<WebElement> all(String css) {
    return driver.findElements(By.cssSelector(css));
  }

  /** The element that a CSS selector finds. */
  WebElement one(String css) {
    return driver.findElement(By.cssSelector(css));
  }

  /** The text of an element. */
  String text(String css) {
    return one(css).getText();
  }

  /** The number that an element holds in full. */
  double number(String id) {
    return numbers().get(id);
  }

  /** The numbers of all elements that hold one in full, by their ids. */
  Map<String, Double> numbers() {
    Map<String, Double> numbers = new HashMap<>();
    Map<?, ?> values =
        (Map<?, ?>)
            script(
                "return Object.fromEntries("
                    + "[...document.querySelectorAll('data')].map((d) => [d.id, d.value]))");
    values.forEach((id, value) -> numbers.put((String) id, Double.valueOf((String) value)));
    return numbers;
  }

  /** What the page wrote to the console, errors of scripts and of its policy among it. */
  List<String> logs() {
    return driver.manage().logs().get(LogType.BROWSER).getAll().stream()
        .map(LogEntry::getMessage)
        .toList();
  }

  @Override
  public void close() {
    driver.quit();
  }
}
