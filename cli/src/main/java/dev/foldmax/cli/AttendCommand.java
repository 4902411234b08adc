package dev.foldmax.cli;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.KernelChoice;
import dev.foldmax.Phase;
import dev.foldmax.Tensor;
import dev.foldmax.io.SafeTensors.Description;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Attention over the tensors of files. */
@Command(
    name = "attend",
    sortOptions = false,
    description = {
      "Computes attention over tensors in files, exactly, without ever holding the scores.",
      "",
      "Input: one .safetensors file with the tensors q, k and v and, if there are such, bias, mask,"
          + " sinks, slopes, k_scale, v_scale and expected; or .npy files by options. Shapes are"
          + " (batch, heads, length, dim), (heads, length, dim) or (length, dim), of one rank; the"
          + " heads of q are a multiple of those of k and v.",
      "",
      "Files may be larger than memory: they are mapped, keys and values are read in one pass, and"
          + " results are computed in their files, which get their names when they are whole.",
      ""
    },
    footer = {
      "",
      "--check compares with the float64 reference backend: all rows, or a sample of them where all"
          + " would take it more than seconds. It passes errors up to"
          + " 4 ulp(V) + u V (16 + sqrt(keys) + 4 S): V is the largest |v|, ulp that of the output's"
          + " type, u 2^-24 (2^-53 for float64 input), S the size of scores, |scale| |q| max|k| +"
          + " |logsumexp|. An expected output has errors of its own and gets twice that. A number on"
          + " one side and none on the other is always an error.",
      "",
      "Examples:",
      "  foldmax attend sample.safetensors --check",
      "  foldmax attend sample.safetensors --causal --window 4096,0 --softcap 50 --out o.safetensors",
      "  foldmax attend --q q.npy --k k.npy --v v.npy --causal=top-left --mask m.npy --out o.npy",
      "  foldmax attend layer.safetensors --tensor q=query --tensor k=key \\",
      "      --tensor v=value --layout blhd --lse lse.npy",
      "  foldmax attend cache.safetensors --phase decode --threads 2 --json",
      "  foldmax attend cache.safetensors --keys ..3072 --partial a.safetensors"
    })
final class AttendCommand implements Callable<Integer> {
  /** What a call reads and writes at most, as far as it can be cut: a device may hold no more. */
  private static final double BYTES_OF_A_PART = 0x1p32;

  private static final String OUTPUT = "output";
  private static final String LSE = "lse";

  @Spec private CommandSpec spec;
  @Mixin private TensorOptions tensors;
  @Mixin private AttentionOptions options;

  @Option(
      names = "--out",
      paramLabel = "FILE",
      description =
          "Writes the output in q's type, BF16 as F32 in an .npy file; a safetensors file holds it"
              + " as output, and the logsumexp as lse.")
  private @Nullable Path out;

  @Option(
      names = "--lse",
      paramLabel = "FILE",
      description = "Writes the natural logsumexp of each query's scores, F32 (F64 for F64 input).")
  private @Nullable Path lse;

  @Option(
      names = "--check",
      description =
          "Compares with the reference backend, and with the tensor expected if there is one; see"
              + " below.")
  private boolean check;

  @Mixin private PartOptions part;
  @Mixin private BackendOptions backends;
  @Mixin private CommonOptions common;

  @Override
  public Integer call() throws IOException {
    tensors.validate(check);
    options.validate();
    part.validate(out, lse, check);
    backends.validate();
    List<OutputFile> outputs = OutputFile.of(spec.commandLine(), out, lse, tensors.paths());
    Path partial = part.partial();
    if (partial != null) {
      outputs.add(OutputFile.partial(spec.commandLine(), partial, tensors.paths()));
    }
    outputs.forEach(OutputFile::checkPlace);

    try (InputFiles files = new InputFiles()) {
      AttendInputs inputs = tensors.read(files, part.totalKeys());
      Attention attention = options.attention(inputs);
      Report report = new Report("foldmax attend " + tensors.title());
      describe(report, inputs, attention);
      if (part.isAsked()) {
        try (Backend backend = backends.open()) {
          new AttendPart(part, inputs, tensors.layout(), attention)
              .run(files, backend, partial, outputs, report);
        }
        report.print(spec.commandLine().getOut(), common.json);
        return 0;
      }

      try (Results results = results(outputs, inputs)) {
        AttendJob job =
            new AttendJob(
                inputs.view(Role.Q),
                inputs.view(Role.K),
                inputs.view(Role.V),
                inputs.scales(Role.K_SCALE),
                inputs.scales(Role.V_SCALE),
                attention,
                tensors.layout().view(results.get(OUTPUT)),
                tensors.layout().viewWithoutDim(results.get(LSE)));
        files.whileUnchanged(() -> compute(job, report));
        commit(results, report);
        List<String> failures = check ? check(job, inputs.expected(), report) : List.of();
        report.print(spec.commandLine().getOut(), common.json);
        if (!failures.isEmpty()) {
          throw new Failure("the check failed: " + String.join("; ", failures));
        }
        return 0;
      }
    }
  }

  /** Places for the output and the logsumexp. */
  private static Results results(List<OutputFile> outputs, AttendInputs inputs) throws IOException {
    Map<OutputFile, Collection<String>> contents = new LinkedHashMap<>();
    for (OutputFile file : outputs) {
      List<String> names = new ArrayList<>();
      if (file.option().equals("--out")) {
        names.add(OUTPUT);
      }
      if (file.option().equals("--lse") || file.isSafeTensors()) {
        names.add(LSE);
      }
      contents.put(file, names);
    }
    long[] shape = inputs.outputShape();
    Map<String, Description> descriptions = new LinkedHashMap<>();
    descriptions.put(OUTPUT, Results.describe(inputs.outputType(), shape));
    descriptions.put(
        LSE, Results.describe(inputs.lseType(), Arrays.copyOf(shape, shape.length - 1)));
    return new Results(contents, descriptions);
  }

  private void commit(Results results, Report report) throws IOException {
    try (Progress progress = start("write", Progress.Work.UNCOUNTED)) {
      results.commit(report, progress);
    }
  }

  private Progress start(String what, Progress.Work work) {
    return Progress.start(what, work, backends.progress(), spec.commandLine().getErr());
  }

  private void describe(Report report, AttendInputs inputs, Attention attention) {
    for (Role role : Role.values()) {
      Tensor tensor = inputs.tensor(role);
      if (tensor != null) {
        report.line(role.tensorName(), Quantity.tensor(tensor));
        report.field(role.tensorName(), Report.json(tensor));
      }
    }
    options.describe(report, attention, inputs.view(Role.Q).shape(3));
  }

  private void compute(AttendJob job, Report report) {
    try (Backend backend = backends.open()) {
      KernelChoice choice = job.explain(backend);
      describe(report, backend, choice, job.attention().phase());
      Stopwatch time =
          Stopwatch.time(
              () -> runWatched(job, backend),
              () -> run(job, backend, Progress.silent()),
              backends.repeatSeconds());
      report.line("time", time.describe());
      report.field("time", time.json());
      describeRate(report, job, time.best());
    }
  }

  private void describe(Report report, Backend backend, KernelChoice choice, Phase phase) {
    report.backend(backend);
    List<Map<String, String>> declined = new ArrayList<>();
    for (KernelChoice.Declined other : choice.declined()) {
      Map<String, String> json = new LinkedHashMap<>();
      json.put("kernel", other.kernel());
      json.put("reason", other.reason());
      declined.add(json);
    }
    String kernel = choice.kernel();
    if (kernel == null) {
      throw new Failure(
          backend.name() + " does not serve this attention: " + String.join("; ", reasons(choice)));
    }
    report.line("kernel", kernel);
    boolean otherThanAsked = phase == Phase.DECODE && !kernel.contains("decode");
    if (common.verbose || otherThanAsked) {
      reasons(choice).forEach(reason -> report.line("  not", reason));
    }
    report.field("kernel", kernel);
    report.field("declined", declined);
  }

  private static List<String> reasons(KernelChoice choice) {
    return choice.declined().stream().map(other -> other.kernel() + ": " + other.reason()).toList();
  }

  private static void describeRate(Report report, AttendJob job, double seconds) {
    double operations = job.operations();
    double bytes = job.bytes();
    report.field("operations", (long) operations);
    report.field("bytes", (long) bytes);
    report.field("gflopPerSecond", operations / seconds * 1e-9);
    report.field("gbPerSecond", bytes / seconds * 1e-9);
    report.line(
        "rate",
        job.isDecode()
            ? Quantity.significant(bytes / seconds * 1e-9)
                + " GB/s (decode: each key and value read once)"
            : Quantity.significant(operations / seconds * 1e-9) + " GFLOP/s");
  }

  private void runWatched(AttendJob job, Backend backend) {
    Progress.Work work =
        job.isDecode()
            ? new Progress.Work(job.bytes() * 1e-9, "GB")
            : new Progress.Work(job.operations() * 1e-9, "GFLOP");
    try (Progress progress = start("attend", work)) {
      run(job, backend, progress);
    }
  }

  private static void run(AttendJob job, Backend backend, Progress progress) {
    double parts = job.bytes() / BYTES_OF_A_PART;
    if (parts > 1) {
      job.runInParts(backend, parts, progress);
    } else {
      progress.begin(0, 1, backend::progress);
      job.run(backend);
    }
  }

  private List<String> check(AttendJob job, @Nullable Tensor expected, Report report) {
    Check result;
    try (Progress progress = start("check", Progress.Work.UNCOUNTED)) {
      result = new Check(job, expected).run(progress);
    }
    String rows =
        result.isComplete()
            ? "all " + result.rows() + " rows"
            : "a sample of " + result.rows() + " of " + job.lse().elements() + " rows";
    report.line("check", "against the reference, " + rows);
    report.line("  output", result.output().describe());
    report.line("  lse", result.logSumExp().describe());
    Map<String, @Nullable Object> json = new LinkedHashMap<>();
    json.put("rows", result.rows());
    json.put("allRows", result.isComplete());
    json.put("output", result.output().json());
    json.put("lse", result.logSumExp().json());
    Errors expectedErrors = result.expectedOutput();
    if (expectedErrors != null) {
      report.line("  expected", expectedErrors.describe());
      json.put("expected", expectedErrors.json());
    }
    json.put("passed", result.failures().isEmpty());
    report.field("check", json);
    return result.failures();
  }
}
