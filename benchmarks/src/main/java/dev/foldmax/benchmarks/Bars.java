package dev.foldmax.benchmarks;

import static dev.foldmax.benchmarks.Contender.ONNX_RUNTIME;
import static dev.foldmax.benchmarks.Contender.PYTORCH;
import static dev.foldmax.benchmarks.Variant.CAUSAL;
import static dev.foldmax.benchmarks.Variant.WINDOW;

import dev.foldmax.benchmarks.Bar.Yardstick.Machine;
import dev.foldmax.benchmarks.Bar.Yardstick.Own;
import dev.foldmax.benchmarks.Bar.Yardstick.Rival;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** How fast Foldmax is meant to be: on two cores, and on many. */
final class Bars {
  private static final int HEADS = 8;

  /** Key heads of grouped decoding. */
  private static final int GROUPED = 8;

  /** Key heads of decoding without groups. */
  private static final int UNGROUPED = 32;

  /** Up to this many threads the bars of a small machine count. */
  private static final int FEW_THREADS = 2;

  private final int one;
  private final int all;
  private final List<Bar> bars = new ArrayList<>();

  private Bars(List<Integer> threads) {
    this.one = threads.stream().min(Integer::compare).orElseThrow();
    this.all = threads.stream().max(Integer::compare).orElseThrow();
  }

  /** The bars for the least and the largest of some numbers of threads. */
  static List<Bar> of(List<Integer> threads) {
    Bars bars = new Bars(threads);
    if (bars.all <= FEW_THREADS) {
      bars.prefill();
      bars.decode();
      bars.rows();
      bars.layouts();
    } else {
      bars.manyCores();
    }
    return List.copyOf(bars.bars);
  }

  private void add(
      String work, double must, double aim, Case shape, int threads, Bar.Yardstick yardstick) {
    bars.add(new Bar(work, must, aim, shape, threads, yardstick));
  }

  /** For one thread and for all. */
  private Stream<Integer> both() {
    return Stream.of(one, all).distinct();
  }

  private void prefill() {
    for (int length : new int[] {2048, 4096}) {
      for (int dim : new int[] {64, 128}) {
        AttentionCase full = AttentionCase.square(HEADS, length, dim);
        both()
            .forEach(
                t -> {
                  add("prefill", 1.10, 1.25, full, t, new Rival(PYTORCH));
                  add("prefill", 1.00, 1.10, full, t, new Rival(ONNX_RUNTIME));
                });
        AttentionCase causal = full.variant(CAUSAL);
        if (length == 2048) {
          add("causal prefill", 1.30, 1.45, causal, all, new Rival(PYTORCH));
        } else {
          both().forEach(t -> add("causal prefill", 1.15, 1.35, causal, t, new Rival(PYTORCH)));
        }
        if (dim == 128) {
          add("prefill, share of FMA peak", 0.82, 0.90, full, one, new Machine());
        }
        if (all > one) {
          double most = (double) all / one;
          Own alone = new Own(full, one, 1);
          add("prefill, all threads over one", 0.95 * most, 0.985 * most, full, all, alone);
        }
      }
    }
    for (int dim : new int[] {64, 128}) {
      AttentionCase causal = AttentionCase.square(HEADS, 512, dim).variant(CAUSAL);
      add("short causal prefill", 2.0, 2.2, causal, all, new Rival(PYTORCH));
      add("short causal prefill", 2.0, 2.2, causal, all, new Rival(ONNX_RUNTIME));
      AttentionCase full = AttentionCase.square(HEADS, 2048, dim);
      for (Storage narrow : new Storage[] {Storage.BF16, Storage.F16}) {
        add("16-bit prefill over f32", 0.95, 1.0, full.typed(narrow), all, new Own(full, all, 1));
      }
    }
    AttentionCase usual = AttentionCase.square(HEADS, 1024, 128);
    for (AttentionCase shape : Catalogue.headDims()) {
      if (!shape.equals(usual)) {
        Own rate = new Own(usual, all, shape.flops() / usual.flops());
        add("rate of a head dimension over D 128", 0.80, 0.95, shape, all, rate);
      }
    }
  }

  private void decode() {
    for (int keys : new int[] {1024, 8192}) {
      AttentionCase shape = AttentionCase.decode(UNGROUPED, keys);
      both().forEach(t -> add("decode", 1.0, 1.1, shape, t, new Rival(ONNX_RUNTIME)));
    }
    AttentionCase ungrouped = AttentionCase.decode(UNGROUPED, 8192);
    both()
        .forEach(
            t ->
                add(
                    "decode with the bits of prefill over without",
                    0,
                    0,
                    ungrouped.variant(Variant.PREFILLED),
                    t,
                    new Own(ungrouped, t, 1)));
    for (int keys : new int[] {8192, 65_536}) {
      AttentionCase shape = AttentionCase.decode(GROUPED, keys);
      add("grouped decode", 2.0, 3.0, shape, all, new Rival(ONNX_RUNTIME));
      String share = "grouped decode, share of read bandwidth";
      add(share, 0.6, 0.9, shape, all, new Machine());
      add(share, 0.4, 0.7, shape.stored(Storage.BF16), all, new Machine());
      add(share, 0.4, 0.7, shape.stored(Storage.F16), all, new Machine());
      add(share, 0.3, 0.6, shape.stored(Storage.I8), all, new Machine());
    }
    AttentionCase single = AttentionCase.decode(GROUPED, 8192);
    for (int queries : new int[] {2, 4, 8, 16}) {
      Own alone = new Own(single, all, queries);
      add("few queries, per query over one", 1.0, 1.0, Catalogue.fewQueries(queries), all, alone);
    }
  }

  private void rows() {
    for (RowCase shape : Catalogue.rows(RowVerb.SOFTMAX)) {
      both()
          .forEach(
              t -> {
                add("softmax", 1.4, 1.6, shape, t, new Rival(PYTORCH));
                add("softmax", 1.0, 1.2, shape, t, new Rival(ONNX_RUNTIME));
              });
    }
    for (RowCase shape : Catalogue.rows(RowVerb.LOG_SUM_EXP)) {
      RowCase topK = new RowCase(shape.rows(), shape.columns(), shape.dtype(), RowVerb.TOP_K);
      both()
          .forEach(
              t -> {
                add("logSumExp, share of read bandwidth", 0.85, 0.95, shape, t, new Machine());
                add("topK over logSumExp alone", 0.80, 0.95, topK, t, new Own(shape, t, 1));
              });
    }
  }

  private void layouts() {
    for (Layout layout : new Layout[] {Layout.RAGGED, Layout.PAGED}) {
      Own prefill = new Own(Catalogue.batchPrefill(Layout.DENSE), all, 1);
      Own decode = new Own(Catalogue.batchDecode(Layout.DENSE), all, 1);
      String work = layout.label() + " over dense";
      add(work, 0.95, 1.0, Catalogue.batchPrefill(layout), all, prefill);
      add(work, 0.95, 1.0, Catalogue.batchDecode(layout), all, decode);
    }
    AttentionCase causal = AttentionCase.square(HEADS, 8192, 64).variant(CAUSAL);
    add("window over full causal", 5, 7, causal.variant(WINDOW), all, new Own(causal, all, 1));
  }

  private void manyCores() {
    AttentionCase full = AttentionCase.square(HEADS, 2048, 128);
    for (AttentionCase shape : List.of(full, full.variant(CAUSAL))) {
      both().forEach(t -> add("prefill", 1.0, 1.1, shape, t, new Rival(PYTORCH)));
    }
    double most = (double) all / one;
    Own alone = new Own(full, one, 1);
    add("prefill, all threads over one", 13 / 16.0 * most, 0.9 * most, full, all, alone);
    for (int keyHeads : new int[] {UNGROUPED, GROUPED}) {
      AttentionCase shape = AttentionCase.decode(keyHeads, 8192);
      add("decode", 1.1, 1.1, shape, all, new Rival(PYTORCH));
    }
    for (RowCase shape : Catalogue.rows(RowVerb.LOG_SUM_EXP)) {
      both().forEach(t -> add("logSumExp", 4, 4, shape, t, new Rival(PYTORCH)));
    }
    AttentionCase narrow = full.typed(Storage.BF16);
    add("bf16 prefill", 0, 0, narrow, all, new Rival(PYTORCH));
  }
}
