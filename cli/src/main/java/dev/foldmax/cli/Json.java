package dev.foldmax.cli;

import java.io.StringWriter;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JsonGenerator;
import tools.jackson.core.ObjectWriteContext;
import tools.jackson.core.json.JsonFactory;

/**
 * JSON from maps, lists, strings, numbers, booleans and nulls. Numbers that JSON lacks become the
 * strings NaN, Infinity and -Infinity.
 */
final class Json {
  private Json() {}

  /** One object on one line. */
  static String write(Map<String, ? extends @Nullable Object> object) {
    StringWriter text = new StringWriter();
    try (JsonGenerator json = new JsonFactory().createGenerator(ObjectWriteContext.empty(), text)) {
      writeValue(json, object);
    }
    return text.toString();
  }

  private static void writeValue(JsonGenerator json, @Nullable Object value) {
    switch (value) {
      case null -> json.writeNull();
      case Map<?, ?> map -> {
        json.writeStartObject();
        for (Map.Entry<?, ?> entry : map.entrySet()) {
          json.writeName(String.valueOf(entry.getKey()));
          writeValue(json, entry.getValue());
        }
        json.writeEndObject();
      }
      case List<?> list -> {
        json.writeStartArray();
        for (Object element : list) {
          writeValue(json, element);
        }
        json.writeEndArray();
      }
      case String string -> json.writeString(string);
      case Boolean bool -> json.writeBoolean(bool);
      case Integer number -> json.writeNumber(number);
      case Long number -> json.writeNumber(number);
      case Double number -> json.writeNumber(number);
      default -> throw new IllegalArgumentException("no JSON for " + value.getClass());
    }
  }
}
