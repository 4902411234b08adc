package dev.foldmax.cli;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import dev.foldmax.io.NpyFile;
import dev.foldmax.io.SafeTensors;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** Runs the command line in this process, as a user would, and makes files for it. */
final class Cli {
  private Cli() {}

  /** What a run left. */
  record Result(int status, String out, String err) {
    /** This, after seeing that the job was done without a word on the error stream. */
    Result succeeded() {
      assertThat(err).isEmpty();
      assertThat(status).isZero();
      return this;
    }

    /** The error, after seeing that it is one line, the only output, and the status. */
    String failed(int expectedStatus) {
      assertThat(status).as(out + err).isEqualTo(expectedStatus);
      assertThat(out).isEmpty();
      assertThat(err).matches("[^\\n\\r]+\\R");
      assertThat(err).doesNotContain("Exception", "null");
      return err.strip();
    }

    /** The output as JSON. */
    JsonNode json() {
      return new JsonMapper().readTree(out);
    }
  }

  /** Runs a command line, a job once unless told to repeat it; a Path is given by its name. */
  static Result run(Object... args) {
    StringWriter out = new StringWriter();
    StringWriter err = new StringWriter();
    List<String> words = new ArrayList<>();
    for (Object arg : args) {
      words.add(arg.toString());
    }
    boolean isJob = words.contains("attend") || words.contains("softmax");
    if (isJob && words.stream().noneMatch(word -> word.startsWith("--repeat"))) {
      words.add("--repeat=0");
    }
    String[] line = words.toArray(String[]::new);
    int status =
        Main.commandLine(line)
            .setOut(new PrintWriter(out))
            .setErr(new PrintWriter(err))
            .execute(line);
    return new Result(status, out.toString(), err.toString());
  }

  /** Seeded numbers of about the standard normal distribution, rounded to a type. */
  static Tensor random(long seed, DType dtype, long... shape) {
    SplittableRandom random = new SplittableRandom(seed);
    Tensor tensor = Tensor.allocate(dtype, shape);
    for (long i = 0; i < tensor.elements(); i++) {
      tensor.setAt(i, random.nextGaussian());
    }
    return tensor;
  }

  static Path npy(Path path, Tensor tensor) throws IOException {
    NpyFile.write(path, tensor);
    return path;
  }

  static Path safeTensors(Path path, Map<String, Tensor> tensors) throws IOException {
    SafeTensors.write(path, tensors, Map.of());
    return path;
  }

  /** All tensors of a file, in memory. */
  static Map<String, Tensor> read(Path path) throws IOException {
    Map<String, Tensor> tensors = new LinkedHashMap<>();
    try (SafeTensors file = SafeTensors.open(path)) {
      for (String name : file.names()) {
        tensors.put(name, file.tensor(name).copy());
      }
    }
    return tensors;
  }

  static Tensor readNpy(Path path) throws IOException {
    try (NpyFile file = NpyFile.open(path)) {
      return file.tensor().copy();
    }
  }

  /** Asserts the same type, shape and bits. */
  static void assertSame(Tensor actual, Tensor expected) {
    assertThat(actual.toString()).isEqualTo(expected.toString());
    assertThat(actual.copy().segment().mismatch(expected.copy().segment())).isEqualTo(-1);
  }
}
