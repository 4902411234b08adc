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
                rates.forEach((ceiling, rounds) -> writeArray(json, ceiling.name(), rounds));
                json.writeEndObject();
              });
      json.writeEndObject();
      json.writeArrayPropertyStart("lines");
      for (Measurement measurement : measurements.lines()) {
        json.writeRaw('\n');
        writeLine(json, measurement, measurements);
      }
      json.writeEndArray();
      writeBars(json, run, measurements);
      writeFirstCalls(json, measurements);
      json.writeEndObject();
    }
    return text + "\n";
  }

  private static void writeRun(JsonGenerator json, Run run) {
    json.writeStringProperty("date", run.date().toString());
    json.writeStringProperty("arguments", run.arguments());
    json.writeNumberProperty("rounds", run.schedule().rounds());
    json.writeStringProperty("cpu", run.machine().cpu());
    json.writeNumberProperty("cores", run.machine().cores());
    json.writeStringProperty("backend", run.machine().backend());
    json.writeStringProperty("jdk", run.machine().jdk());
    json.writeStringProperty("system", run.machine().system());
  }

  private static void writeBars(JsonGenerator json, Run run, Measurements measurements) {
    json.writeArrayPropertyStart("bars");
    for (Bar bar : run.bars()) {
      Ratio ratio = bar.measured(measurements);
      if (ratio != null) {
        json.writeRaw('\n');
        json.writeStartObject();
        json.writeStringProperty("work", bar.work());
        json.writeStringProperty("case", bar.shape().label());
        json.writeNumberProperty("threads", bar.threads());
        json.writeStringProperty("against", bar.yardstick().toString());
        if (bar.isPromise()) {
          json.writeNumberProperty("must", bar.must());
          json.writeNumberProperty("aim", bar.aim());
        }
        writeArray(json, "rounds", ratio.rounds());
        json.writeEndObject();
      }
    }
    json.writeEndArray();
  }

  private static void writeFirstCalls(JsonGenerator json, Measurements measurements) {
    json.writeArrayPropertyStart("firstCalls");
    for (FirstCall.Times times : measurements.firstCalls()) {
      json.writeRaw('\n');
      json.writeStartObject();
      json.writeStringProperty("work", times.work().label());
      writeArray(json, "startMillis", times.startMillis());
      writeArray(json, "callMillis", times.callMillis());
      json.writeEndObject();
    }
    json.writeEndArray();
  }

  private static void writeLine(
      JsonGenerator json, Measurement measurement, Measurements measurements) {
    Line line = measurement.line();
    json.writeStartObject();
    json.writeStringProperty("section", line.section());
    json.writeStringProperty("name", line.shape().label());
    json.writeNumberProperty("threads", line.threads());
    json.writeStringProperty("benchmark", line.shape().benchmark().getSimpleName());
    json.writeObjectPropertyStart("parameters");
    new TreeMap<>(line.shape().parameters()).forEach(json::writeStringProperty);
    json.writeEndObject();
    json.writeObjectPropertyStart("millis");
    measurement.millis().forEach((who, rounds) -> writeArray(json, who.name(), rounds));
    json.writeEndObject();
    json.writeObjectPropertyStart("times");
    for (Contender other : measurements.others()) {
      Ratio ratio = measurement.over(other);
      if (ratio != null) {
        json.writeNumberProperty(other.name(), ratio.median());
      }
    }
    json.writeEndObject();
    Double ours = measurement.median(Contender.FOLDMAX);
    if (ours != null) {
      json.writeNumberProperty("rate", line.rate(ours));
    }
    json.writeStringProperty("unit", line.ceiling().unit());
    json.writeStringProperty("ceiling", line.ceiling().name());
    Ratio share = measurements.shareOfCeiling(measurement);
    if (share != null) {
      json.writeNumberProperty("shareOfCeiling", share.median());
    }
    json.writeEndObject();
  }

  private static void writeArray(JsonGenerator json, String name, List<Double> numbers) {
    json.writeArrayPropertyStart(name);
    numbers.forEach(json::writeNumber);
    json.writeEndArray();
  }
}
