package dev.foldmax.cli;

import static dev.foldmax.cli.Cli.npy;
import static dev.foldmax.cli.Cli.random;
import static dev.foldmax.cli.Cli.run;
import static dev.foldmax.cli.Cli.safeTensors;
import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Command lines that are wrong: exit code 2 and one line that says what is wrong. */
class UsageTest {
  @TempDir private Path folder;
  private Path sample;
  private Path q;

  @BeforeEach
  void writeFiles() throws IOException {
    Tensor tensor = random(1, DType.F32, 3, 4);
    sample =
        safeTensors(folder.resolve("s.safetensors"), Map.of("q", tensor, "k", tensor, "v", tensor));
    q = npy(folder.resolve("q.npy"), tensor);
  }

  private String wrong(Object... args) {
    return run(args).failed(2);
  }

  @Test
  void wantsACommand() {
    assertThat(wrong())
        .isEqualTo(
            "foldmax: missing a command: attend, merge, softmax, explain, bench or info (see"
                + " foldmax --help)");
  }

  @Test
  void knowsNoOtherCommandOrOption() {
    assertThat(wrong("atend"))
        .isEqualTo(
            "foldmax: there is no command 'atend'; did you mean attend (see foldmax --help)");
    assertThat(wrong("attend", sample, "--casual"))
        .startsWith("foldmax attend: there is no option '--casual'; did you mean --causal");
    assertThat(wrong("attend", sample, "more.safetensors"))
        .contains("expected one file, got 'more.safetensors' too");
    assertThat(wrong("info", "more")).contains("expected no file, got 'more'");
    assertThat(wrong("softmax")).contains("expected a file, FILE, got none");
  }

  @Test
  void saysHowCausalTakesItsValue() {
    String hint = "; --causal takes a value only after '=', as --causal=top-left (see";

    assertThat(wrong("attend", "--causal", "top-left", sample)).contains(hint);
    assertThat(wrong("attend", sample, "--causal", "top-left")).contains(hint);
    assertThat(wrong("attend", "--q", q, "--k", q, "--v", q, "--causal", "top-left"))
        .contains(hint);
    assertThat(wrong("attend", sample, "top-left")).doesNotContain("--causal");
    assertThat(wrong("attend", "--causal", sample, sample)).doesNotContain("'='");
  }

  @Test
  void expectsNothingUnchecked() {
    assertThat(wrong("attend", "--q", q, "--k", q, "--v", q, "--expected", q))
        .contains("--expected needs --check");
    assertThat(wrong("attend", sample, "--tensor=expected=v"))
        .contains("--tensor expected=... needs --check");
    run("attend", sample, "--tensor=expected=", "--backend=reference").succeeded();
  }

  /** What the shell is told to offer is what the commands take. */
  @Test
  void completionsAreValues() {
    String script = run("generate-completion").succeeded().out();

    assertThat(script)
        .contains("\"on-new-max\"", "\"prefill\"", "\"blhd\"", "\"bottom-right\"", "\"lines\"")
        .doesNotContain("ON_NEW_MAX", "PREFILL", "BLHD", "BOTTOM_RIGHT");
  }

  @ParameterizedTest
  @ValueSource(strings = {"attend", "merge", "softmax", "explain", "bench", "info", ""})
  void helpShowsExamples(String command) {
    String help = (command.isEmpty() ? run("--help") : run(command, "--help")).succeeded().out();

    assertThat(help).startsWith("Usage: foldmax").contains("Examples:", "  foldmax " + command);
    assertThat(help.lines()).allSatisfy(line -> assertThat(line.length()).isLessThanOrEqualTo(100));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '"',
      value = {
        "--causal=left           | --causal: expected bottom-right or top-left, got 'left'",
        "--causal=               | expected bottom-right or top-left, got ''",
        "--window=4              | expected two numbers of keys, such as 4096,0 or inf,128, got '4'",
        "--window=1,2,3          | got '1,2,3'",
        "--window=-1,0           | got '-1,0'",
        "--window=a,0            | got 'a,0'",
        "--rescale=never         | expected always, on-new-max or lazy, got 'never'",
        "--phase=PREFILL         | expected auto, prefill or decode, got 'PREFILL'",
        "--layout=bdhl           | expected bhld or blhd, got 'bdhl'",
        "--backend=gpu           | expected auto, cpu, cuda or reference, got 'gpu'",
        "--scale=nan             | --scale: expected a number, got 'nan'",
        "--scale=Infinity        | --scale: expected a finite number, got Infinity",
        "--softcap=-1            | --softcap: expected a positive number, got -1.0",
        "--tau=65                | --tau: weights grow up to 2^tau, so expected 0 to 64, got 65.0",
        "--repeat=-1             | --repeat: expected at least 0, got -1.0",
        "--prefix=-2             | --prefix: expected at least 0, got -2",
        "--threads=3000000000    | --threads: expected a whole number of at most 2147483647, got '3000000000'",
        "--prefix=1.5            | --prefix: expected a whole number, got '1.5'",
        "--repeat=1s             | --repeat: expected a number, got '1s'",
        "--check=3               | --check: expected no value, got '3'",
        "--threads=0             | --threads: expected at least 1, got 0",
        "--threads=two           | --threads: expected a whole number of at most 2147483647, got 'two'",
        "--tensor=a              | --tensor: expected ROLE=NAME with one of q, k, v, bias",
        "--tensor=w=a            | got 'w=a'",
        "--out=o.txt             | --out: expected a file that ends in .npy or .safetensors, got o.txt",
        "--lse=o                 | --lse: expected a file that ends in .npy or .safetensors, got o",
        "--bias=s.safetensors    | --bias: expected an .npy file, got s.safetensors",
        "--threads=x --causal    | 'x --causal'",
      })
  void namesTheWrongValue(String option, String message) {
    assertThat(wrong("attend", sample, option)).startsWith("foldmax attend: ").contains(message);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '"',
      value = {
        "--causal;--prefix=3           | --prefix is causal by itself and conflicts with --causal",
        "--tau=8;--rescale=always      | --tau is for lazy and conflicts with --rescale always",
        "--threads=2;--backend=cuda    | --threads is for the CPU backend and conflicts with --backend cuda",
        "--causal;--causal=top-left    | --causal is given twice",
        "--window;--json               | --window: expected a value, L,R, after it",
        "--scale=1;--scale=2           | --scale is given twice",
        "--out=a.npy;--lse=a.npy       | --out and --lse name the same file, a.npy",
        "--out=a.npy;--lse=./a.npy     | --out and --lse name the same file, a.npy",
        "--tensor=q=a;--tensor=q=b     | --tensor q=... is given twice",
        "--bias=b.npy;--tensor=bias=b  | --tensor bias=... conflicts with --bias",
        "--k=k.npy                     | --k conflicts with",
      })
  void namesWhatConflicts(String options, String message) {
    Object[] args = ("attend;" + sample + ";" + options).split(";");

    assertThat(wrong(args)).startsWith("foldmax attend: ").contains(message);
  }

  @Test
  void pointsArraysToTheirOptions() {
    assertThat(wrong("attend", q, q, q)).contains("; .npy files go to --q, --k and --v");
  }

  @Test
  void wantsAllOfQueriesKeysAndValues() {
    assertThat(wrong("attend"))
        .contains("missing --q: give one .safetensors file, or .npy files by --q, --k and --v");
    assertThat(wrong("attend", "--q", q, "--v", q)).contains("missing --k");
    assertThat(wrong("attend", "--causal", q))
        .contains("expected a .safetensors file, got " + q + "; .npy files go to --q, --k and --v");
    assertThat(wrong("attend", "--q", q, "--k", q, "--v", q, "--tensor", "q=a"))
        .contains("--tensor names tensors of a .safetensors file, and none is given");
  }

  @Test
  void neverOverwritesAnInput() throws IOException {
    Path link = Files.createSymbolicLink(folder.resolve("link.safetensors"), sample);
    byte[] before = Files.readAllBytes(sample);

    assertThat(wrong("attend", sample, "--out", sample))
        .contains("--out " + sample + " would overwrite the input " + sample);
    assertThat(wrong("attend", sample, "--lse", link)).contains("would overwrite");
    assertThat(wrong("attend", "--q", q, "--k", q, "--v", q, "--out", q))
        .contains("would overwrite");
    assertThat(wrong("softmax", q, "--out", folder.resolve("x/../q.npy")))
        .contains("would overwrite the input " + q);
    assertThat(Files.readAllBytes(sample)).isEqualTo(before);
  }

  /** Two names of one file that is not there yet: the second result would replace the first. */
  @Test
  void seesThatTwoResultsAreOneFile() throws IOException {
    Path real = Files.createDirectory(folder.resolve("real"));
    Path linked = Files.createSymbolicLink(folder.resolve("linked"), Path.of("real"));
    Path dangling = Files.createSymbolicLink(folder.resolve("dangling.npy"), Path.of("target.npy"));
    Path chain = Files.createSymbolicLink(folder.resolve("chain.npy"), dangling.toAbsolutePath());
    Path[][] pairs = {
      {linked.resolve("r.npy"), real.resolve("r.npy")},
      {linked.resolve("r.npy"), linked.resolve("../real/./r.npy")},
      {dangling, folder.resolve("target.npy")},
      {real.resolve("../target.npy"), chain}
    };
    for (Path[] pair : pairs) {
      for (Object[] job : new Object[][] {{"attend", sample}, {"softmax", q}, {"merge", q, q}}) {
        Object[] words = Arrays.copyOf(job, job.length + 4);
        words[job.length] = "--out";
        words[job.length + 1] = pair[0];
        words[job.length + 2] = "--lse";
        words[job.length + 3] = pair[1];
        assertThat(wrong(words)).contains("--out and --lse name the same file, " + pair[0]);
      }
    }
    Path loop = Files.createSymbolicLink(folder.resolve("loop.npy"), Path.of("loop.npy"));
    assertThat(run("softmax", q, "--out", loop).failed(1)).contains(loop + ": its links go");
  }

  @Test
  void refusesATensorGivenTwice() throws IOException {
    Tensor tensor = random(1, DType.F32, 3, 4);
    Tensor bias = random(2, DType.F32, 3, 3);
    safeTensors(sample, Map.of("q", tensor, "k", tensor, "v", tensor, "bias", bias));
    Path file = npy(folder.resolve("b.npy"), bias);

    assertThat(wrong("attend", sample, "--bias", file))
        .contains(
            "--bias conflicts with the tensor bias of "
                + sample
                + "; --tensor bias= leaves the latter out");
    run("attend", sample, "--bias", file, "--tensor=bias=", "--backend=reference").succeeded();
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '"',
      value = {
        "--top-k=2;--log              | --top-k conflicts with --log",
        "--top-k=0                    | --top-k: expected at least 1, got 0",
        "--top-k=2;--out=t.npy        | --top-k writes three tensors, so --out must be a .safetensors file, got t.npy",
        "--log                        | --log needs --out",
        "--tensor=a                   | --tensor is for .safetensors files and conflicts with",
        "--out=p.npy;--lse=p.npy      | --out and --lse name the same file, p.npy",
        "--out=p.csv                  | --out: expected a file that ends in .npy or .safetensors, got p.csv",
      })
  void checksTheOptionsOfSoftmax(String options, String message) {
    Object[] args = ("softmax;" + q + ";" + options).split(";");

    assertThat(wrong(args)).startsWith("foldmax softmax: ").contains(message);
  }

  @Test
  void verboseShowsTheStackTrace() {
    Cli.Result result = run("attend", sample, "--window=4", "--verbose");

    assertThat(result.status()).isEqualTo(2);
    assertThat(result.err()).startsWith("foldmax attend: ").contains("\tat ");
  }
}
