package dev.foldmax.cli;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import dev.foldmax.io.SafeTensors.Description;
import dev.foldmax.spi.Rows;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Softmax, its logarithm, the logsumexp and the top k of the rows of a file. */
@Command(
    name = "softmax",
    sortOptions = false,
    description = {
      "Computes the softmax of the rows, along the last axis, of a tensor in a file; or its logarithm,"
          + " the logsumexp, or the k largest elements with their probabilities. Without --out and"
          + " --lse it shows the largest of the first rows, and reads no others.",
      "",
      "Files may be larger than memory: input is mapped, and results are computed in their files,"
          + " which get their names when they are whole. A row of any length takes the same memory.",
      ""
    },
    footer = {
      "",
      "Examples:",
      "  foldmax softmax logits.npy --out p.npy",
      "  foldmax softmax logits.npy --log --out logp.npy --lse lse.npy",
      "  foldmax softmax logits.npy --top-k 8 --out top.safetensors",
      "  foldmax softmax outputs.safetensors --tensor logits --top-k 5"
    })
final class SoftmaxCommand implements Callable<Integer> {
  /**
   * What a call reads at most, as far as whole rows allow: a device may hold no more, and where
   * rows are read twice or for two results, the system still has them in its cache.
   */
  private static final long BYTES_OF_A_PART = 1L << 30;

  /** Rows whose largest elements are shown. */
  private static final int SHOWN_ROWS = 4;

  /** How many are shown where nothing else is asked for. */
  private static final int SHOWN_LARGEST = 5;

  /** How many fit a line. */
  private static final int SHOWN_IN_WORDS = 5;

  private static final String OUTPUT = "output";
  private static final String LSE = "lse";
  private static final String VALUES = "values";
  private static final String INDICES = "indices";
  private static final String PROBABILITIES = "probabilities";

  @Spec private CommandSpec spec;

  @Parameters(paramLabel = "FILE", description = "An .npy or .safetensors file.")
  private Path file;

  @Option(
      names = "--tensor",
      paramLabel = "NAME",
      description = "Which tensor of a .safetensors file; not needed where it has only one.")
  private @Nullable String tensorName;

  @Option(names = "--log", description = "The logarithm of the softmax instead.")
  private boolean log;

  @Option(
      names = "--top-k",
      paramLabel = "K",
      description =
          "The K largest of each row instead, largest first: values, indices and probabilities;"
              + " shown as index: value (probability).")
  private @Nullable Integer topK;

  @Option(
      names = "--out",
      paramLabel = "FILE",
      description =
          "Writes the result in the input's type, BF16 as F32 in an .npy file; a safetensors file"
              + " holds it as output, or as values, indices and probabilities of --top-k.")
  private @Nullable Path out;

  @Option(
      names = "--lse",
      paramLabel = "FILE",
      description = "Writes the natural logsumexp of each row, F32 (F64 for F64 input).")
  private @Nullable Path lse;

  @Mixin private BackendOptions backends;
  @Mixin private CommonOptions common;

  @Override
  public Integer call() throws IOException {
    backends.validate();
    List<OutputFile> outputs = validate();
    outputs.forEach(OutputFile::checkPlace);
    try (InputFiles files = new InputFiles();
        Backend backend = backends.open()) {
      Source source = files.sole(file, tensorName);
      Tensor x = source.tensor();
      if (!x.dtype().isFloating() || x.rank() == 0) {
        throw source.expected("F64, F32, F16 or BF16 with at least one dimension");
      }
      if (topK != null && topK > x.shape(-1)) {
        throw source.expected("rows of at least " + topK + " elements for --top-k " + topK);
      }
      Report report = new Report("foldmax softmax " + file);
      report.line("x", Quantity.tensor(x));
      report.field("x", Report.json(x));
      report.backend(backend);

      Tensor wanted = outputs.isEmpty() ? firstRows(x) : x;
      try (Results results = results(outputs, wanted)) {
        compute(files, backend, wanted, results, report);
        if (largest(x) > 0) {
          show(report, results, Rows.count(x));
        }
        commit(results, report);
        report.print(spec.commandLine().getOut(), common.json);
      }
    }
    return 0;
  }

  private List<OutputFile> validate() {
    if (topK != null && log) {
      throw wrong("--top-k conflicts with --log");
    }
    if (topK != null && topK < 1) {
      throw wrong("--top-k: expected at least 1, got " + topK);
    }
    if (log && out == null) {
      throw wrong("--log needs --out");
    }
    if (tensorName != null && !InputFiles.isSafeTensors(file)) {
      throw wrong("--tensor is for .safetensors files and conflicts with " + file);
    }
    List<OutputFile> outputs = OutputFile.of(spec.commandLine(), out, lse, List.of(file));
    if (topK != null && out != null && !InputFiles.isSafeTensors(out)) {
      throw wrong("--top-k writes three tensors, so --out must be a .safetensors file, got " + out);
    }
    return outputs;
  }

  private ParameterException wrong(String message) {
    return new ParameterException(spec.commandLine(), message);
  }

  /** How many of the largest to take, or 0 for other results. */
  private int largest(Tensor x) {
    if (topK != null) {
      return topK;
    }
    return out == null && lse == null ? (int) Math.min(SHOWN_LARGEST, x.shape(-1)) : 0;
  }

  /** The rows that are shown, and a few more where these fill no index of a dimension. */
  private static Tensor firstRows(Tensor x) {
    Tensor first = x;
    for (int axis = 0; axis < x.rank() - 1; axis++) {
      long inside = 1;
      for (int inner = axis + 1; inner < x.rank() - 1; inner++) {
        inside *= x.shape(inner);
      }
      long needed = Math.ceilDiv(SHOWN_ROWS, Math.max(1, inside));
      first = first.slice(axis, 0, Math.min(x.shape(axis), needed));
    }
    return first;
  }

  /** Places for what was asked for. */
  private Results results(List<OutputFile> outputs, Tensor x) throws IOException {
    DType wide = x.dtype() == DType.F64 ? DType.F64 : DType.F32;
    Map<String, Description> descriptions = new LinkedHashMap<>();
    int k = largest(x);
    if (k > 0) {
      long[] shape = x.shape();
      shape[shape.length - 1] = k;
      descriptions.put(VALUES, Results.describe(x.dtype(), shape));
      descriptions.put(INDICES, Results.describe(DType.I64, shape));
      descriptions.put(PROBABILITIES, Results.describe(wide, shape));
    } else if (out != null) {
      descriptions.put(OUTPUT, Results.describe(x.dtype(), x.shape()));
    }
    if (lse != null) {
      descriptions.put(LSE, Results.describe(wide, Arrays.copyOf(x.shape(), x.rank() - 1)));
    }
    Map<OutputFile, Collection<String>> contents = new LinkedHashMap<>();
    for (OutputFile file : outputs) {
      Set<String> names = new LinkedHashSet<>(descriptions.keySet());
      if (file.option().equals("--lse")) {
        names.retainAll(Set.of(LSE));
      } else if (outputs.size() > 1) {
        names.remove(LSE);
      }
      contents.put(file, names);
    }
    return new Results(contents, descriptions);
  }

  private void compute(InputFiles files, Backend backend, Tensor x, Results results, Report report)
      throws IOException {
    long bytes = Results.describe(x.dtype(), x.shape()).bytes();
    for (Tensor result : results.all().values()) {
      bytes += result.elements() * result.dtype().bytes();
    }
    Progress.Work work = new Progress.Work(bytes * 1e-9, "GB");
    files.whileUnchanged(
        () -> {
          Stopwatch time =
              Stopwatch.time(
                  () -> {
                    try (Progress progress = start("softmax", work)) {
                      runInParts(backend, x, results.all(), progress);
                    }
                  },
                  () -> runInParts(backend, x, results.all(), Progress.silent()),
                  backends.repeatSeconds());
          describeTime(report, work, time);
        });
  }

  private Progress start(String what, Progress.Work work) {
    return Progress.start(what, work, backends.progress(), spec.commandLine().getErr());
  }

  /** Runs in parts of whole rows, which do not depend on one another. */
  private void runInParts(
      Backend backend, Tensor x, Map<String, Tensor> results, Progress progress) {
    long size = x.rank() < 2 ? 1 : x.shape(0);
    long bytes = x.elements() * x.dtype().bytes();
    if (size <= 1 || bytes <= BYTES_OF_A_PART) {
      run(backend, x, results, progress, 0, 1);
      return;
    }
    long step = Math.max(1, BYTES_OF_A_PART / (bytes / size));
    for (long begin = 0; begin < size; begin += step) {
      long from = begin;
      long to = Math.min(begin + step, size);
      Map<String, Tensor> parts = new LinkedHashMap<>();
      results.forEach((name, tensor) -> parts.put(name, tensor.slice(0, from, to)));
      Tensor part = x.slice(0, from, to);
      run(backend, part, parts, progress, (double) from / size, (double) to / size);
    }
  }

  /** Runs the verbs, which take the progress from a share to another. */
  private void run(
      Backend backend,
      Tensor x,
      Map<String, Tensor> results,
      Progress progress,
      double from,
      double to) {
    Tensor logSumExp = results.get(LSE);
    double beforeLast = logSumExp == null || results.size() == 1 ? to : from + (to - from) * 2 / 3;
    progress.begin(from, beforeLast, backend::progress);
    Tensor values = results.get(VALUES);
    Tensor indices = results.get(INDICES);
    if (values != null && indices != null) {
      backend.topK(x, values, indices, results.get(PROBABILITIES));
    }
    Tensor output = results.get(OUTPUT);
    if (output != null && log) {
      backend.logSoftmax(x, output);
    } else if (output != null) {
      backend.softmax(x, output);
    }
    if (logSumExp != null) {
      progress.begin(results.size() == 1 ? from : beforeLast, to, backend::progress);
      backend.logSumExp(x, logSumExp);
    }
  }

  private static void describeTime(Report report, Progress.Work work, Stopwatch time) {
    double gbPerSecond = work.amount() / time.best();
    report.line("time", time.describe());
    report.field("time", time.json());
    report.line(
        "rate", Quantity.significant(gbPerSecond) + " GB/s (input read and results written once)");
    report.field("bytes", Math.round(work.amount() * 1e9));
    report.field("gbPerSecond", gbPerSecond);
  }

  /** Shows the largest elements of the first rows: index, value and probability. */
  private static void show(Report report, Results results, long rows) {
    Tensor values = results.get(VALUES);
    Tensor indices = results.get(INDICES);
    Tensor probabilities = results.get(PROBABILITIES);
    List<Map<String, Object>> shown = new ArrayList<>();
    for (long row = 0; row < Math.min(rows, SHOWN_ROWS); row++) {
      List<String> words = new ArrayList<>();
      List<Map<String, Object>> elements = new ArrayList<>();
      for (long i = 0; i < values.shape(-1); i++) {
        double value = values.at(Rows.offset(values, row) + i);
        long index = indices.longAt(Rows.offset(indices, row) + i);
        double probability = probabilities.at(Rows.offset(probabilities, row) + i);
        if (i < SHOWN_IN_WORDS) {
          String share =
              Double.isFinite(probability)
                  ? Quantity.rounded(100 * probability) + " %"
                  : Quantity.rounded(probability);
          words.add(index + ": " + Quantity.rounded(value) + " (" + share + ")");
        }
        Map<String, Object> element = new LinkedHashMap<>();
        element.put("index", index);
        element.put("value", value);
        element.put("probability", probability);
        elements.add(element);
      }
      String more = values.shape(-1) > SHOWN_IN_WORDS ? ", ..." : "";
      report.line("row " + row, String.join(", ", words) + more);
      Map<String, Object> json = new LinkedHashMap<>();
      json.put("row", row);
      json.put("largest", elements);
      shown.add(json);
    }
    if (rows > SHOWN_ROWS) {
      long rest = rows - SHOWN_ROWS;
      report.line("", rest + (rest == 1 ? " more row" : " more rows"));
    }
    report.field("rows", shown);
  }

  private void commit(Results results, Report report) throws IOException {
    try (Progress progress = start("write", Progress.Work.UNCOUNTED)) {
      results.commit(report, progress);
    }
  }
}
