package dev.foldmax.cli;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import dev.foldmax.spi.Rows;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
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
          + " the logsumexp, or the k largest elements with their probabilities. Without --out, --lse"
          + " and --top-k it shows the largest of the first rows.",
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
  /** Elements between two steps of the progress bar. */
  private static final long ELEMENTS_OF_A_PART = 1L << 26;

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
        OffHeap memory = new OffHeap();
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

      Map<String, Tensor> results = allocate(x, memory);
      Stopwatch time =
          Stopwatch.time(
              () -> runInParts(backend, x, results),
              () -> run(backend, x, results),
              backends.repeatSeconds());
      describeTime(report, x, results, time);
      Tensor values = results.get(VALUES);
      Tensor indices = results.get(INDICES);
      Tensor probabilities = results.get(PROBABILITIES);
      if (values != null && indices != null && probabilities != null) {
        show(report, values, indices, probabilities);
      }
      write(outputs, results, report);
      report.print(spec.commandLine().getOut(), common.json);
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

  private Map<String, Tensor> allocate(Tensor x, OffHeap memory) {
    DType wide = x.dtype() == DType.F64 ? DType.F64 : DType.F32;
    Map<String, Tensor> results = new LinkedHashMap<>();
    int k = largest(x);
    if (k > 0) {
      long[] shape = x.shape();
      shape[shape.length - 1] = k;
      results.put(VALUES, memory.allocate(x.dtype(), shape));
      results.put(INDICES, memory.allocate(DType.I64, shape));
      results.put(PROBABILITIES, memory.allocate(wide, shape));
    } else if (out != null) {
      results.put(OUTPUT, memory.allocate(x.dtype(), x.shape()));
    }
    if (lse != null) {
      results.put(LSE, memory.allocate(wide, Arrays.copyOf(x.shape(), x.rank() - 1)));
    }
    return results;
  }

  private void run(Backend backend, Tensor x, Map<String, Tensor> results) {
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
    Tensor logSumExp = results.get(LSE);
    if (logSumExp != null) {
      backend.logSumExp(x, logSumExp);
    }
  }

  /** Runs in parts where someone watches the progress; rows do not depend on one another. */
  private void runInParts(Backend backend, Tensor x, Map<String, Tensor> results) {
    try (Progress progress = Progress.start("softmax", spec.commandLine().getErr())) {
      if (!progress.isVisible() || x.rank() < 2 || x.elements() <= ELEMENTS_OF_A_PART) {
        run(backend, x, results);
        return;
      }
      long size = x.shape(0);
      long step = Math.max(1, ELEMENTS_OF_A_PART / (x.elements() / size));
      for (long begin = 0; begin < size; begin += step) {
        long from = begin;
        long to = Math.min(begin + step, size);
        Map<String, Tensor> parts = new LinkedHashMap<>();
        results.forEach((name, tensor) -> parts.put(name, tensor.slice(0, from, to)));
        run(backend, x.slice(0, from, to), parts);
        progress.reach((double) to / size);
      }
    }
  }

  private static void describeTime(
      Report report, Tensor x, Map<String, Tensor> results, Stopwatch time) {
    long bytes = x.elements() * x.dtype().bytes();
    for (Tensor result : results.values()) {
      bytes += result.elements() * result.dtype().bytes();
    }
    report.line("time", time.describe());
    report.field("time", time.json());
    report.line(
        "rate",
        Quantity.significant(bytes / time.best() * 1e-9)
            + " GB/s (input read and results written once)");
    report.field("bytes", bytes);
    report.field("gbPerSecond", bytes / time.best() * 1e-9);
  }

  /** Shows the largest elements of the first rows: index, value and probability. */
  private static void show(Report report, Tensor values, Tensor indices, Tensor probabilities) {
    List<Map<String, Object>> shown = new ArrayList<>();
    long rows = Rows.count(values);
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

  private void write(List<OutputFile> outputs, Map<String, Tensor> results, Report report)
      throws IOException {
    List<String> written = new ArrayList<>();
    for (OutputFile file : outputs) {
      Map<String, Tensor> contents = new LinkedHashMap<>(results);
      boolean isOut = file.option().equals("--out");
      if (!isOut) {
        contents.keySet().retainAll(Set.of(LSE));
      } else if (outputs.size() > 1) {
        contents.remove(LSE);
      }
      file.write(contents);
      written.add(file.path().toString());
      report.line("wrote", file.describe(contents));
    }
    report.field("written", written);
  }
}
