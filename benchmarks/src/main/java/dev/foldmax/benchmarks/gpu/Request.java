package dev.foldmax.benchmarks.gpu;

import java.util.HashMap;
import java.util.Locale;
import java.util.Map;

/** A line of the script's: a verb, then what it is about, as {@code name=value}. */
record Request(String verb, Map<String, String> values) {
  static Request of(String line) {
    String[] words = line.strip().split(" +", -1);
    Map<String, String> values = new HashMap<>();
    for (int i = 1; i < words.length; i++) {
      int equals = words[i].indexOf('=');
      if (equals < 1) {
        throw new IllegalArgumentException("expected name=value, got " + words[i]);
      }
      values.put(words[i].substring(0, equals), words[i].substring(equals + 1));
    }
    return new Request(words[0], Map.copyOf(values));
  }

  boolean has(String name) {
    return values.containsKey(name);
  }

  String text(String name) {
    String value = values.get(name);
    if (value == null) {
      throw new IllegalArgumentException(verb + ": expected " + name + "=...");
    }
    return value;
  }

  String text(String name, String otherwise) {
    return values.getOrDefault(name, otherwise);
  }

  int number(String name) {
    return Integer.parseInt(text(name));
  }

  int number(String name, int otherwise) {
    return has(name) ? number(name) : otherwise;
  }

  <E extends Enum<E>> E constant(Class<E> type, String name) {
    return Enum.valueOf(type, text(name).toUpperCase(Locale.ROOT));
  }
}
