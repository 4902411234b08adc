package dev.foldmax.cpu;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** The operations in float32, on F32, F16 and BF16. */
final class FloatRowPass extends RowPass {
  private static final float[] ZEROS = new float[BLOCK];

  private final float[] scratch = new float[SPAN];
  private final float[] sums = new float[BLOCK];
  private final float[] lanes = new float[Species.F32.length()];
  private final float[] rest = new float[Species.F32.length()];
  private final double[] laneSums = new double[Species.F32.length()];
  private final short[] bits = new short[BLOCK];

  private int n;
  private float[] source = scratch;
  private int from;
  private float[] target = scratch;
  private int to;

  private final float[][] sources = new float[SLOTS][];
  private final int[] froms = new int[SLOTS];
  private final float[] weights = new float[SLOTS];

  /** Where the target has to be written, or null if it is there already. */
  private @Nullable Elements out;

  private long outOffset;

  @Override
  void open(Elements x, long row, long begin, int n) {
    this.n = n;
    long offset = x.offset(row, begin);
    float[] array = x.floats();
    if (array != null) {
      source = array;
      from = x.position(offset);
    } else {
      source = scratch;
      from = 0;
      x.read(offset, scratch, 0, n, bits);
    }
  }

  @Override
  void aim(Elements tensor, long row, long begin) {
    outOffset = tensor.offset(row, begin);
    float[] array = tensor.floats();
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
      out.write(target, to, outOffset, n, bits);
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
    return FloatRows.max(source, from, n, lanes);
  }

  @Override
  double boundOfLargest(int k) {
    if (k > lanes.length) {
      return Double.NaN;
    }
    Arrays.sort(lanes);
    float least = lanes[lanes.length - k];
    return least == Float.NEGATIVE_INFINITY ? Double.NaN : Math.nextDown(least);
  }

  @Override
  double exponentials(double shift) {
    return FloatRows.exponentials(
        source, from, target, to, n, (float) shift, lanes, rest, laneSums);
  }

  @Override
  void scale(double factor) {
    FloatRows.scale(target, to, n, (float) factor);
  }

  @Override
  void scaledExponentials(double shift, double factor) {
    FloatRows.scaledExponentials(source, from, target, to, n, (float) shift, (float) factor, rest);
  }

  @Override
  void subtract(double shift, double log) {
    FloatRows.subtract(source, from, target, to, n, (float) shift, (float) log);
  }

  @Override
  int findAbove(int i, double threshold) {
    return FloatRows.findAbove(source, from, i, n, (float) threshold);
  }

  @Override
  int lanes() {
    return Species.F32.length();
  }

  @Override
  void open(int slot, Elements x, long row, long begin, int n, double weight) {
    weights[slot] = (float) weight;
    long offset = x.offset(row, begin);
    float[] array = x.floats();
    if (array != null) {
      sources[slot] = array;
      froms[slot] = x.position(offset);
    } else {
      sources[slot] = scratch;
      froms[slot] = slot * BLOCK;
      x.read(offset, scratch, slot * BLOCK, n, bits);
    }
  }

  @Override
  void weightedSum(int count, boolean continued, int length) {
    n = length;
    float[] start = continued ? sums : ZEROS;
    FloatRows.weightedSum(sources, froms, weights, count, start, target, to, n);
  }

  @Override
  void differences(double shift, float[] into) {
    FloatRows.subtract(source, from, into, 0, n, (float) shift, 0);
  }

  @Override
  void scores(double shift, double temperature, double[] into) {
    for (int i = 0; i < n; i++) {
      into[i] = (source[from + i] - shift) / temperature;
    }
  }
}
