package dev.foldmax.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.foldmax.benchmarks.LengthSeries.Point;
import java.awt.Font;
import java.awt.font.FontRenderContext;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What {@link Lengths} writes of measurements; no measuring. */
class LengthsTest {
  private static LengthSeries series() {
    Map<String, List<Point>> points = new LinkedHashMap<>();
    points.put("ours", List.of(new Point(512, 2e-4, 5 << 20), new Point(4096, 0.0125, 6 << 20)));
    points.put("theirs", List.of(new Point(512, 5e-4, 1 << 30)));
    return new LengthSeries("attention", "a machine", "a command", points);
  }

  @Test
  void jsonHoldsAll() {
    assertThat(LengthSeries.fromJson(series().toJson())).isEqualTo(series());
  }

  @Test
  void drawsATableAndTwoPlots(@TempDir Path folder) throws Exception {
    assumeFonts();
    Path json = Files.writeString(folder.resolve("lengths-here.json"), series().toJson());

    int status =
        Lengths.commandLine().execute("--draw", json.toString(), "--out", folder.toString());

    assertThat(status).isZero();
    assertThat(Files.readString(folder.resolve("lengths-here.md")))
        .contains("attention. Machine: a machine.", "    a command", "| length | ours | theirs |")
        .contains("| 512 | 0.200 ms, 5 MiB | 0.500 ms, 1024 MiB |", "| 4096 | 12.5 ms, 6 MiB | |");
    for (String quantity : List.of("time", "memory")) {
      String svg = Files.readString(folder.resolve("lengths-here-" + quantity + ".svg"));
      assertThat(svg).contains("<svg", ">ours<", ">theirs<");
    }
  }

  /** Some systems have no fonts, and then the JVM cannot draw. */
  private static void assumeFonts() {
    try {
      new Font(Font.SANS_SERIF, Font.PLAIN, 12)
          .getStringBounds("x", new FontRenderContext(null, false, false));
    } catch (LinkageError | InternalError e) {
      assumeTrue(false, "this system has no fonts: " + e.getMessage());
    }
  }
}
