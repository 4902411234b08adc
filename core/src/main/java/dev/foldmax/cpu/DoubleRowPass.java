package dev.foldmax.cpu;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** The operations in float64, on F64 and, where another input is F64, on any floating type. */
final class DoubleRowPass extends RowPass {
  private static final double[] ZEROS = new double[BLOCK];

  private final double[] scratch = new double[SPAN];
  private final double[] sums = new double[BLOCK];
  private final double[] lanes = new double[Species.F64.length()];
  private final double[] rest = new double[Species.F64.length()];
  private final double[] laneSums = new double[Species.F64.length()];

  private int n;
  private double[] source = scratch;
  private int from;
  private double[] target = scratch;
  private int to;

  private final double[][] sources = new double[SLOTS][];
  private final int[] froms = new int[SLOTS];
  private final double[] weights = new double[SLOTS];

  /** Where the target has to be written, or null if it is there already. */
  private @Nullable Elements out;

  private long outOffset;

  @Override
  void open(Elements x, long row, long begin, int n) {
    this.n = n;
    long offset = x.offset(row, begin);
    double[] array = x.doubles();
    if (array != null) {
      source = array;
      from = x.position(offset);
    } else {
      source = scratch;
      from = 0;
      x.read(offset, scratch, 0, n);
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
      target = scratch;
      to = 0;
      out = tensor;
    }
  }

  @Override
  void aimAtScratch() {
    target = sums;
    to = 0;
    out = null;
  }

  @Override
  void flush() {
    if (out != null) {
      out.write(target, to, outOffset, n);
    }
  }

  @Override
  void release() {
    source = scratch;
    Arrays.fill(sources, scratch);
    target = scratch;
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
    Arrays.sort(lanes);
    double least = lanes[lanes.length - k];
    return least == Double.NEGATIVE_INFINITY ? Double.NaN : Math.nextDown(least);
  }

  @Override
  double exponentials(double shift) {
    return DoubleRows.exponentials(source, from, target, to, n, shift, lanes, rest, laneSums);
  }

  @Override
  void scale(double factor) {
    DoubleRows.scale(target, to, n, factor);
  }

  @Override
  void scaledExponentials(double shift, double factor) {
    DoubleRows.scaledExponentials(source, from, target, to, n, shift, factor, rest);
  }

  @Override
  void subtract(double shift, double log) {
    DoubleRows.subtract(source, from, target, to, n, shift, log);
  }

  @Override
  int findAbove(int i, double threshold) {
    return DoubleRows.findAbove(source, from, i, n, threshold);
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
    double[] start = continued ? sums : ZEROS;
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
