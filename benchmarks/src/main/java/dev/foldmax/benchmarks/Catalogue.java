package dev.foldmax.benchmarks;

import static dev.foldmax.benchmarks.Storage.BF16;
import static dev.foldmax.benchmarks.Storage.F16;
import static dev.foldmax.benchmarks.Storage.F32;
import static dev.foldmax.benchmarks.Storage.F32_NATIVE;
import static dev.foldmax.benchmarks.Storage.F64;
import static dev.foldmax.benchmarks.Storage.I8;
import static dev.foldmax.benchmarks.Variant.CAUSAL;
import static dev.foldmax.benchmarks.Variant.FULL;

import dev.foldmax.DType;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** What the tables hold, in their order. */
final class Catalogue {
  private static final String PREFILL = "Prefill";
  private static final String DECODE = "Decode";
  private static final String SCORES = "Masks, bias, caps";
  private static final String ROWS = "Rows";
  private static final String MERGE = "Merge";

  private static final int MERGE_PARTIALS = 8;
  private static final int MERGE_ROWS = 4096;
  private static final int MERGE_DIM = 128;

  private Catalogue() {}

  /** The attentions of prefill. */
  static List<AttentionCase> prefill() {
    List<AttentionCase> cases = new ArrayList<>();
    for (int dim : new int[] {64, 128}) {
      for (int length : new int[] {128, 512, 2048}) {
        cases.add(square(8, 8, length, dim, F32, FULL));
        cases.add(square(8, 8, length, dim, F32, CAUSAL));
      }
    }
    for (int dim : new int[] {40, 80, 96, 256}) {
      cases.add(square(8, 8, 1024, dim, F32, FULL));
      cases.add(square(8, 8, 1024, dim, F32, CAUSAL));
    }
    cases.add(square(32, 8, 1024, 128, F32, CAUSAL));
    cases.add(new AttentionCase(8, 8, 32, 4096, 128, F32, CAUSAL));
    for (Storage storage : new Storage[] {BF16, F16, I8}) {
      cases.add(square(8, 8, 1024, 128, storage, CAUSAL));
    }
    cases.add(square(8, 8, 512, 64, F64, FULL));
    cases.add(square(8, 8, 512, 64, F64, CAUSAL));
    return cases;
  }

  /** The attentions of decoding. */
  static List<AttentionCase> decode() {
    List<AttentionCase> cases = new ArrayList<>();
    for (int keyHeads : new int[] {32, 8}) {
      for (int keys : new int[] {1024, 8192}) {
        for (Storage storage : new Storage[] {F32, F32_NATIVE, BF16, F16, I8}) {
          cases.add(new AttentionCase(32, keyHeads, 1, keys, 128, storage, FULL));
        }
      }
    }
    for (int queries : new int[] {4, 16}) {
      cases.add(new AttentionCase(32, 8, queries, 8192, 128, F32, CAUSAL));
    }
    return cases;
  }

  /** The attentions that change or mask scores. */
  static List<AttentionCase> scores() {
    List<AttentionCase> cases = new ArrayList<>();
    cases.add(square(8, 8, 4096, 64, F32, Variant.WINDOW));
    for (Variant variant :
        new Variant[] {Variant.BOOLEAN, Variant.BIAS, Variant.SOFT_CAP, Variant.ALIBI}) {
      cases.add(square(8, 8, 1024, 64, F32, variant));
    }
    return cases;
  }

  /** The verbs on rows. */
  static List<RowCase> rows() {
    List<RowCase> cases = new ArrayList<>();
    for (RowVerb verb : RowVerb.values()) {
      cases.add(new RowCase(4096, 1024, DType.F32, verb));
      cases.add(new RowCase(1024, 32_768, DType.F32, verb));
      cases.add(new RowCase(16, 1 << 20, DType.F32, verb));
    }
    for (RowVerb verb : new RowVerb[] {RowVerb.SOFTMAX, RowVerb.LOG_SUM_EXP, RowVerb.SAMPLE}) {
      cases.add(new RowCase(1024, 32_768, DType.BF16, verb));
    }
    return cases;
  }

  /** All lines for each of the given numbers of threads. */
  static List<Line> lines(List<Integer> threads) {
    List<Line> lines = new ArrayList<>();
    for (AttentionCase shape : prefill()) {
      threads.forEach(t -> lines.add(attention(PREFILL, shape, t)));
    }
    for (AttentionCase shape : decode()) {
      threads.forEach(t -> lines.add(attention(DECODE, shape, t)));
    }
    for (AttentionCase shape : scores()) {
      threads.forEach(t -> lines.add(attention(SCORES, shape, t)));
    }
    for (RowCase shape : rows()) {
      threads.forEach(t -> lines.add(row(shape, t)));
    }
    threads.forEach(t -> lines.add(merge(MERGE_PARTIALS, MERGE_ROWS, MERGE_DIM, t)));
    return lines;
  }

  private static AttentionCase square(
      int heads, int keyHeads, int length, int dim, Storage storage, Variant variant) {
    return new AttentionCase(heads, keyHeads, length, length, dim, storage, variant);
  }

  /** The line of an attention; decoding is bound by memory, the rest by multiply-adds. */
  static Line attention(String section, AttentionCase shape, int threads) {
    boolean decode = section.equals(DECODE);
    Ceiling peak = shape.storage() == F64 ? Ceiling.FMA_F64 : Ceiling.FMA_F32;
    return new Line(
        section,
        name(shape),
        threads,
        AttendBenchmark.class,
        Map.of(
            "heads", Integer.toString(shape.heads()),
            "keyHeads", Integer.toString(shape.keyHeads()),
            "queries", Integer.toString(shape.queries()),
            "keys", Integer.toString(shape.keys()),
            "dim", Integer.toString(shape.dim()),
            "storage", shape.storage().name(),
            "variant", shape.variant().name()),
        decode ? shape.bytes() : shape.flops(),
        decode ? Ceiling.READ : peak);
  }

  private static String name(AttentionCase shape) {
    String heads = "H " + shape.heads();
    String lengths = "L " + shape.keys();
    if (shape.heads() != shape.keyHeads()) {
      heads += "/" + shape.keyHeads();
    }
    if (shape.queries() != shape.keys()) {
      lengths = "Lq " + shape.queries() + " Lk " + shape.keys();
    }
    return String.join(
        " ", heads, lengths, "D " + shape.dim(), shape.storage().label(), shape.variant().label());
  }

  /** The line of a verb on rows. */
  static Line row(RowCase shape, int threads) {
    return new Line(
        ROWS,
        shape.verb().label()
            + " "
            + shape.rows()
            + " x "
            + shape.columns()
            + (shape.dtype() == DType.F32 ? " f32" : " bf16"),
        threads,
        RowBenchmark.class,
        Map.of(
            "rows", Integer.toString(shape.rows()),
            "columns", Integer.toString(shape.columns()),
            "dtype", shape.dtype().name(),
            "verb", shape.verb().name()),
        shape.bytes(),
        shape.verb().isMap() ? Ceiling.COPY : Ceiling.READ);
  }

  /** The line of a merge. */
  static Line merge(int partials, int rows, int dim, int threads) {
    return new Line(
        MERGE,
        partials + " partials, " + rows + " x " + dim + " f32",
        threads,
        MergeBenchmark.class,
        Map.of(
            "partials", Integer.toString(partials),
            "rows", Integer.toString(rows),
            "dim", Integer.toString(dim)),
        MergeWorkload.bytes(partials, rows, dim),
        Ceiling.READ);
  }
}
