package dev.foldmax.cpu;

import dev.foldmax.Tensor;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** One call of the verb merge. */
final class RowMerge {
  private static final int SEVERAL = -2;
  private static final int NONE = -1;

  private final Elements[] outputs;
  private final Elements[] lses;
  private final Elements out;
  private final @Nullable Elements lse;
  private final long n;

  RowMerge(List<Tensor> outputs, List<Tensor> lses, Tensor out, @Nullable Tensor lse) {
    this.outputs = outputs.stream().map(Elements::of).toArray(Elements[]::new);
    this.lses = lses.stream().map(Elements::of).toArray(Elements[]::new);
    this.out = Elements.of(out);
    this.lse = lse == null ? null : Elements.of(lse);
    this.n = out.shape(-1);
  }

  void mergeRow(RowPass pass, long row) {
    double[] weights = pass.weights(lses.length);
    int live = NONE;
    double max = Double.NEGATIVE_INFINITY;
    for (int i = 0; i < lses.length; i++) {
      weights[i] = lses[i].at(lses[i].elementOffset(row));
      if (weights[i] != Double.NEGATIVE_INFINITY) {
        live = live == NONE ? i : SEVERAL;
        max = Math.max(max, weights[i]);
      }
    }
    if (live >= 0 && Double.isFinite(max)) {
      copyPartial(live, row);
      return;
    }
    double sum = 0;
    int present = 0;
    int[] numbers = pass.numbers(lses.length);
    for (int i = 0; i < lses.length; i++) {
      if (weights[i] != Double.NEGATIVE_INFINITY) {
        double weight = Exponential.exp(weights[i] - max);
        sum += weight;
        weights[present] = weight;
        numbers[present++] = i;
      }
    }
    for (long begin = 0; begin < n; begin += RowPass.BLOCK) {
      int length = (int) Math.min(RowPass.BLOCK, n - begin);
      int done = 0;
      do {
        int sources = Math.min(RowPass.SLOTS, present - done);
        for (int slot = 0; slot < sources; slot++) {
          Elements output = outputs[numbers[done + slot]];
          pass.open(slot, output, row, begin, length, weights[done + slot] / sum);
        }
        if (done + sources == present) {
          pass.aim(out, row, begin);
        } else {
          pass.aimAtScratch();
        }
        pass.weightedSum(sources, done > 0, length);
        done += sources;
      } while (done < present);
      pass.flush();
    }
    if (lse != null) {
      lse.setAt(lse.elementOffset(row), max + Math.log(sum));
    }
  }

  /** The merge of one partial with nothing keeps its bits. */
  private void copyPartial(int i, long row) {
    outputs[i].copyRun(outputs[i].offset(row, 0), out, out.offset(row, 0), n);
    if (lse != null) {
      lses[i].copyElement(lses[i].elementOffset(row), lse, lse.elementOffset(row));
    }
  }
}
