package dev.foldmax.benchmarks;

import java.lang.reflect.RecordComponent;
import java.util.LinkedHashMap;
import java.util.Map;

/** What is computed in a line of the tables, whoever computes it. */
public sealed interface Case permits AttentionCase, RowCase, MergeCase {
  /** The JMH class that measures it; it has a parameter for each component of the record. */
  Class<?> benchmark();

  /** As the tables name it. */
  String label();

  /** The values of the benchmark's parameters. */
  default Map<String, String> parameters() {
    Map<String, String> parameters = new LinkedHashMap<>();
    for (RecordComponent component : getClass().getRecordComponents()) {
      try {
        parameters.put(component.getName(), String.valueOf(component.getAccessor().invoke(this)));
      } catch (ReflectiveOperationException e) {
        throw new IllegalStateException("cannot read " + component, e);
      }
    }
    return parameters;
  }
}
