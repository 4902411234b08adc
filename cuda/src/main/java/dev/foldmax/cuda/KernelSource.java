package dev.foldmax.cuda;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A source of kernels with all that it includes, from the resources of this package.
 *
 * @param name the file's name
 * @param text what it holds
 * @param headers the files that it includes, and those that they include, by name
 */
record KernelSource(String name, String text, Map<String, String> headers) {
  private static final Pattern INCLUDE =
      Pattern.compile("^[ \\t]*#[ \\t]*include[ \\t]+\"([^\"]+)\"", Pattern.MULTILINE);

  /**
   * Reads a source and what it includes.
   *
   * @throws IllegalArgumentException if there is no such file
   */
  static KernelSource load(String name) {
    String text = read(name);
    Map<String, String> headers = new LinkedHashMap<>();
    addIncluded(text, headers);
    return new KernelSource(name, text, headers);
  }

  private static void addIncluded(String text, Map<String, String> headers) {
    Matcher matcher = INCLUDE.matcher(text);
    while (matcher.find()) {
      String name = matcher.group(1);
      if (!headers.containsKey(name)) {
        String header = read(name);
        headers.put(name, header);
        addIncluded(header, headers);
      }
    }
  }

  private static String read(String name) {
    try (InputStream in = KernelSource.class.getResourceAsStream(name)) {
      if (in == null) {
        throw new IllegalArgumentException("no kernel source " + name);
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
