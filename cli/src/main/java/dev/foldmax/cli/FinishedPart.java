package dev.foldmax.cli;

import dev.foldmax.AttentionPartial;
import dev.foldmax.Tensor;
import dev.foldmax.io.SafeTensors;
import dev.foldmax.spi.ContentDigest;
import dev.foldmax.spi.KeyRange;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The result of a part of an attention's keys, (output, logsumexp), as {@code attend --finished}
 * and other systems write it. Only the former say which keys and which attention it is of.
 *
 * @param name its file, or its two files
 * @param output (..., Dv)
 * @param lse the same without Dv
 * @param range which keys of which attention, or null if the file does not say
 */
record FinishedPart(String name, Tensor output, Tensor lse, @Nullable KeyRange range) {
  private static final String FORMAT = "foldmax.finished";
  private static final String VERSION = "1";
  private static final String DEFINITION = "attention.";
  private static final String KEYS = "keys";
  private static final String DIGEST = "sha256";
  private static final Pattern RANGE =
      Pattern.compile("(\\d{1,18})\\.\\.(\\d{1,18}) of (\\d{1,18})");

  FinishedPart {
    long[] rows = Arrays.copyOf(output.shape(), Math.max(0, output.rank() - 1));
    boolean fits = output.rank() > 0 && Arrays.equals(rows, lse.shape());
    if (!output.dtype().isFloating() || !lse.dtype().isFloating() || !fits) {
      throw new Failure(
          name
              + ": expected a floating output and a logsumexp of its shape without the last"
              + " dimension, got output "
              + Quantity.tensor(output)
              + " and lse "
              + Quantity.tensor(lse));
    }
  }

  /**
   * Writes results with what {@link #of} checks.
   *
   * @param of which part they are of
   */
  static void write(Path path, AttentionPartial of, Map<String, Tensor> results)
      throws IOException {
    Map<String, String> metadata = new TreeMap<>();
    of.definition().forEach((name, text) -> metadata.put(DEFINITION + name, text));
    metadata.put(FORMAT, VERSION);
    metadata.put(KEYS, of.keyBegin() + ".." + of.keyEnd() + " of " + of.totalKeys());
    metadata.put(DIGEST, ContentDigest.of(metadata, results));
    SafeTensors.write(path, results, metadata);
  }

  /** Reads the tensors output and lse of a file, and checks what it says of itself. */
  static FinishedPart of(Path path, SafeTensors file) {
    Tensor output = tensor(path, file, "output");
    Tensor lse = tensor(path, file, "lse");
    Map<String, String> metadata = new TreeMap<>(file.metadata());
    KeyRange range = null;
    if (metadata.containsKey(FORMAT)) {
      String digest = metadata.remove(DIGEST);
      if (!file.isAsWritten()
          || !ContentDigest.of(metadata, Map.of("output", output, "lse", lse)).equals(digest)) {
        throw new Failure(
            path + ": was altered: its contents do not have the SHA-256 digest that it states");
      }
      range = range(path, metadata);
    } else if (isOwn(metadata)) {
      throw new Failure(path + ": was altered: its metadata no longer say which part it is");
    }
    return new FinishedPart(path.toString(), output, lse, range);
  }

  /** Whether metadata are of this program, though they lack its format. */
  private static boolean isOwn(Map<String, String> metadata) {
    return metadata.keySet().stream().anyMatch(name -> name.startsWith("foldmax"))
        || (metadata.containsKey(KEYS) && metadata.containsKey(DIGEST));
  }

  private static Tensor tensor(Path path, SafeTensors file, String name) {
    if (!file.has(name)) {
      throw new Failure(
          InputFiles.missing(path, name, file.names()) + "; expected a partial, or output and lse");
    }
    return file.tensor(name);
  }

  private static KeyRange range(Path path, Map<String, String> metadata) {
    String version = metadata.get(FORMAT);
    if (!VERSION.equals(version)) {
      throw new Failure(
          path + ": a finished part of version " + version + ", expected version " + VERSION);
    }
    String keys = metadata.getOrDefault(KEYS, "");
    Matcher numbers = RANGE.matcher(keys);
    if (!numbers.matches()) {
      throw new Failure(path + ": keys are '" + keys + "', expected such as 0..1536 of 4096");
    }
    Map<String, String> definition = new LinkedHashMap<>();
    metadata.forEach(
        (name, text) -> {
          if (name.startsWith(DEFINITION)) {
            definition.put(name.substring(DEFINITION.length()), text);
          }
        });
    return new KeyRange(
        path.toString(),
        definition,
        Long.parseLong(numbers.group(1)),
        Long.parseLong(numbers.group(2)),
        Long.parseLong(numbers.group(3)));
  }
}
