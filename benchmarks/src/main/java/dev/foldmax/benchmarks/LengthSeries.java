package dev.foldmax.benchmarks;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Time and memory against length, for each who was measured.
 *
 * @param work what was computed, such as {@code causal attention, H 1 D 64 f32}
 * @param machine where, and with what
 * @param command what repeats it
 * @param points by who
 */
record LengthSeries(String work, String machine, String command, Map<String, List<Point>> points) {
  /**
   * A measurement.
   *
   * @param length of queries and of keys
   * @param seconds of a call
   * @param bytes beyond inputs and outputs, as far as that can be told
   */
  record Point(int length, double seconds, long bytes) {}

  /** As JSON. */
  String toJson() {
    JsonMapper mapper = new JsonMapper();
    ObjectNode json = mapper.createObjectNode();
    json.put("work", work).put("machine", machine).put("command", command);
    ObjectNode all = json.putObject("points");
    points.forEach(
        (who, series) -> {
          ArrayNode array = all.putArray(who);
          for (Point point : series) {
            array
                .addObject()
                .put("length", point.length())
                .put("seconds", point.seconds())
                .put("bytes", point.bytes());
          }
        });
    return mapper.writerWithDefaultPrettyPrinter().writeValueAsString(json) + "\n";
  }

  /** Reads what {@link #toJson} wrote. */
  static LengthSeries fromJson(String text) {
    JsonNode json = new JsonMapper().readTree(text);
    Map<String, List<Point>> points = new LinkedHashMap<>();
    for (Map.Entry<String, JsonNode> entry : json.get("points").properties()) {
      List<Point> series = new ArrayList<>();
      for (JsonNode point : entry.getValue()) {
        series.add(
            new Point(
                point.get("length").asInt(),
                point.get("seconds").asDouble(),
                point.get("bytes").asLong()));
      }
      points.put(entry.getKey(), series);
    }
    return new LengthSeries(
        json.get("work").asString(),
        json.get("machine").asString(),
        json.get("command").asString(),
        points);
  }
}
