package dev.foldmax.cli;

import dev.foldmax.Backend;
import dev.foldmax.Tensor;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** What a command found out: lines for people, and the same as fields of a JSON object. */
final class Report {
  private record Line(String label, String text) {}

  private final String title;
  private final List<Line> lines = new ArrayList<>();
  private final Map<String, @Nullable Object> fields = new LinkedHashMap<>();

  Report(String title) {
    this.title = title;
  }

  /** Adds a line for people. */
  void line(String label, String text) {
    lines.add(new Line(label, text));
  }

  /** The lines for people so far, by label. */
  Map<String, String> lines() {
    Map<String, String> texts = new LinkedHashMap<>();
    lines.forEach(line -> texts.put(line.label(), line.text()));
    return texts;
  }

  /** Adds a field for machines; see {@link Json}. */
  void field(String name, @Nullable Object value) {
    fields.put(name, value);
  }

  /** A tensor as a JSON value. */
  static Map<String, Object> json(Tensor tensor) {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("dtype", tensor.dtype().name());
    json.put("shape", Arrays.stream(tensor.shape()).boxed().toList());
    return json;
  }

  /** Reports where the work is done. */
  void backend(Backend backend) {
    line("backend", backend.name() + ": " + backend.description());
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("name", backend.name());
    json.put("description", backend.description());
    field("backend", json);
  }

  /** The form for machines. */
  String json() {
    return Json.write(fields);
  }

  /** Prints one of the two forms. */
  void print(PrintWriter out, boolean json) {
    if (json) {
      out.println(json());
    } else {
      out.println(title);
      int width = lines.stream().mapToInt(line -> line.label().length()).max().orElse(0);
      for (Line line : lines) {
        out.println(
            "  " + line.label() + " ".repeat(width - line.label().length() + 2) + line.text());
      }
    }
    out.flush();
  }
}
