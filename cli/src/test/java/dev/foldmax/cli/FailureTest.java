package dev.foldmax.cli;

import static dev.foldmax.cli.Cli.npy;
import static dev.foldmax.cli.Cli.random;
import static dev.foldmax.cli.Cli.run;
import static dev.foldmax.cli.Cli.safeTensors;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import dev.foldmax.Availability;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Jobs that cannot be done: exit code 1 and one line that says why. */
class FailureTest {
  private static final String REFERENCE = "--backend=reference";

  @TempDir private Path folder;
  private final Map<String, Tensor> tensors = new LinkedHashMap<>();
  private Path sample;

  @BeforeEach
  void goodTensors() {
    sample = folder.resolve("s.safetensors");
    tensors.put("q", random(1, DType.F32, 2, 4, 5, 8));
    tensors.put("k", random(2, DType.F32, 2, 2, 7, 8));
    tensors.put("v", random(3, DType.F32, 2, 2, 7, 6));
  }

  private String failure(Object... args) {
    return run(args).failed(1);
  }

  static Stream<Arguments> wrongTensors() {
    return Stream.of(
        Arguments.of(
            "q",
            zeros(DType.F32, 8),
            "q is F32 (8), expected (batch, heads, length, dim), (heads, length, dim) or (length, dim)"),
        Arguments.of(
            "k",
            zeros(DType.F32, 2, 7, 8),
            "k is F32 (2, 7, 8), expected as many dimensions as q F32 (2, 4, 5, 8)"),
        Arguments.of(
            "q",
            zeros(DType.I64, 2, 4, 5, 8),
            "q is I64 (2, 4, 5, 8), expected F64, F32, F16 or BF16"),
        Arguments.of(
            "v",
            zeros(DType.BOOL, 2, 2, 7, 6),
            "v is BOOL (2, 2, 7, 6), expected F64, F32, F16 or BF16, or I8 with scales"),
        Arguments.of(
            "k",
            zeros(DType.F32, 1, 2, 7, 8),
            "k is F32 (1, 2, 7, 8), expected batch 2 as q F32 (2, 4, 5, 8)"),
        Arguments.of(
            "k",
            zeros(DType.F32, 2, 2, 7, 9),
            "k is F32 (2, 2, 7, 9), expected head dimension 8 as q F32 (2, 4, 5, 8)"),
        Arguments.of(
            "k",
            zeros(DType.F32, 2, 3, 7, 8),
            "k is F32 (2, 3, 7, 8), expected a number of heads that divides the 4 of q F32 (2, 4, 5, 8)"),
        Arguments.of(
            "k",
            zeros(DType.F32, 2, 0, 7, 8),
            "expected a number of heads that divides the 4 of q"),
        Arguments.of(
            "v",
            zeros(DType.F32, 2, 2, 8, 6),
            "v is F32 (2, 2, 8, 6), expected the shape of k F32 (2, 2, 7, 8) but for the last dimension"),
        Arguments.of(
            "k",
            zeros(DType.I8, 2, 2, 7, 8),
            "k is I8 (2, 2, 7, 8), expected floating numbers, or scales: --k-scale or a tensor k_scale"),
        Arguments.of(
            "v_scale",
            zeros(DType.F32, 2, 7),
            "v_scale is F32 (2, 7), expected a floating type and shape (2, 2, 7), one for each row of v"),
        Arguments.of(
            "bias",
            zeros(DType.F32, 3, 7),
            "bias is F32 (3, 7), expected what broadcasts to (batch 2, query heads 4, queries 5, keys 7)"),
        Arguments.of(
            "bias",
            zeros(DType.BOOL, 5, 7),
            "bias is BOOL (5, 7), expected F64, F32, F16 or BF16 (a boolean tensor is a mask, see --mask)"),
        Arguments.of(
            "mask",
            zeros(DType.F32, 5, 7),
            "mask is F32 (5, 7), expected booleans, true where a key is visible (numbers to add are a bias, see --bias)"),
        Arguments.of(
            "mask",
            zeros(DType.I32, 5, 7),
            "mask is I32 (5, 7), expected booleans, true where a key is visible (of a NumPy array of 0 and 1: astype(bool))"),
        Arguments.of(
            "mask",
            zeros(DType.BOOL, 1, 2, 4, 5, 7),
            "mask is BOOL (1, 2, 4, 5, 7), expected what broadcasts to"),
        Arguments.of(
            "sinks",
            zeros(DType.F32, 2),
            "sinks is F32 (2), expected a floating type and shape (4), one for each query head"),
        Arguments.of(
            "slopes",
            zeros(DType.F32, 4, 2),
            "slopes is F32 (4, 2), expected a floating type and shape (2, 4), (batch, query heads)"),
        Arguments.of(
            "expected",
            zeros(DType.F32, 2, 4, 5, 8),
            "expected is F32 (2, 4, 5, 8), expected a floating type and shape (2, 4, 5, 6) as the output"));
  }

  private static Tensor zeros(DType dtype, long... shape) {
    return Tensor.allocate(dtype, shape);
  }

  @ParameterizedTest
  @MethodSource("wrongTensors")
  void namesTheTensorItsShapeAndWhatIsExpected(String name, Tensor tensor, String message)
      throws IOException {
    tensors.put(name, tensor);
    safeTensors(sample, tensors);

    assertThat(failure("attend", sample, REFERENCE))
        .startsWith("foldmax attend: " + sample + ": ")
        .contains(message);
  }

  @Test
  void namesTheFileOfATensor() throws IOException {
    tensors.put("query", tensors.remove("q").slice(3, 0, 7));
    safeTensors(sample, tensors);

    assertThat(failure("attend", sample, "--tensor=q=query", REFERENCE))
        .contains("k is F32 (2, 2, 7, 8), expected head dimension 7 as q F32 (2, 4, 5, 7)");
    assertThat(failure("attend", sample, REFERENCE))
        .isEqualTo(
            "foldmax attend: "
                + sample
                + ": has no tensor q, only k, query, v; --tensor q=NAME takes another");
    assertThat(failure("attend", sample, "--tensor=q=a", REFERENCE))
        .isEqualTo("foldmax attend: " + sample + ": has no tensor a, only k, query, v");
    Path bias = npy(folder.resolve("b.npy"), zeros(DType.F32, 9));
    assertThat(
            failure(
                "attend",
                sample,
                "--tensor=q=query",
                "--tensor=k=query",
                "--tensor=v=query",
                "--bias",
                bias))
        .startsWith("foldmax attend: " + bias + ": bias is F32 (9), expected");
  }

  @Test
  void saysWhichFileIsMissing() throws IOException {
    Path missing = folder.resolve("missing.npy");
    Path q = npy(folder.resolve("q.npy"), tensors.get("q"));

    assertThat(failure("attend", folder.resolve("a.safetensors")))
        .isEqualTo("foldmax attend: " + folder.resolve("a.safetensors") + ": no such file");
    assertThat(failure("attend", "--q", q, "--k", missing, "--v", missing))
        .isEqualTo("foldmax attend: " + missing + ": no such file");
    assertThat(failure("softmax", missing))
        .isEqualTo("foldmax softmax: " + missing + ": no such file");
  }

  @Test
  void doesNotReadFolders() {
    assertThat(failure("attend", folder))
        .isEqualTo("foldmax attend: " + folder + ": is a folder, expected a file");
    assertThat(failure("softmax", folder)).endsWith(": is a folder, expected a file");
  }

  @Test
  void saysWhatIsWrongWithAFile() throws IOException {
    Files.writeString(sample, "these are no tensors at all");
    Path npz = folder.resolve("a.npz");
    Files.write(npz, "PK\003\004 and so on".getBytes(StandardCharsets.ISO_8859_1));

    assertThat(failure("attend", sample)).startsWith("foldmax attend: " + sample + ": ");
    assertThat(failure("softmax", npz))
        .startsWith("foldmax softmax: " + npz + ": ")
        .contains("npz");
    assertThat(failure("attend", "--q", npz, "--k", npz, "--v", npz)).contains(npz + ": ");
    Files.write(sample, new byte[0]);
    assertThat(failure("attend", sample)).startsWith("foldmax attend: " + sample + ": ");
  }

  @Test
  void seesBeforeTheJobThatItsResultHasNoPlace() throws IOException {
    safeTensors(sample, tensors);
    Path nowhere = folder.resolve("no/where.npy");
    Path taken = Files.createDirectory(folder.resolve("taken.npy"));

    assertThat(failure("attend", sample, "--out", nowhere))
        .isEqualTo("foldmax attend: " + nowhere + ": its folder does not exist");
    assertThat(failure("attend", sample, "--lse", taken))
        .isEqualTo("foldmax attend: " + taken + ": is a folder, expected a file");
  }

  @Test
  void saysWhichTensorsThereAreToChoose() throws IOException {
    safeTensors(sample, tensors);

    assertThat(failure("softmax", sample, REFERENCE))
        .isEqualTo(
            "foldmax softmax: "
                + sample
                + ": has the tensors k, q, v; choose one with --tensor NAME");
    assertThat(failure("softmax", sample, "--tensor=x", REFERENCE))
        .isEqualTo("foldmax softmax: " + sample + ": has no tensor x, only k, q, v");
  }

  @Test
  void saysThatAFileIsEmpty() throws IOException {
    safeTensors(sample, Map.of());

    assertThat(failure("softmax", sample, REFERENCE))
        .isEqualTo("foldmax softmax: " + sample + ": has no tensors");
    assertThat(failure("softmax", sample, "--tensor=x", REFERENCE))
        .isEqualTo("foldmax softmax: " + sample + ": has no tensors");
    assertThat(failure("attend", sample, REFERENCE))
        .isEqualTo("foldmax attend: " + sample + ": has no tensors");
  }

  @Test
  void anOutputThatCannotBeWrittenIsAFailure() throws IOException {
    Path rows = npy(folder.resolve("r.npy"), zeros(DType.F32, 2, 3));
    for (List<String> words :
        List.of(
            List.of("softmax", rows.toString(), REFERENCE, "--repeat=0", "--json"),
            List.of("info"),
            List.of("--version"))) {
      StringWriter err = new StringWriter();
      String[] line = words.toArray(String[]::new);
      int status =
          Main.commandLine(line)
              .setOut(new PrintWriter(new FullWriter()))
              .setErr(new PrintWriter(err))
              .execute(line);
      assertThat(status).as(words.toString()).isEqualTo(1);
      assertThat(err.toString())
          .matches("foldmax( softmax| info)?: standard output: cannot be written\\R");
    }
  }

  /** Has no space left. */
  private static final class FullWriter extends Writer {
    @Override
    public void write(char[] text, int from, int length) throws IOException {
      throw new IOException("No space left on device");
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
  }

  @Test
  void checksTheInputOfSoftmax() throws IOException {
    Path integers = npy(folder.resolve("i.npy"), zeros(DType.I64, 2, 3));
    Path scalar = npy(folder.resolve("s.npy"), zeros(DType.F32));
    Path rows = npy(folder.resolve("r.npy"), zeros(DType.F32, 2, 3));

    assertThat(failure("softmax", integers, REFERENCE))
        .isEqualTo(
            "foldmax softmax: "
                + integers
                + ": x is I64 (2, 3), expected F64, F32, F16 or BF16 with at least one dimension");
    assertThat(failure("softmax", scalar, REFERENCE)).contains("x is F32 (), expected");
    assertThat(failure("softmax", rows, "--top-k=4", REFERENCE))
        .contains("x is F32 (2, 3), expected rows of at least 4 elements for --top-k 4");
  }

  @Test
  void saysWhyABackendIsMissing() throws IOException {
    safeTensors(sample, tensors);
    assumeFalse(Backend.availabilities().get("cuda") instanceof Availability.Available);

    assertThat(failure("attend", sample, "--backend", "cuda")).startsWith("foldmax attend: ");
  }

  @Test
  void saysItInOneLineWhateverHappens() {
    assertThat(Failure.message(new OutOfMemoryError("Java heap space")))
        .isEqualTo(
            "out of memory (Java heap space); FOLDMAX_JAVA_OPTS=-Xmx8g, say, allows a larger"
                + " heap");
    assertThat(Failure.message(new IllegalStateException())).isEqualTo("IllegalStateException");
    assertThat(Failure.message(new IOException("one\n  two\r\nthree"))).isEqualTo("one two three");
    assertThat(Failure.message(new IOException("a\033[2Jb"))).isEqualTo("a?[2Jb");
    assertThat(Failure.message(new AccessDeniedException("a.npy")))
        .isEqualTo("a.npy: permission denied");
  }

  @Test
  void survivesAResultThatNoDiskCanHold() throws IOException {
    // No bytes in the file, and 2^62 in the output.
    tensors.put("q", zeros(DType.F32, 1, 1, 1L << 50, 0));
    tensors.put("k", zeros(DType.F32, 1, 1, 1, 0));
    tensors.put("v", zeros(DType.F32, 1, 1, 1, 1 << 10));
    safeTensors(sample, tensors);

    assertThat(failure("attend", sample, REFERENCE)).contains("bytes");
    Path nowhere = folder.resolve("o.npy");
    assertThat(failure("attend", sample, REFERENCE, "--out", nowhere))
        .startsWith("foldmax attend: " + nowhere + ": ")
        .contains("bytes");
    assertThat(nowhere).doesNotExist();
  }

  @Test
  void verboseShowsTheStackTrace() {
    Cli.Result result = run("attend", "--verbose", folder);

    assertThat(result.status()).isEqualTo(1);
    assertThat(result.err()).startsWith("foldmax attend: ").contains("\tat ");
  }
}
