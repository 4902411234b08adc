package dev.foldmax.cpu;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** The operations in float64, on F64 and, where another input is F64, on any floating type. */
final class DoubleRowPass extends RowPass {
  private static final double[] ZEROS = new double[BLOCK];

  private final double[] scratch = new double[SPAN];
  private final double[] read = new double[BLOCK];
  private final double[] written = new double[BLOCK];

  /** The largest of each lane of each run of a span. */
  private final double[] largest = new double[SPAN / DoubleRows.RUN * Species.F64.length()];

  private final double[] lanes = new double[2 * Species.F64.length()];
  private final double[] rest = new double[Species.F64.length()];
  private final double[] sums = new double[DoubleRows.SUMS];

  private int n;
  private double[] source = read;
  private int from;
  private double[] target = written;
  private int to;
  private double[] kept = scratch;
  private int keptFrom;

  private final double[][] sources = new double[SLOTS][];
  private final int[] froms = new int[SLOTS];
  private final double[] weights = new double[SLOTS];

  /** Where the target has to be written, or null if it is there already. */
  private @Nullable Elements out;

  private long outOffset;

  DoubleRowPass(Workers.Account account) {
    super(account);
  }

  @Override
  void open(Elements x, long row, long begin, int n) {
    this.n = n;
    long offset = x.offset(row, begin);
    double[] array = x.doubles();
    if (array != null) {
      source = array;
      from = x.position(offset);
    } else {
      source = read;
      from = 0;
      x.read(offset, read, 0, n);
    }
  }

  @Override
  void aim(Elements tensor, long row, long begin) {
    outOffset = tensor.offset(row, begin);
    double[] array = tensor.doubles();
    if (array != null) {
      target = array;
      to = tensor.position(outOffset);
      out = null;
    } else {
      target = written;
      to = 0;
      out = tensor;
    }
  }

  @Override
  void aimAtScratch() {
    target = written;
    to = 0;
    out = null;
  }

  @Override
  void keep(Elements x, Elements out, long row) {
    double[] array = out.doubles();
    if (array != null && !out.mayShare(x)) {
      kept = array;
      keptFrom = out.position(out.offset(row, 0));
    } else {
      kept = scratch;
      keptFrom = 0;
    }
  }

  @Override
  void aimAtKept(int begin) {
    target = kept;
    to = keptFrom + begin;
    out = null;
  }

  @Override
  void openKept(int begin, int length) {
    n = length;
    source = kept;
    from = keptFrom + begin;
  }

  @Override
  void flush() {
    if (out != null) {
      out.write(target, to, outOffset, n);
    }
  }

  @Override
  void release() {
    source = read;
    Arrays.fill(sources, scratch);
    target = written;
    kept = scratch;
    out = null;
  }

  @Override
  int length() {
    return n;
  }

  @Override
  double element(int i) {
    return source[from + i];
  }

  @Override
  double max() {
    return DoubleRows.max(source, from, n, lanes);
  }

  @Override
  double boundOfLargest(int k) {
    if (k > lanes.length) {
      return Double.NaN;
    }
    double least = DoubleRows.kthLargest(lanes, k);
    return least == Double.NEGATIVE_INFINITY ? Double.NaN : Math.nextDown(least);
  }

  @Override
  double boundOfRuns(int k, int n) {
    int lanesOfRuns = Math.ceilDiv(n, DoubleRows.RUN) * Species.F64.length();
    DoubleRows.largestOfLanes(largest, 0, lanesOfRuns, lanes);
    return boundOfLargest(k);
  }

  @Override
  double firstMax() {
    return DoubleRows.maxOfFew(source, from, Math.min(n, FIRST));
  }

  @Override
  double exponentials(double shift) {
    return DoubleRows.exponentials(source, from, target, to, n, shift, rest, sums);
  }

  @Override
  double nearExponentials(double shift) {
    return DoubleRows.nearExponentials(source, from, target, to, n, shift, rest, sums);
  }

  @Override
  double nearSum(double shift) {
    return DoubleRows.nearSum(source, from, n, shift, rest, sums);
  }

  @Override
  double nearSum(double shift, int place) {
    int at = place / DoubleRows.RUN * Species.F64.length();
    return DoubleRows.nearSum(source, from, n, shift, rest, sums, largest, at);
  }

  @Override
  void noteLargest(int place) {
    int at = place / DoubleRows.RUN * Species.F64.length();
    DoubleRows.largestOfRuns(source, from, n, largest, at);
  }

  @Override
  boolean isAnyAbove(int run, double threshold) {
    return DoubleRows.isAnyAbove(largest, run * Species.F64.length(), threshold);
  }

  @Override
  int runLength() {
    return DoubleRows.RUN;
  }

  @Override
  void scale(double factor) {
    DoubleRows.scale(source, from, target, to, n, factor);
  }

  @Override
  void weights(RowState state) {
    double shift = state.floor();
    double factor = state.scale(shift);
    DoubleRows.scaledExponentials(source, from, target, to, n, shift, factor, rest);
  }

  @Override
  void subtract(double high, double low) {
    DoubleRows.subtract(source, from, target, to, n, high, low);
  }

  @Override
  int findAbove(int i, int end, double threshold) {
    return DoubleRows.findAbove(source, from, i, end, threshold);
  }

  @Override
  int above(int begin, int end, double threshold, int[] positions) {
    return DoubleRows.above(source, from, begin, end, threshold, positions);
  }

  @Override
  int lanes() {
    return Species.F64.length();
  }

  @Override
  void open(int slot, Elements x, long row, long begin, int n, double weight) {
    weights[slot] = weight;
    long offset = x.offset(row, begin);
    double[] array = x.doubles();
    if (array != null) {
      sources[slot] = array;
      froms[slot] = x.position(offset);
    } else {
      sources[slot] = scratch;
      froms[slot] = slot * BLOCK;
      x.read(offset, scratch, slot * BLOCK, n);
    }
  }

  @Override
  void weightedSum(int count, boolean continued, int length) {
    n = length;
    double[] start = continued ? written : ZEROS;
    DoubleRows.weightedSum(sources, froms, weights, count, start, target, to, n);
  }

  @Override
  void differences(double shift, float[] into) {
    for (int i = 0; i < n; i++) {
      into[i] = (float) (source[from + i] - shift);
    }
  }

  @Override
  void scores(double shift, double temperature, double[] into) {
    for (int i = 0; i < n; i++) {
      into[i] = (source[from + i] - shift) / temperature;
    }
  }
}
