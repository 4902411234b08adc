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
  static final int BLOCK = 2048;

  /** Elements of a task: the smallest piece of work that is worth handing to a thread. */
  static final int SPAN = 16 * BLOCK;

  /** Runs that are summed up together; scratch memory holds a block of each. */
  static final int SLOTS = SPAN / BLOCK;

  /** How many elements the first guess at the size of the largest is made from. */
  static final int FIRST = 16;

  /** Elements that are compared with one threshold if nothing is known of them. */
  private static final int GROUP = 64;

  private final Workers.Account account;
  private final RowState span = new RowState();
  private final RowState row = new RowState();
  private final Selection selection = new Selection();
  private final int[] positions = new int[BLOCK];
  private final RowDraw draw = new RowDraw();
  private final Nucleus nucleus = new Nucleus();
  private double[] weights = new double[16];
  private int[] numbers = new int[16];

  /** Of a worker. */
  RowPass(Workers.Account account) {
    this.account = account;
  }

  /** Says how far a pass over a row is; see {@link Workers.Account#reach}. */
  void reach(long begin, long n) {
    if (begin > 0 && begin % SPAN == 0) {
      account.reach((double) begin / n);
    }
  }

  /**
   * Makes a run of a row the source of the operations.
   *
   * @param n at most {@link #BLOCK}
   */
  abstract void open(Elements x, long row, long begin, int n);

  /** Makes a run of a row, as long as the source, the target of the operations. */
  abstract void aim(Elements out, long row, long begin);

  /** Makes scratch memory the target. */
  abstract void aimAtScratch();

  /**
   * Chooses where a row of at most {@link #SPAN} elements is kept until it is complete: in the
   * target's own memory, if that is not the source's as well, or in scratch memory.
   */
  abstract void keep(Elements x, Elements out, long row);

  /** Makes a run of the kept row, as long as the source, the target of the operations. */
  abstract void aimAtKept(int begin);

  /** Makes a run of the kept row the source of the operations. */
  abstract void openKept(int begin, int n);

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

  /**
   * A number below at least k of the first n elements of a span, from the largest of each lane of
   * its runs; NaN if these say nothing.
   *
   * @param n a multiple of {@link #lanes}
   */
  abstract double boundOfRuns(int k, int n);

  /** The largest of the first elements of the source; not finite, or any of the others, if NaN. */
  abstract double firstMax();

  /**
   * Target = exp(source - shift); returns the sum.
   *
   * @param shift at least every element, finite; else the sum is NaN
   */
  abstract double exponentials(double shift);

  /** As {@link #exponentials}, or NaN if not all are {@link NearExponential near} the shift. */
  abstract double nearExponentials(double shift);

  /** The sum of exp(source - shift); NaN if not all are {@link NearExponential near} the shift. */
  abstract double nearSum(double shift);

  /**
   * As {@link #nearSum(double)}, and notes the largest of each lane of each run.
   *
   * @param place where the source begins in its span
   */
  abstract double nearSum(double shift, int place);

  /** Notes the largest of each lane of each run, after {@link #nearSum(double, int)} gave NaN. */
  abstract void noteLargest(int place);

  /**
   * Whether an element of a run may be above the threshold or NaN, from the largest noted of it.
   *
   * @param run its number in the span
   */
  abstract boolean isAnyAbove(int run, double threshold);

  /** How many elements a run of {@link #isAnyAbove} has. */
  abstract int runLength();

  /** Target = source * factor. */
  abstract void scale(double factor);

  /** Target = the weights of the source, given the state of its row. */
  abstract void weights(RowState state);

  /** Target = source - (high + low), or 0 where rounding makes that positive. */
  abstract void subtract(double high, double low);

  /**
   * A position near the first element from i to below end that is above the threshold or NaN; see
   * {@link FloatRows#findAbove}.
   */
  abstract int findAbove(int i, int end, double threshold);

  /** The number of elements of a vector. */
  abstract int lanes();

  /**
   * Finds the elements from begin to below end that are above the threshold or NaN, or all if that
   * is NaN.
   *
   * @param positions receives their positions in order; it has room for all
   * @return their number
   */
  abstract int above(int begin, int end, double threshold, int[] positions);

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
      reach(begin, n);
      RowState part = foldSpan(x, rowNumber, begin, Math.min(n, begin + SPAN), into);
      row.add(part.max(), part.sum());
    }
    return row;
  }

  /**
   * The state of a span; valid until the next call.
   *
   * <p>What is subtracted before the exponential need not be the largest element, only {@link
   * RowState#near}, which the first few elements tell as a rule; if there are no more than these,
   * it is the largest, so that the logarithm of a single weight of 1 is 0. So a block is read once,
   * and memory is read while exponentials are computed. (With a loop for the largest element
   * before, it took twice as long out of cache.)
   *
   * @param into is offered every element, if not null
   */
  RowState foldSpan(Elements x, long rowNumber, long begin, long end, @Nullable Selection into) {
    span.clear();
    double shift = Double.NEGATIVE_INFINITY;
    boolean isNear = true;
    for (long block = begin; block < end; block += BLOCK) {
      open(x, rowNumber, block, (int) Math.min(BLOCK, end - block));
      if (block == begin) {
        shift = end - begin <= FIRST ? firstMax() : RowState.near(firstMax());
        isNear = Double.isFinite(shift);
      }
      int place = (int) (block - begin);
      double sum = Double.NaN;
      if (isNear) {
        sum = into == null ? nearSum(shift) : nearSum(shift, place);
      }
      if (Double.isNaN(sum) || !RowState.isAccurate(shift, sum)) {
        double next = RowState.near(addCarefully());
        isNear = next != shift;
        shift = next;
        if (into != null) {
          noteLargest(place);
        }
      } else {
        span.add(shift, sum);
      }
    }
    if (into != null) {
      selectRuns(x, rowNumber, begin, end, into);
    }
    return span;
  }

  /** Adds the source to the span's state, whatever it holds, and returns its largest element. */
  private double addCarefully() {
    aimAtScratch();
    double max = max();
    span.add(max, exponentials(RowState.shift(max)));
    return max;
  }

  /** Softmax of a row of at most {@link #SPAN} elements. */
  void softmax(Elements x, Elements out, long rowNumber, int n) {
    keep(x, out, rowNumber);
    double sum = keepExponentials(x, rowNumber, n);
    double factor = sum == 0 ? 0 : 1 / sum;
    for (int begin = 0; begin < n; begin += BLOCK) {
      openKept(begin, Math.min(BLOCK, n - begin));
      aim(out, rowNumber, begin);
      scale(factor);
      flush();
    }
  }

  /** Keeps the exponentials of a row, up to a factor; returns their sum. */
  private double keepExponentials(Elements x, long rowNumber, int n) {
    double sum = 0;
    double shift = Double.NaN;
    for (int begin = 0; begin < n; begin += BLOCK) {
      open(x, rowNumber, begin, Math.min(BLOCK, n - begin));
      aimAtKept(begin);
      if (begin == 0) {
        shift = RowState.near(firstMax());
      }
      double part = Double.isFinite(shift) ? nearExponentials(shift) : Double.NaN;
      if (Double.isNaN(part) || !RowState.isAccurate(shift, part)) {
        return keepExponentials(x, rowNumber, n, RowState.shift(max(x, rowNumber, 0, n)));
      }
      sum += part;
    }
    return sum;
  }

  private double keepExponentials(Elements x, long rowNumber, int n, double shift) {
    double sum = 0;
    for (int begin = 0; begin < n; begin += BLOCK) {
      open(x, rowNumber, begin, Math.min(BLOCK, n - begin));
      aimAtKept(begin);
      sum += exponentials(shift);
    }
    return sum;
  }

  /** Offers the elements of a span to a selection, without their sum. */
  void selectSpan(Elements x, long rowNumber, long begin, long end, Selection into) {
    for (long block = begin; block < end; block += BLOCK) {
      open(x, rowNumber, block, (int) Math.min(BLOCK, end - block));
      if (into.isEmpty()) {
        max();
        into.expectAbove(boundOfLargest(into.k()));
      }
      select(block, 0, length(), into);
    }
  }

  /**
   * Offers those runs of a span to a selection that may hold one of the k largest, by what is noted
   * of them: few, if these are the first ones offered, for then all of the span tells what is
   * large.
   */
  private void selectRuns(Elements x, long rowNumber, long begin, long end, Selection into) {
    int n = (int) (end - begin);
    int noted = n - n % lanes();
    if (into.isEmpty()) {
      into.expectAbove(boundOfRuns(into.k(), noted));
    }
    for (int run = 0, at = 0; at < noted; run++, at += runLength()) {
      if (isAnyAbove(run, into.threshold())) {
        int length = Math.min(runLength(), noted - at);
        open(x, rowNumber, begin + at, length);
        offer(begin + at, 0, length, into);
      }
    }
    if (noted < n) {
      open(x, rowNumber, begin + noted, n - noted);
      offer(begin + noted, 0, n - noted, into);
    }
  }

  /** Offers the elements of the source from begin to below end to a selection. */
  private void select(long index, int begin, int end, Selection into) {
    int i = begin;
    while (!into.isClosed() && (i = findAbove(i, end, into.threshold())) < end) {
      int next = Math.min(end, i + GROUP);
      offer(index, i, next, into);
      i = next;
    }
  }

  /** As {@link #select(long, int, int, Selection)}, with all compared with one threshold. */
  private void offer(long index, int begin, int end, Selection into) {
    int count = above(begin, end, into.threshold(), positions);
    for (int i = 0; i < count; i++) {
      into.offer(element(positions[i]), index + positions[i]);
    }
  }

  /** Offers the elements of a row to a selection. */
  void select(Elements x, long rowNumber, long n, Selection into) {
    for (long begin = 0; begin < n; begin += SPAN) {
      reach(begin, n);
      selectSpan(x, rowNumber, begin, Math.min(n, begin + SPAN), into);
    }
  }

  /** The largest element from begin to below end that is not NaN; -inf if there is none. */
  double max(Elements x, long rowNumber, long begin, long end) {
    double max = Double.NEGATIVE_INFINITY;
    for (long block = begin; block < end; block += BLOCK) {
      reach(block - begin, end - begin);
      open(x, rowNumber, block, (int) Math.min(BLOCK, end - block));
      max = Math.max(max, max());
    }
    return max;
  }
}
