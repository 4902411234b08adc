package dev.foldmax.cli;

import dev.foldmax.Attention;
import dev.foldmax.AttentionPartial;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;
import dev.foldmax.io.PartialFile;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** An attention over a part of its keys, on its way to a file. */
final class AttendPart {
  private static final long CACHE_LINE = 64;

  private final PartOptions.Range keys;
  private final AttendInputs inputs;
  private final Layout layout;
  private final Attention attention;

  AttendPart(PartOptions options, AttendInputs inputs, Layout layout, Attention attention) {
    this.keys = options.keys(inputs.keys());
    this.inputs = inputs;
    this.layout = layout;
    this.attention = attention;
  }

  /** All keys, or those that the files have: they must then be these. */
  private KeyValues keyValues() {
    Tensor k = inputs.view(Role.K);
    Tensor v = inputs.view(Role.V);
    KeyValues held;
    if (k.shape(2) == inputs.keys()) {
      held = KeyValues.dense(k, v);
    } else if (k.shape(2) == keys.end() - keys.begin()) {
      held = KeyValues.slice(k, v, keys.begin(), inputs.keys());
    } else {
      throw inputs.expectedKeys(
          "%d keys, those of --keys %s, or all %d"
              .formatted(keys.end() - keys.begin(), keys, inputs.keys()));
    }
    Tensor keyScales = inputs.scales(Role.K_SCALE);
    Tensor valueScales = inputs.scales(Role.V_SCALE);
    return keyScales == null && valueScales == null ? held : held.scales(keyScales, valueScales);
  }

  /** What the merge has to know of the files of a result. */
  private Map<String, String> results() {
    Map<String, String> results = new LinkedHashMap<>();
    results.put(ResultShape.LAYOUT, Choice.nameOf(layout));
    results.put(ResultShape.RANK, Integer.toString(inputs.outputShape().length));
    results.put(ResultShape.OUTPUT, inputs.outputType().name());
    results.put(ResultShape.LSE, inputs.lseType().name());
    return results;
  }

  /**
   * Computes the part and writes it.
   *
   * @param files those of the inputs
   * @param partialFile where its states go, or null to finish it into {@code outputs}
   */
  void run(
      InputFiles files,
      Backend backend,
      @Nullable Path partialFile,
      List<OutputFile> outputs,
      Report report)
      throws IOException {
    report.backend(backend);
    if (!backend.servesPartials()) {
      throw new Failure(
          backend.name() + " serves no part of the keys; --backend cpu and reference do");
    }
    KeyValues keyValues = keyValues();
    try (Arena arena = Arena.ofShared()) {
      List<AttentionPartial> made = new ArrayList<>();
      List<Stopwatch> times = new ArrayList<>();
      files.whileUnchanged(
          () -> {
            Stopwatch time =
                Stopwatch.time(
                    () ->
                        made.add(
                            backend.attendPartial(
                                arena,
                                inputs.view(Role.Q),
                                keyValues,
                                attention,
                                keys.begin(),
                                keys.end())),
                    () -> {},
                    0.0);
            times.add(time);
          });
      Stopwatch time = times.getFirst();
      AttentionPartial partial = made.getFirst().define(results());
      describe(partial, report);
      report.line("time", time.describe());
      report.field("time", time.json());
      if (partialFile != null) {
        PartialFile.write(partialFile, partial);
        String pieces = Quantity.tensor(partial.outputs());
        report.line(
            "wrote", partialFile + ": states of (pieces, batch, heads, queries), " + pieces);
        report.field("written", List.of(partialFile.toString()));
      } else {
        finish(backend, arena, partial, outputs, report);
      }
    }
  }

  private static void describe(AttentionPartial partial, Report report) {
    String range = partial.keyBegin() + ".." + partial.keyEnd();
    report.line("keys", range + " of " + partial.totalKeys());
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("begin", partial.keyBegin());
    json.put("end", partial.keyEnd());
    json.put("total", partial.totalKeys());
    long cell = partial.fold().cellKeys();
    json.put("cell", cell);
    report.field("keys", json);
    for (long cut : new long[] {partial.keyBegin(), partial.keyEnd()}) {
      if (cell > 0 && cut % cell != 0 && cut != partial.totalKeys()) {
        report.line(
            "  not exact",
            "the cut at %d is no multiple of %d: the merged result is right up to rounding"
                .formatted(cut, cell));
      }
    }
  }

  private void finish(
      Backend backend,
      Arena arena,
      AttentionPartial partial,
      List<OutputFile> outputs,
      Report report)
      throws IOException {
    long[] shape = inputs.outputShape();
    Tensor output = allocate(arena, inputs.outputType(), shape);
    Tensor lse = allocate(arena, inputs.lseType(), Arrays.copyOf(shape, shape.length - 1));
    backend.finishPart(List.of(partial), layout.view(output), layout.viewWithoutDim(lse));
    List<String> written = new ArrayList<>();
    for (OutputFile file : outputs) {
      Map<String, Tensor> contents = new LinkedHashMap<>();
      if (file.option().equals("--out")) {
        contents.put("output", output);
      }
      if (file.option().equals("--lse") || file.isSafeTensors()) {
        contents.put("lse", lse);
      }
      if (file.isSafeTensors()) {
        FinishedPart.write(file.path(), partial, contents);
      } else {
        file.write(contents);
      }
      written.add(file.path().toString());
      report.line("wrote", file.describe(contents));
    }
    report.field("written", written);
  }

  /** A new tensor outside of the Java heap, whose default size should not bound a result. */
  static Tensor allocate(Arena arena, DType dtype, long... shape) {
    long bytes = dtype.bytes();
    for (long size : shape) {
      bytes = Math.multiplyExact(bytes, size);
    }
    return Tensor.of(arena.allocate(bytes, CACHE_LINE), dtype, shape);
  }
}
