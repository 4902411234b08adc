package dev.foldmax.cli;

import static java.util.Comparator.comparingLong;

import dev.foldmax.AttentionPartial;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import dev.foldmax.io.SafeTensors;
import dev.foldmax.spi.KeyRange;
import dev.foldmax.spi.PartialSet;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** The result of an attention from its parts. */
@Command(
    name = "merge",
    sortOptions = false,
    description = {
      "Merges parts of an attention, each over some of its keys, into the result over all of them.",
      "",
      "Parts are files of foldmax attend --keys A..B, in any order: all of --partial, or all of"
          + " --finished. They must be of one attention and leave no gap and no overlap. Partials"
          + " that were cut at cells, multiples of 1536 keys, give the bits of a single run.",
      "",
      "Results of other systems merge as finished parts: .safetensors files with output and lse, or"
          + " .npy files in pairs, an output and its natural logsumexp. Nothing says which keys they"
          + " are over, so gaps and overlaps go unseen.",
      ""
    },
    footer = {
      "",
      "Examples:",
      "  foldmax attend x.safetensors --causal --keys ..3072 --partial a.safetensors",
      "  foldmax attend x.safetensors --causal --keys 3072.. --partial b.safetensors",
      "  foldmax merge a.safetensors b.safetensors --out result.safetensors",
      "  foldmax merge o1.npy lse1.npy o2.npy lse2.npy --out o.npy --lse lse.npy"
    })
final class MergeCommand implements Callable<Integer> {
  @Spec private CommandSpec spec;

  @Parameters(arity = "1..*", paramLabel = "FILE", description = "The parts.")
  private List<Path> files = new ArrayList<>();

  @Option(
      names = "--out",
      paramLabel = "FILE",
      description =
          "Writes the output; a safetensors file holds it as output, and the logsumexp as lse."
              + " Without --out and --lse the parts are checked alone.")
  private @Nullable Path out;

  @Option(names = "--lse", paramLabel = "FILE", description = "Writes the natural logsumexp.")
  private @Nullable Path lse;

  @Option(
      names = "--threads",
      paramLabel = "N",
      description = "Threads of the CPU backend; all cores without it.")
  private @Nullable Integer threads;

  @Mixin private CommonOptions common;

  @Override
  public Integer call() throws IOException {
    if (threads != null && threads < 1) {
      throw wrong("--threads: expected at least 1, got " + threads);
    }
    boolean pairs = areNpy();
    List<OutputFile> outputs = OutputFile.of(spec.commandLine(), out, lse, files);
    outputs.forEach(OutputFile::checkPlace);
    Report report =
        new Report("foldmax merge, parts: " + (pairs ? files.size() / 2 : files.size()));
    try (InputFiles inputs = new InputFiles();
        Arena arena = Arena.ofShared()) {
      Map<String, Tensor> results = new LinkedHashMap<>();
      inputs.whileUnchanged(
          () ->
              results.putAll(
                  pairs ? mergePairs(inputs, arena, report) : mergeFiles(inputs, arena, report)));
      write(outputs, results, report);
    }
    report.print(spec.commandLine().getOut(), common.json);
    return 0;
  }

  private ParameterException wrong(String message) {
    return new ParameterException(spec.commandLine(), message);
  }

  /** Whether the files are pairs of .npy files, not .safetensors files. */
  private boolean areNpy() {
    long npy = files.stream().filter(InputFiles::isNpy).count();
    for (Path file : files) {
      if (!InputFiles.isNpy(file) && !InputFiles.isSafeTensors(file)) {
        throw wrong("expected files that end in .safetensors or .npy, got " + file);
      }
    }
    if (npy > 0 && npy < files.size()) {
      throw wrong("expected either .safetensors files or pairs of .npy files, got both");
    }
    if (npy % 2 != 0) {
      throw wrong(
          "expected .npy files in pairs, an output and its logsumexp, got "
              + npy
              + ", the last "
              + files.getLast());
    }
    return npy > 0;
  }

  private Map<String, Tensor> mergePairs(InputFiles inputs, Arena arena, Report report)
      throws IOException {
    List<FinishedPart> parts = new ArrayList<>();
    for (int i = 0; i < files.size(); i += 2) {
      Path output = files.get(i);
      Path logSumExp = files.get(i + 1);
      parts.add(
          new FinishedPart(
              output + ", " + logSumExp,
              inputs.npy(output, "output").tensor(),
              inputs.npy(logSumExp, "lse").tensor(),
              null));
    }
    return merge(parts, arena, report);
  }

  private Map<String, Tensor> mergeFiles(InputFiles inputs, Arena arena, Report report)
      throws IOException {
    List<AttentionPartial> partials = new ArrayList<>();
    List<FinishedPart> finished = new ArrayList<>();
    for (Path path : files) {
      SafeTensors file = inputs.safeTensors(path);
      if (AttentionPartial.isPartial(file.metadata())) {
        partials.add(inputs.partial(path).partial());
      } else {
        finished.add(FinishedPart.of(path, file));
      }
      if (!partials.isEmpty() && !finished.isEmpty()) {
        throw new Failure(
            path + ": expected partials alone or finished parts alone, unlike " + files.getFirst());
      }
    }
    return finished.isEmpty() ? finish(partials, arena, report) : merge(finished, arena, report);
  }

  /** From unfinished states. */
  private Map<String, Tensor> finish(List<AttentionPartial> partials, Arena arena, Report report) {
    PartialSet set = PartialSet.of(partials, i -> files.get(i).toString(), true);
    ResultShape shape = ResultShape.of(partials.getFirst(), files.getFirst().toString());
    Tensor output = AttendPart.allocate(arena, shape.outputType(), shape.output());
    Tensor logSumExp = AttendPart.allocate(arena, shape.lseType(), shape.lse());
    try (Backend backend = open(set.fold().backend())) {
      report.backend(backend);
      describe(report, partials.getFirst().totalKeys());
      String why = set.whyRounded();
      report.line("bits", why == null ? "those of a single run" : "right up to rounding: " + why);
      report.field("exact", why == null);
      report.field("notExactBecause", why);
      backend.finish(partials, shape.view(output), shape.viewWithoutDim(logSumExp));
    }
    return results(output, logSumExp);
  }

  private static void describe(Report report, long keys) {
    report.line("keys", "all " + keys + ", each once");
    report.field("keys", keys);
  }

  private static Map<String, Tensor> results(Tensor output, Tensor logSumExp) {
    Map<String, Tensor> results = new LinkedHashMap<>();
    results.put("output", output);
    results.put("lse", logSumExp);
    return results;
  }

  /** From finished parts. */
  private Map<String, Tensor> merge(List<FinishedPart> parts, Arena arena, Report report) {
    FinishedPart first = parts.getFirst();
    for (FinishedPart part : parts) {
      if (!part.output().hasShapeOf(first.output())) {
        throw new Failure(
            part.name()
                + ": output is "
                + Quantity.tensor(part.output())
                + ", expected the shape of that of "
                + first.name()
                + ", "
                + Quantity.tensor(first.output()));
      }
    }
    List<KeyRange> ranges =
        parts.stream().map(FinishedPart::range).filter(Objects::nonNull).toList();
    if (ranges.size() < parts.size()) {
      checkKnown(ranges);
    }
    if (ranges.size() == parts.size()) {
      KeyRange.order(ranges, true);
      describe(report, ranges.getFirst().total());
    } else {
      FinishedPart unknown =
          parts.stream().filter(part -> part.range() == null).findFirst().orElseThrow();
      report.line(
          "keys", "not known of " + unknown.name() + ": gaps and overlaps would not be seen");
      report.field("keys", null);
    }
    DType lseType =
        parts.stream().anyMatch(part -> part.lse().dtype() == DType.F64) ? DType.F64 : DType.F32;
    Tensor output = AttendPart.allocate(arena, first.output().dtype(), first.output().shape());
    Tensor logSumExp = AttendPart.allocate(arena, lseType, first.lse().shape());
    try (Backend backend = open("cpu")) {
      report.backend(backend);
      report.line("bits", "right up to rounding: the parts are finished");
      report.field("exact", false);
      report.field("notExactBecause", "the parts are finished");
      backend.merge(
          parts.stream().map(FinishedPart::output).toList(),
          parts.stream().map(FinishedPart::lse).toList(),
          output,
          logSumExp);
    }
    return results(output, logSumExp);
  }

  /** Checks parts between which others may lie: of one attention, and no key twice. */
  private static void checkKnown(List<KeyRange> known) {
    if (known.isEmpty()) {
      return;
    }
    KeyRange first = known.getFirst();
    List<KeyRange> all = new ArrayList<>(known);
    long covered = 0;
    for (KeyRange range : known.stream().sorted(comparingLong(KeyRange::begin)).toList()) {
      if (range.begin() > covered) { // filled, as if another part had these keys
        all.add(new KeyRange("", first.definition(), covered, range.begin(), first.total()));
      }
      covered = Math.max(covered, range.end());
    }
    KeyRange.order(all, false);
  }

  private Backend open(String name) {
    return switch (name) {
      case "cpu" -> threads == null ? Backend.cpu() : Backend.cpu(threads);
      case "reference" -> Backend.reference();
      default ->
          throw new Failure(
              files.getFirst() + ": is of the backend " + name + ", expected cpu or reference");
    };
  }

  private static void write(List<OutputFile> outputs, Map<String, Tensor> results, Report report)
      throws IOException {
    List<String> written = new ArrayList<>();
    for (OutputFile file : outputs) {
      Map<String, Tensor> contents = new LinkedHashMap<>(results);
      if (!file.isSafeTensors()) {
        contents.remove(file.option().equals("--out") ? "lse" : "output");
      } else if (file.option().equals("--lse")) {
        contents.remove("output");
      }
      file.write(contents);
      written.add(file.path().toString());
      report.line("wrote", file.describe(contents));
    }
    report.field("written", written);
  }
}
