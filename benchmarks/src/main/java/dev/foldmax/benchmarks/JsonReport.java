package dev.foldmax.benchmarks;

import java.io.StringWriter;
import java.util.List;
import java.util.TreeMap;
import tools.jackson.core.JsonGenerator;
import tools.jackson.core.ObjectWriteContext;
import tools.jackson.core.json.JsonFactory;

/** Measurements as JSON, with every round's time. */
final class JsonReport {
  private JsonReport() {}

  /** The document. */
  static String write(Run run, Measurements measurements) {
    StringWriter text = new StringWriter();
    try (JsonGenerator json = new JsonFactory().createGenerator(ObjectWriteContext.empty(), text)) {
      json.writeStartObject();
      writeRun(json, run);
      json.writeObjectPropertyStart("ceilings");
      measurements
          .ceilings()
          .forEach(
              (threads, rates) -> {
                json.writeObjectPropertyStart(threads.toString());
                rates.forEach((ceiling, rate) -> json.writeNumberProperty(ceiling.name(), rate));
                json.writeEndObject();
              });
      json.writeEndObject();
      json.writeArrayPropertyStart("lines");
      for (Measurement measurement : measurements.lines()) {
        json.writeRaw('\n');
        writeLine(json, measurement, measurements);
      }
      json.writeEndArray();
      json.writeEndObject();
    }
    return text + "\n";
  }

  private static void writeRun(JsonGenerator json, Run run) {
    json.writeStringProperty("date", run.date().toString());
    json.writeStringProperty("arguments", run.command());
    json.writeNumberProperty("rounds", run.schedule().rounds());
    json.writeStringProperty("cpu", run.machine().cpu());
    json.writeNumberProperty("cores", run.machine().cores());
    json.writeStringProperty("backend", run.machine().backend());
    json.writeStringProperty("jdk", run.machine().jdk());
    json.writeStringProperty("system", run.machine().system());
  }

  private static void writeLine(
      JsonGenerator json, Measurement measurement, Measurements measurements) {
    Line line = measurement.line();
    json.writeStartObject();
    json.writeStringProperty("section", line.section());
    json.writeStringProperty("name", line.name());
    json.writeNumberProperty("threads", line.threads());
    json.writeStringProperty("benchmark", line.benchmark().getSimpleName());
    json.writeObjectPropertyStart("parameters");
    new TreeMap<>(line.parameters()).forEach(json::writeStringProperty);
    json.writeEndObject();
    writeMillis(json, "foldmaxMillis", measurement.foldmaxMillis());
    writeMillis(json, "naiveMillis", measurement.naiveMillis());
    json.writeNumberProperty("timesNaive", measurement.speedup());
    json.writeNumberProperty("rate", line.rate(measurement.foldmax()));
    json.writeStringProperty("unit", line.ceiling().unit());
    json.writeStringProperty("ceiling", line.ceiling().name());
    Double share = measurements.shareOfCeiling(measurement);
    if (share != null) {
      json.writeNumberProperty("shareOfCeiling", share);
    }
    json.writeEndObject();
  }

  private static void writeMillis(JsonGenerator json, String name, List<Double> millis) {
    json.writeArrayPropertyStart(name);
    millis.forEach(json::writeNumber);
    json.writeEndArray();
  }
}
