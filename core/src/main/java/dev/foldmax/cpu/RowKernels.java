package dev.foldmax.cpu;

import dev.foldmax.DType;
import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import dev.foldmax.spi.Rows;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The verbs on rows. Many rows are shared out by rows, some {@link RowPass#SPAN} elements a task;
 * few long ones by spans of a row, whose states fold in order. Both give the same bits.
 *
 * <p>Softmax takes one of two forms by the length of the row. Rows of up to {@link RowPass#SPAN}
 * elements, which stay in the L2 cache, are read once: their exponentials are written, and then
 * scaled where they are. Longer rows are read twice: once for the state, and once for the result
 * with a second exponential, which costs less than to write the exponentials and read them again.
 *
 * <p>Blocks are used where they lie in heap arrays of the kernel's type; native memory, 16-bit
 * elements and rows with gaps go through scratch memory of the worker.
 */
final class RowKernels {
  /** Rows are cut for the threads if there are fewer than this a thread. */
  private static final int ROWS_PER_THREAD = 4;

  /**
   * Rows of so many elements are cut however many there are, and for one thread too: a task that
   * takes longer would keep those waiting who watch the progress or want to stop it.
   */
  private static final long LONG_ROW = 1L << 22;

  /** The spans of a row whose states are kept at a time. */
  private static final int ROUND = 1024;

  /** The largest k for which the threads share the selection from one row. */
  private static final int SHARED_K = 1024;

  private final Workers workers;
  private final @Nullable FloatRowPass[] floatPasses;
  private final @Nullable DoubleRowPass[] doublePasses;

  RowKernels(Workers workers) {
    this.workers = workers;
    this.floatPasses = new FloatRowPass[workers.parallelism()];
    this.doublePasses = new DoubleRowPass[workers.parallelism()];
  }

  /** What a worker does with a row, or with a task of another kind. */
  @FunctionalInterface
  private interface PassTask {
    void run(RowPass pass, long index);
  }

  /** What is done with a span of a row. */
  @FunctionalInterface
  private interface SpanTask {
    void run(RowPass pass, long begin, long end);
  }

  /** What a verb writes: target from source, given the row's state. */
  @FunctionalInterface
  private interface Output {
    void write(RowPass pass, RowState state);
  }

  /** The tasks of a call whose threads share each row: it is a run after another. */
  private static final class Steps {
    private final long all;
    private long done;

    /**
     * Of a call.
     *
     * @param passes over each row
     */
    Steps(Tensor x, int passes) {
      this.all = Rows.count(x) * spans(x.shape(-1)) * passes;
    }
  }

  void softmax(Tensor x, Tensor out) {
    if (x.shape(-1) > RowPass.SPAN) {
      map(x, out, RowPass::weights);
      return;
    }
    Elements in = Elements.of(x);
    Elements to = Elements.of(out);
    int n = (int) x.shape(-1);
    if (n == 0) {
      return;
    }
    forEachRow(x, isDouble(x), (pass, row) -> pass.softmax(in, to, row, n));
  }

  void logSoftmax(Tensor x, Tensor out) {
    map(
        x,
        out,
        (pass, state) -> pass.subtract(RowState.shift(state.logSumExp()), state.lostOfLogSumExp()));
  }

  private void map(Tensor x, Tensor out, Output output) {
    Elements in = Elements.of(x);
    Elements to = Elements.of(out);
    long n = x.shape(-1);
    if (isShared(x)) {
      Steps steps = new Steps(x, 2);
      for (long row = 0, rows = Rows.count(x); row < rows; row++) {
        long r = row;
        RowState state = foldShared(x, in, r, null, steps);
        forEachSpan(
            x, steps, (pass, begin, end) -> write(pass, in, to, r, begin, end, state, output));
      }
    } else {
      forEachRow(
          x,
          isDouble(x),
          (pass, row) -> write(pass, in, to, row, 0, n, pass.fold(in, row, n, null), output));
    }
  }

  private static void write(
      RowPass pass,
      Elements in,
      Elements to,
      long row,
      long begin,
      long end,
      RowState state,
      Output output) {
    for (long block = begin; block < end; block += RowPass.BLOCK) {
      pass.open(in, row, block, (int) Math.min(RowPass.BLOCK, end - block));
      pass.aim(to, row, block);
      output.write(pass, state);
      pass.flush();
    }
  }

  void logSumExp(Tensor x, Tensor out) {
    Elements in = Elements.of(x);
    Elements to = Elements.of(out);
    long n = x.shape(-1);
    if (isShared(x)) {
      Steps steps = new Steps(x, 1);
      for (long row = 0, rows = Rows.count(x); row < rows; row++) {
        double lse = foldShared(x, in, row, null, steps).logSumExp();
        to.setAt(to.elementOffset(row), lse);
      }
    } else {
      forEachRow(
          x,
          isDouble(x),
          (pass, row) -> to.setAt(to.elementOffset(row), pass.fold(in, row, n, null).logSumExp()));
    }
  }

  void topK(Tensor x, Tensor values, Tensor indices, @Nullable Tensor probabilities) {
    Elements in = Elements.of(x);
    long n = x.shape(-1);
    if (values.shape(-1) > Selection.MAX_K) {
      throw new IllegalArgumentException(
          "values: at most " + Selection.MAX_K + " of a row on the CPU, got " + values);
    }
    int k = (int) values.shape(-1);
    if (k == 0) {
      return;
    }
    Elements toValues = Elements.of(values);
    Elements toIndices = Elements.of(indices);
    Elements toProbabilities = probabilities == null ? null : Elements.of(probabilities);
    if (isShared(x) && k <= SHARED_K) {
      Selection selection = new Selection();
      Steps steps = new Steps(x, 1);
      for (long row = 0, rows = Rows.count(x); row < rows; row++) {
        selection.clear(k);
        RowState state = null;
        if (probabilities != null) {
          state = foldShared(x, in, row, selection, steps);
        } else {
          selectShared(x, in, row, selection, steps);
        }
        writeSelected(in, row, selection, state, toValues, toIndices, toProbabilities);
      }
    } else {
      forEachRow(
          x,
          isDouble(x),
          (pass, row) -> {
            Selection selection = pass.selection();
            selection.clear(k);
            RowState state = null;
            if (probabilities != null) {
              state = pass.fold(in, row, n, selection);
            } else {
              pass.select(in, row, n, selection);
            }
            writeSelected(in, row, selection, state, toValues, toIndices, toProbabilities);
          });
    }
  }

  private static void writeSelected(
      Elements in,
      long row,
      Selection selection,
      @Nullable RowState state,
      Elements values,
      Elements indices,
      @Nullable Elements probabilities) {
    selection.sort();
    for (int i = 0; i < selection.size(); i++) {
      long index = selection.indexAt(i);
      in.copyElement(in.offset(row, index), values, values.offset(row, i));
      indices.setLongAt(indices.offset(row, i), index);
    }
    if (probabilities == null || state == null) {
      return;
    }
    double shift = RowState.shift(state.max());
    double factor = state.sum() == 0 ? 0 : 1 / state.sum();
    for (int i = 0; i < selection.size(); i++) {
      double p = Exponential.exp(selection.elementAt(i) - shift) * factor;
      probabilities.setAt(probabilities.offset(row, i), p);
    }
  }

  void sample(Tensor logits, Sampling sampling, Tensor indices) {
    Elements in = Elements.of(logits);
    RowSampler sampler = new RowSampler(in, sampling, logits.shape(-1));
    if (isShared(logits) && sampler.k() <= SHARED_K) {
      Selection selection = new Selection();
      RowDraw draw = new RowDraw();
      Steps steps = new Steps(logits, sampler.k() > 0 ? 1 : 2);
      for (long row = 0, rows = Rows.count(logits); row < rows; row++) {
        long index;
        if (sampler.k() > 0) {
          selection.clear(sampler.k());
          selectShared(logits, in, row, selection, steps);
          index = sampler.drawSelected(selection, draw, row);
        } else {
          index = drawShared(logits, in, row, sampler, draw, steps);
        }
        indices.setLongAt(Rows.elementOffset(indices, row), index);
      }
    } else {
      forEachRow(
          logits,
          isDouble(logits),
          (pass, row) ->
              indices.setLongAt(Rows.elementOffset(indices, row), sampler.draw(pass, row)));
    }
  }

  /** Draws from all of a row on all threads; a nucleus is found by one. */
  private long drawShared(
      Tensor logits, Elements in, long row, RowSampler sampler, RowDraw draw, Steps steps) {
    RowState whole = new RowState();
    forEachSpan(
        logits,
        steps,
        (pass, begin, end) -> {
          double max = pass.max(in, row, begin, end);
          synchronized (whole) {
            whole.add(max, 0);
          }
        });
    boolean[] isDrawn = new boolean[1];
    run(
        1,
        isDouble(logits),
        (pass, task) -> isDrawn[0] = sampler.start(draw, pass, row, whole.max()));
    if (isDrawn[0]) {
      forEachSpan(
          logits,
          steps,
          (pass, begin, end) -> {
            RowDraw part = pass.draw();
            part.startAs(draw);
            part.add(pass, in, row, begin, end);
            synchronized (whole) {
              draw.merge(part);
            }
          });
    }
    return draw.winner();
  }

  void merge(List<Tensor> outputs, List<Tensor> lses, Tensor out, @Nullable Tensor lse) {
    boolean isDouble = false;
    for (int i = 0; i < outputs.size(); i++) {
      isDouble |= isDouble(outputs.get(i)) || isDouble(lses.get(i));
    }
    RowMerge merge = new RowMerge(outputs, lses, out, lse);
    forEachRow(out, isDouble, merge::mergeRow);
  }

  /**
   * The state of a row, folded by all threads.
   *
   * @param selection is offered every element, if not null
   */
  private RowState foldShared(
      Tensor x, Elements in, long row, @Nullable Selection selection, Steps steps) {
    long n = x.shape(-1);
    RowState state = new RowState();
    double[] max = new double[(int) Math.min(spans(n), ROUND)];
    double[] sum = new double[max.length];
    for (long first = 0; first < spans(n); first += ROUND) {
      int round = (int) Math.min(ROUND, spans(n) - first);
      long firstBegin = first * RowPass.SPAN;
      run(
          round,
          steps,
          isDouble(x),
          (pass, task) -> {
            long begin = firstBegin + task * RowPass.SPAN;
            long end = Math.min(n, begin + RowPass.SPAN);
            Selection part = null;
            if (selection != null) {
              part = pass.selection();
              part.clear(selection.k());
            }
            RowState span = pass.foldSpan(in, row, begin, end, part);
            max[(int) task] = span.max();
            sum[(int) task] = span.sum();
            if (selection != null && part != null) {
              synchronized (selection) {
                selection.offerAll(part);
              }
            }
          });
      for (int i = 0; i < round; i++) {
        state.add(max[i], sum[i]);
      }
    }
    return state;
  }

  /** Offers every element of a row to a selection, by all threads. */
  private void selectShared(Tensor x, Elements in, long row, Selection selection, Steps steps) {
    forEachSpan(
        x,
        steps,
        (pass, begin, end) -> {
          Selection part = pass.selection();
          part.clear(selection.k());
          pass.selectSpan(in, row, begin, end, part);
          synchronized (selection) {
            selection.offerAll(part);
          }
        });
  }

  /** Whether the rows are so few and so long, or so long, that the threads share each of them. */
  private boolean isShared(Tensor x) {
    long n = x.shape(-1);
    boolean areFew = Rows.count(x) < (long) ROWS_PER_THREAD * workers.parallelism();
    return n >= LONG_ROW || (n > RowPass.SPAN && areFew && workers.parallelism() > 1);
  }

  private static boolean isDouble(Tensor x) {
    return x.dtype() == DType.F64;
  }

  private static long spans(long n) {
    return Math.ceilDiv(n, RowPass.SPAN);
  }

  private void forEachSpan(Tensor x, Steps steps, SpanTask task) {
    long n = x.shape(-1);
    run(
        spans(n),
        steps,
        isDouble(x),
        (pass, span) ->
            task.run(pass, span * RowPass.SPAN, Math.min(n, (span + 1) * RowPass.SPAN)));
  }

  private void forEachRow(Tensor x, boolean isDouble, PassTask task) {
    long rows = Rows.count(x);
    long group = Math.max(1, RowPass.SPAN / Math.max(1, x.shape(-1)));
    run(
        Math.ceilDiv(rows, group),
        isDouble,
        (pass, index) -> {
          long end = Math.min(rows, (index + 1) * group);
          for (long row = index * group; row < end; row++) {
            task.run(pass, row);
          }
        });
  }

  private void run(long tasks, boolean isDouble, PassTask task) {
    workers.run(tasks, inPass(isDouble, task));
  }

  private void run(long tasks, Steps steps, boolean isDouble, PassTask task) {
    workers.run(tasks, steps.done, steps.all, inPass(isDouble, task));
    steps.done += tasks;
  }

  private Workers.Task inPass(boolean isDouble, PassTask task) {
    return (index, worker) -> {
      RowPass pass = isDouble ? doublePass(worker) : floatPass(worker);
      try {
        task.run(pass, index);
      } finally {
        pass.release();
      }
    };
  }

  private RowPass floatPass(int worker) {
    FloatRowPass pass = floatPasses[worker];
    if (pass == null) {
      pass = new FloatRowPass(workers.account(worker));
      floatPasses[worker] = pass;
    }
    return pass;
  }

  private RowPass doublePass(int worker) {
    DoubleRowPass pass = doublePasses[worker];
    if (pass == null) {
      pass = new DoubleRowPass(workers.account(worker));
      doublePasses[worker] = pass;
    }
    return pass;
  }
}
