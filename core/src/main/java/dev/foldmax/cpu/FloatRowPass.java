package dev.foldmax.cpu;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** The operations in float32, on F32, F16 and BF16. */
final class FloatRowPass extends RowPass {
  private static final float[] ZEROS = new float[BLOCK];

  private final float[] scratch = new float[SPAN];
  private final float[] read = new float[BLOCK];
  private final float[] written = new float[BLOCK];

  /** The largest of each lane of each run of a span. */
  private final float[] largest = new float[SPAN / FloatRows.RUN * Species.F32.length()];

  private final float[] lanes = new float[2 * Species.F32.length()];
  private final float[] rest = new float[Species.F32.length()];
  private final float[] sums = new float[FloatRows.SUMS];
  private final short[] bits = new short[BLOCK];

  private int n;
  private float[] source = read;
  private int from;
  private float[] target = written;
  private int to;
  private float[] kept = scratch;
  private int keptFrom;

  private final float[][] sources = new float[SLOTS][];
  private final int[] froms = new int[SLOTS];
  private final float[] weights = new float[SLOTS];

  /** Where the target has to be written, or null if it is there already. */
  private @Nullable Elements out;

  private long outOffset;

  FloatRowPass(Workers.Account account) {
    super(account);
  }

  @Override
  void open(Elements x, long row, long begin, int n) {
    this.n = n;
    long offset = x.offset(row, begin);
    float[] array = x.floats();
    if (array != null) {
      source = array;
      from = x.position(offset);
    } else {
      source = read;
      from = 0;
      x.read(offset, read, 0, n, bits);
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
    float[] array = out.floats();
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
      out.write(target, to, outOffset, n, bits);
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
    return FloatRows.max(source, from, n, lanes);
  }

  @Override
  double boundOfLargest(int k) {
    if (k > lanes.length) {
      return Double.NaN;
    }
    float least = FloatRows.kthLargest(lanes, k);
    return least == Float.NEGATIVE_INFINITY ? Double.NaN : Math.nextDown(least);
  }

  @Override
  double boundOfRuns(int k, int n) {
    int lanesOfRuns = Math.ceilDiv(n, FloatRows.RUN) * Species.F32.length();
    FloatRows.largestOfLanes(largest, 0, lanesOfRuns, lanes);
    return boundOfLargest(k);
  }

  @Override
  double firstMax() {
    return FloatRows.maxOfFew(source, from, Math.min(n, FIRST));
  }

  @Override
  double exponentials(double shift) {
    return FloatRows.exponentials(source, from, target, to, n, (float) shift, rest, sums);
  }

  @Override
  double nearExponentials(double shift) {
    return FloatRows.nearExponentials(source, from, target, to, n, (float) shift, rest, sums);
  }

  @Override
  double nearSum(double shift) {
    return FloatRows.nearSum(source, from, n, (float) shift, rest, sums);
  }

  @Override
  double nearSum(double shift, int place) {
    int at = place / FloatRows.RUN * Species.F32.length();
    return FloatRows.nearSum(source, from, n, (float) shift, rest, sums, largest, at);
  }

  @Override
  void noteLargest(int place) {
    int at = place / FloatRows.RUN * Species.F32.length();
    FloatRows.largestOfRuns(source, from, n, largest, at);
  }

  @Override
  boolean isAnyAbove(int run, double threshold) {
    return FloatRows.isAnyAbove(largest, run * Species.F32.length(), (float) threshold);
  }

  @Override
  int runLength() {
    return FloatRows.RUN;
  }

  @Override
  void scale(double factor) {
    FloatRows.scale(source, from, target, to, n, (float) factor);
  }

  @Override
  void weights(RowState state) {
    float shift = state.floatFloor();
    float factor = (float) state.scale(shift);
    FloatRows.scaledExponentials(source, from, target, to, n, shift, factor, rest);
  }

  @Override
  void subtract(double high, double low) {
    float h = (float) high;
    FloatRows.subtract(source, from, target, to, n, h, (float) (high - h + low));
  }

  @Override
  int findAbove(int i, int end, double threshold) {
    return FloatRows.findAbove(source, from, i, end, (float) threshold);
  }

  @Override
  int above(int begin, int end, double threshold, int[] positions) {
    return FloatRows.above(source, from, begin, end, (float) threshold, positions);
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
    float[] start = continued ? written : ZEROS;
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
