package dev.foldmax.cpu;

import org.jspecify.annotations.Nullable;

/**
 * A worker's view of the part of a row that it works on, and its scratch memory: the operations of
 * the row kernels on a run of elements, in float32 or float64.
 *
 * <p>The fold over a row is fixed: the row is cut into spans at multiples of {@link #SPAN} and
 * spans into blocks at multiples of {@link #BLOCK}; each block gives its own state (m, l), blocks
 * fold in order into the span's state, spans in order into the row's.
 */
abstract sealed class RowPass permits FloatRowPass, DoubleRowPass {
  /** Elements that stay in the L1 cache between two loops over them. */
  static final int BLOCK = 4096;

  /** Elements of a task: the smallest piece of work that is worth handing to a thread. */
  static final int SPAN = 8 * BLOCK;

  /** Runs that are summed up together; scratch memory holds a block of each. */
  static final int SLOTS = SPAN / BLOCK;

  private final RowState span = new RowState();
  private final RowState row = new RowState();
  private final Selection selection = new Selection();
  private final RowDraw draw = new RowDraw();
  private final Nucleus nucleus = new Nucleus();
  private double[] weights = new double[16];
  private int[] numbers = new int[16];

  /**
   * Makes a run of a row the source of the operations.
   *
   * @param n at most {@link #SPAN}
   */
  abstract void open(Elements x, long row, long begin, int n);

  /** Makes a run of a row, as long as the source, the target of the operations. */
  abstract void aim(Elements out, long row, long begin);

  /** Makes scratch memory the target; for sources of at most {@link #BLOCK} elements. */
  abstract void aimAtScratch();

  /** Writes the target to its tensor, if the operations have not worked on the tensor itself. */
  abstract void flush();

  /** Lets go of the caller's arrays. */
  abstract void release();

  /** The number of elements of the source. */
  abstract int length();

  /** An element of the source. */
  abstract double element(int i);

  /** The largest element of the source that is not NaN; -inf if there is none. */
  abstract double max();

  /**
   * After {@link #max}: a number below at least k elements of the source, from the largest of each
   * lane; NaN if these say nothing.
   */
  abstract double boundOfLargest(int k);

  /** Target = exp(source - shift); returns the sum. */
  abstract double exponentials(double shift);

  /** Target *= factor. */
  abstract void scale(double factor);

  /** Target = exp(source - shift) * factor. */
  abstract void scaledExponentials(double shift, double factor);

  /** Target = (source - shift) - log. */
  abstract void subtract(double shift, double log);

  /**
   * A position near the first element from i on that is above the threshold or NaN; see {@link
   * FloatRows#findAbove}.
   */
  abstract int findAbove(int i, double threshold);

  /** The number of elements that {@link #findAbove} looks at together. */
  abstract int lanes();

  /**
   * Makes a run of a row, with a weight, one of the sources of {@link #weightedSum}.
   *
   * @param slot its number, below {@link #SLOTS}
   * @param n at most {@link #BLOCK}
   */
  abstract void open(int slot, Elements x, long row, long begin, int n, double weight);

  /**
   * Target = the weighted sum of the first sources, added one by one.
   *
   * @param continued whether to start from what {@link #aimAtScratch scratch memory} holds, not 0
   */
  abstract void weightedSum(int sources, boolean continued, int n);

  /** Into[i] = source - shift, rounded to float32. */
  abstract void differences(double shift, float[] into);

  /** Into[i] = (source - shift) / temperature, in float64. */
  abstract void scores(double shift, double temperature, double[] into);

  /** This worker's selection. */
  Selection selection() {
    return selection;
  }

  /** This worker's draw. */
  RowDraw draw() {
    return draw;
  }

  /** This worker's search for a nucleus. */
  Nucleus nucleus() {
    return nucleus;
  }

  /** Room for n weights. */
  double[] weights(int n) {
    if (weights.length < n) {
      weights = new double[2 * n];
    }
    return weights;
  }

  /** Room for n numbers. */
  int[] numbers(int n) {
    if (numbers.length < n) {
      numbers = new int[2 * n];
    }
    return numbers;
  }

  /**
   * The state of a row of n elements; valid until the next call.
   *
   * @param into is offered every element, if not null
   */
  RowState fold(Elements x, long rowNumber, long n, @Nullable Selection into) {
    row.clear();
    for (long begin = 0; begin < n; begin += SPAN) {
      RowState part = foldSpan(x, rowNumber, begin, Math.min(n, begin + SPAN), into);
      row.add(part.max(), part.sum());
    }
    return row;
  }

  /**
   * The state of a span; valid until the next call.
   *
   * @param into is offered every element, if not null
   */
  RowState foldSpan(Elements x, long rowNumber, long begin, long end, @Nullable Selection into) {
    span.clear();
    for (long block = begin; block < end; block += BLOCK) {
      open(x, rowNumber, block, (int) Math.min(BLOCK, end - block));
      aimAtScratch();
      double max = max();
      if (into != null && into.isEmpty()) {
        into.expectAbove(boundOfLargest(into.k()));
      }
      double sum = exponentials(RowState.shift(max));
      span.add(max, sum);
      if (into != null && (!(max <= into.threshold()) || Double.isNaN(sum))) {
        select(block, into);
      }
    }
    return span;
  }

  /** Offers the elements of a span to a selection, without their sum. */
  void selectSpan(Elements x, long rowNumber, long begin, long end, Selection into) {
    for (long block = begin; block < end; block += BLOCK) {
      open(x, rowNumber, block, (int) Math.min(BLOCK, end - block));
      if (into.isEmpty()) {
        max();
        into.expectAbove(boundOfLargest(into.k()));
      }
      select(block, into);
    }
  }

  /** Offers the source to a selection. */
  private void select(long index, Selection into) {
    int n = length();
    int i = 0;
    while (!into.isClosed() && (i = findAbove(i, into.threshold())) < n) {
      double threshold = into.threshold();
      int end = Math.min(n, i + lanes());
      for (; i < end; i++) {
        double x = element(i);
        if (!(x <= threshold)) {
          into.offer(x, index + i);
        }
      }
    }
  }

  /** Offers the elements of a row to a selection. */
  void select(Elements x, long rowNumber, long n, Selection into) {
    for (long begin = 0; begin < n; begin += SPAN) {
      selectSpan(x, rowNumber, begin, Math.min(n, begin + SPAN), into);
    }
  }

  /** The largest element from begin to below end that is not NaN; -inf if there is none. */
  double max(Elements x, long rowNumber, long begin, long end) {
    double max = Double.NEGATIVE_INFINITY;
    for (long block = begin; block < end; block += BLOCK) {
      open(x, rowNumber, block, (int) Math.min(BLOCK, end - block));
      max = Math.max(max, max());
    }
    return max;
  }
}
