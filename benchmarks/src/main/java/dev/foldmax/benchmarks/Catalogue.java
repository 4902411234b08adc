package dev.foldmax.benchmarks;

import static dev.foldmax.benchmarks.Storage.BF16;
import static dev.foldmax.benchmarks.Storage.F16;
import static dev.foldmax.benchmarks.Storage.F32;
import static dev.foldmax.benchmarks.Storage.F32_NATIVE;
import static dev.foldmax.benchmarks.Storage.F64;
import static dev.foldmax.benchmarks.Storage.I8;
import static dev.foldmax.benchmarks.Variant.CAUSAL;
import static dev.foldmax.benchmarks.Variant.WINDOW;

import dev.foldmax.DType;
import java.util.ArrayList;
import java.util.List;

/** What the tables hold, in their order. */
final class Catalogue {
  private static final String PREFILL = "Prefill";
  private static final String DECODE = "Decode";
  private static final String SCORES = "Masks, bias, caps";
  private static final String ROWS = "Rows";
  private static final String MERGE = "Merge";

  private static final int HEADS = 8;

  private Catalogue() {}

  /** The attentions of prefill. */
  static List<AttentionCase> prefill() {
    List<AttentionCase> cases = new ArrayList<>();
    for (int dim : new int[] {64, 128}) {
      for (int length : new int[] {128, 512, 2048, 4096}) {
        cases.add(AttentionCase.square(HEADS, length, dim));
        cases.add(AttentionCase.square(HEADS, length, dim).variant(CAUSAL));
      }
    }
    for (AttentionCase shape : headDims()) {
      cases.add(shape);
      cases.add(shape.variant(CAUSAL));
    }
    for (int dim : new int[] {64, 128}) {
      for (Storage storage : new Storage[] {BF16, F16}) {
        cases.add(AttentionCase.square(HEADS, 2048, dim).typed(storage));
      }
    }
    AttentionCase causal = AttentionCase.square(HEADS, 1024, 128).variant(CAUSAL);
    for (Storage storage : new Storage[] {BF16, F16, I8}) {
      cases.add(causal.stored(storage));
    }
    cases.add(causal.heads(32, 8));
    cases.add(causal.lengths(32, 4096));
    cases.add(AttentionCase.square(HEADS, 8192, 64).variant(CAUSAL));
    cases.add(AttentionCase.square(HEADS, 8192, 64).variant(WINDOW));
    for (Layout layout : Layout.values()) {
      cases.add(batchPrefill(layout));
    }
    cases.add(AttentionCase.square(HEADS, 512, 64).stored(F64));
    cases.add(AttentionCase.square(HEADS, 512, 64).stored(F64).variant(CAUSAL));
    return cases;
  }

  /** Full attention at one length with the head dimensions that models have. */
  static List<AttentionCase> headDims() {
    List<AttentionCase> cases = new ArrayList<>();
    for (int dim : new int[] {40, 80, 96, 128, 160, 192, 256}) {
      AttentionCase shape = AttentionCase.square(HEADS, 1024, dim);
      cases.add(dim == 192 ? shape.valueDim(128) : shape);
    }
    return cases;
  }

  /** Four prompts at once. */
  static AttentionCase batchPrefill(Layout layout) {
    return AttentionCase.square(HEADS, 512, 128).variant(CAUSAL).batch(4, layout);
  }

  /** One token for each of four sequences. */
  static AttentionCase batchDecode(Layout layout) {
    return AttentionCase.decode(8, 4096).batch(4, layout);
  }

  /** A few tokens at once, as a draft is verified. */
  static AttentionCase fewQueries(int queries) {
    return AttentionCase.decode(8, 8192).lengths(queries, 8192).variant(CAUSAL);
  }

  /** The attentions of decoding. */
  static List<AttentionCase> decode() {
    List<AttentionCase> cases = new ArrayList<>();
    for (int keyHeads : new int[] {32, 8}) {
      for (int keys : new int[] {1024, 8192}) {
        for (Storage storage : new Storage[] {F32, F32_NATIVE, BF16, F16, I8}) {
          cases.add(AttentionCase.decode(keyHeads, keys).stored(storage));
        }
      }
    }
    cases.add(AttentionCase.decode(32, 8192).variant(Variant.PREFILLED));
    for (Storage storage : new Storage[] {F32, BF16, F16, I8}) {
      cases.add(AttentionCase.decode(8, 65_536).stored(storage));
    }
    for (int queries : new int[] {2, 4, 8, 16}) {
      cases.add(fewQueries(queries));
    }
    for (Layout layout : Layout.values()) {
      cases.add(batchDecode(layout));
    }
    return cases;
  }

  /** The attentions that change or mask scores. */
  static List<AttentionCase> scores() {
    List<AttentionCase> cases = new ArrayList<>();
    cases.add(AttentionCase.square(HEADS, 4096, 64).variant(WINDOW));
    for (Variant variant :
        new Variant[] {Variant.BOOLEAN, Variant.BIAS, Variant.SOFT_CAP, Variant.ALIBI}) {
      cases.add(AttentionCase.square(HEADS, 1024, 64).variant(variant));
    }
    return cases;
  }

  /** A verb on the rows of the tables, in float32. */
  static List<RowCase> rows(RowVerb verb) {
    return List.of(
        new RowCase(4096, 1024, DType.F32, verb),
        new RowCase(1024, 32_768, DType.F32, verb),
        new RowCase(16, 1 << 20, DType.F32, verb));
  }

  /** The verbs on rows. */
  static List<RowCase> rows() {
    List<RowCase> cases = new ArrayList<>();
    for (RowVerb verb : RowVerb.values()) {
      cases.addAll(rows(verb));
    }
    for (RowVerb verb : RowVerb.values()) {
      cases.add(new RowCase(1024, 32_768, DType.BF16, verb));
      cases.add(new RowCase(1024, 32_768, DType.F16, verb));
    }
    for (RowVerb verb : new RowVerb[] {RowVerb.SOFTMAX, RowVerb.LOG_SUM_EXP}) {
      cases.add(new RowCase(4096, 1024, DType.BF16, verb));
      cases.add(new RowCase(4096, 1024, DType.F64, verb));
    }
    return cases;
  }

  /** All lines for each of the given numbers of threads. */
  static List<Line> lines(List<Integer> threads) {
    List<Line> lines = new ArrayList<>();
    for (AttentionCase shape : prefill()) {
      threads.forEach(t -> lines.add(prefill(shape, t)));
    }
    for (AttentionCase shape : decode()) {
      threads.forEach(t -> lines.add(decode(shape, t)));
    }
    for (AttentionCase shape : scores()) {
      threads.forEach(t -> lines.add(attention(SCORES, shape, t)));
    }
    for (RowCase shape : rows()) {
      threads.forEach(t -> lines.add(row(shape, t)));
    }
    threads.forEach(t -> lines.add(merge(new MergeCase(8, 4096, 128), t)));
    return lines;
  }

  /** The line of a prefill. */
  static Line prefill(AttentionCase shape, int threads) {
    return attention(PREFILL, shape, threads);
  }

  /** An attention that is bound by multiply-adds. */
  private static Line attention(String section, AttentionCase shape, int threads) {
    Ceiling peak = shape.storage() == F64 ? Ceiling.FMA_F64 : Ceiling.FMA_F32;
    return new Line(section, shape, threads, shape.flops(), peak);
  }

  /** The line of a decoding, which is bound by memory. */
  static Line decode(AttentionCase shape, int threads) {
    return new Line(DECODE, shape, threads, shape.bytes(), Ceiling.READ);
  }

  /** The line of a verb on rows. */
  static Line row(RowCase shape, int threads) {
    return new Line(
        ROWS, shape, threads, shape.bytes(), shape.verb().isMap() ? Ceiling.COPY : Ceiling.READ);
  }

  /** The line of a merge. */
  static Line merge(MergeCase shape, int threads) {
    return new Line(MERGE, shape, threads, shape.bytes(), Ceiling.READ);
  }
}
