package dev.foldmax.cpu;

import dev.foldmax.KeyValues;
import dev.foldmax.Rescale;
import dev.foldmax.spi.AttentionCall;
import java.util.Arrays;

/**
 * Attention of few queries over many keys in float32, see {@link FloatStream}: the rows of all
 * query heads that share a key head go together, and keys and values are read once for all of them.
 */
final class FloatDecode extends TileEngine {
  private static final int TILE = 128;

  /** A quarter of the cell of {@link FloatPrefill}: splits at its cells are splits at these. */
  private static final int CELL = 12 * TILE;

  private static final int MAX_ROWS = 64;
  private static final int V = FloatStream.V;
  private static final int STEP = FloatStream.STEP;
  private static final int ROWS = FloatStream.ROWS;

  private final FloatIo io = new FloatIo();
  private final FloatScores view = new FloatScores(this, io, TILE, 1, TILE);

  private int keyDims;
  private int valueDims;
  private float factor;
  private float factorLow;
  private float least;
  private float threshold;

  private float[] q = {}; // (rows, keyDims): padded with zeros
  private float[] o = {}; // (rows, valueDims): likewise
  private float[] max = {}; // (rows)
  private float[] sum = {}; // (rows)
  private float[][] levelO = {}; // (levels)(rows, valueDims)
  private float[][] levelMax = {}; // (levels)(rows)
  private float[][] levelSum = {}; // (levels)(rows)
  private float[] keys = {}; // (TILE, keyDims)
  private float[] values = {}; // (TILE, valueDims)
  private float[] scores = {}; // (rows, TILE)
  private float[] hidden = {}; // (rows, TILE), when careful

  FloatDecode() {
    super(TILE, CELL);
  }

  @Override
  String describe() {
    return "decode f32, lanes are dimensions, vectors of " + V;
  }

  @Override
  int maxRows(AttentionCall call) {
    return MAX_ROWS;
  }

  private static int padded(int dims) {
    return Math.max(1, Math.ceilDiv(dims, STEP)) * STEP;
  }

  @Override
  void packQueries() {
    AttentionCall call = call();
    keyDims = padded(call.keyDim());
    valueDims = padded(call.valueDim());
    double c = scoreUnit() * Exponential.LOG2_E_DOUBLE;
    factor = (float) c;
    factorLow = Exponential.low(c);
    least = Exponential.least(factor);
    threshold = rescale() == Rescale.LAZY ? (float) (call.attention().tau() / c) : 0;
    reserve();
    Arrays.fill(q, 0, rows() * keyDims, 0);
    for (int r = 0; r < rows(); r++) {
      io.readQuery(this, r, q, r * keyDims);
    }
  }

  private void reserve() {
    int rows = rows();
    if (q.length < rows * keyDims) {
      q = new float[rows * keyDims];
    }
    if (o.length < rows * valueDims || max.length < rows) {
      int mostRows = Math.max(rows, max.length);
      o = new float[Math.max(o.length, mostRows * valueDims)];
      max = new float[mostRows];
      sum = new float[mostRows];
      scores = new float[mostRows * TILE];
      levelO = new float[0][];
      levelMax = new float[0][];
      levelSum = new float[0][];
    }
    // Padding stays zero: other head dimensions may have left theirs.
    if (keys.length != TILE * keyDims) {
      keys = new float[TILE * keyDims];
    }
    if (values.length != TILE * valueDims) {
      values = new float[TILE * valueDims];
    }
  }

  @Override
  void clearState() {
    Arrays.fill(o, 0, rows() * valueDims, 0);
    Arrays.fill(max, 0, rows(), Float.NEGATIVE_INFINITY);
    Arrays.fill(sum, 0, rows(), 0);
  }

  /** The five lines, row by row, around the two products, four rows at a time. */
  @Override
  void foldTile(long begin, int n) {
    KeyValues kv = call().keyValues();
    io.readRows(
        kv,
        kv.keys(),
        kv.keyScales(),
        batch(),
        keyHead(),
        begin,
        n,
        0,
        call().keyDim(),
        keys,
        0,
        keyDims);
    io.readRows(
        kv,
        kv.values(),
        kv.valueScales(),
        batch(),
        keyHead(),
        begin,
        n,
        0,
        call().valueDim(),
        values,
        0,
        valueDims);
    score(n);
    modify(begin, n);
    if (isCareful()) {
      if (hidden.length < scores.length) {
        hidden = new float[scores.length];
      }
      System.arraycopy(scores, 0, hidden, 0, rows() * TILE);
    }
    int padded = Math.ceilDiv(n, V) * V;
    for (int r = 0; r < rows(); r++) {
      Arrays.fill(scores, r * TILE + n, r * TILE + padded, Float.NEGATIVE_INFINITY);
      float candidate = FloatStream.max(scores, r * TILE, padded);
      boolean rises = candidate > max[r] + threshold;
      float m = rises ? candidate : max[r];
      if (rises || rescale() == Rescale.ALWAYS) {
        float c = rises ? Exponential.pow2(max[r] - m, factor, factorLow, least) : 1;
        sum[r] *= c;
        FloatStream.correct(o, r * valueDims, valueDims, c);
        max[r] = m;
      }
      // A row that has seen nothing but -inf: (-inf) - (-inf) would be NaN.
      float reference = m == Float.NEGATIVE_INFINITY ? 0 : m;
      sum[r] += FloatStream.weigh(scores, r * TILE, padded, reference, factor, factorLow, least);
    }
    if (isCareful()) {
      addVisibleValues(n);
    } else {
      addValues(n);
    }
  }

  private void score(int n) {
    int r = 0;
    for (; r + ROWS <= rows(); r += ROWS) {
      FloatStream.scoresOfFour(
          q, r * keyDims, keys, 0, keyDims, keyDims, scores, r * TILE, TILE, n);
    }
    for (; r < rows(); r++) {
      FloatStream.scoresOfOne(q, r * keyDims, keys, 0, keyDims, keyDims, scores, r * TILE, n);
    }
  }

  private void addValues(int n) {
    int r = 0;
    for (; r + ROWS <= rows(); r += ROWS) {
      FloatStream.valuesOfFour(
          values, 0, valueDims, valueDims, scores, r * TILE, TILE, n, o, r * valueDims);
    }
    for (; r < rows(); r++) {
      FloatStream.valuesOfOne(
          values, 0, valueDims, valueDims, scores, r * TILE, n, o, r * valueDims);
    }
  }

  /** The values kernels' arithmetic, one by one, without the values of hidden keys. */
  private void addVisibleValues(int n) {
    for (int r = 0; r < rows(); r++) {
      for (int j = 0; j < n; j++) {
        if (hidden[r * TILE + j] == Float.NEGATIVE_INFINITY) {
          continue;
        }
        float weight = scores[r * TILE + j];
        for (int d = 0; d < call().valueDim(); d++) {
          int at = r * valueDims + d;
          o[at] = Math.fma(weight, values[j * valueDims + d], o[at]);
        }
      }
    }
  }

  /** Scale, soft cap, bias, ALiBi, the user's function, and last the mask. */
  private void modify(long begin, int n) {
    view.over(scores, 0).set(0, rows(), begin, n);
    if (hasScaledScores()) {
      FloatScores.scale(
          scores, rows() * TILE, (float) call().scale(), (float) call().attention().softCap());
      view.addBiases();
      view.applyFunction();
    }
    for (int r = 0; r < rows(); r++) {
      int first = Math.clamp(visibleBegin(r) - begin, 0, n);
      int end = Math.clamp(visibleEnd(r) - begin, first, n);
      Arrays.fill(scores, r * TILE, r * TILE + first, Float.NEGATIVE_INFINITY);
      Arrays.fill(scores, r * TILE + end, r * TILE + n, Float.NEGATIVE_INFINITY);
    }
    if (!call().attention().mask().isInterval()) {
      view.hideMasked();
    }
  }

  @Override
  void mergeLevel(int level) {
    float[] earlierMax = levelMax[level];
    float[] earlierSum = levelSum[level];
    for (int r = 0; r < rows(); r++) {
      float m = earlierMax[r] > max[r] ? earlierMax[r] : max[r];
      float c1 = correction(earlierMax[r], m);
      float c2 = correction(max[r], m);
      sum[r] = sum[r] * c2 + earlierSum[r] * c1;
      FloatStream.mergeOutputs(levelO[level], r * valueDims, c1, o, r * valueDims, c2, valueDims);
      max[r] = m;
    }
  }

  private float correction(float from, float to) {
    return from == to ? 1 : Exponential.pow2(from - to, factor, factorLow, least);
  }

  @Override
  void moveToLevel(int level) {
    if (levelO.length <= level) {
      int had = levelO.length;
      levelO = Arrays.copyOf(levelO, level + 1);
      levelMax = Arrays.copyOf(levelMax, level + 1);
      levelSum = Arrays.copyOf(levelSum, level + 1);
      for (int i = had; i <= level; i++) {
        levelO[i] = new float[o.length];
        levelMax[i] = new float[max.length];
        levelSum[i] = new float[max.length];
      }
    }
    System.arraycopy(o, 0, levelO[level], 0, rows() * valueDims);
    System.arraycopy(max, 0, levelMax[level], 0, rows());
    System.arraycopy(sum, 0, levelSum[level], 0, rows());
    clearState();
  }

  @Override
  int partialSize(AttentionCall call, int blockRows) {
    return blockRows * (2 + padded(call.valueDim()));
  }

  @Override
  void save(Partials partials, long index) {
    float[] to = partials.floats(index);
    System.arraycopy(max, 0, to, 0, rows());
    System.arraycopy(sum, 0, to, rows(), rows());
    System.arraycopy(o, 0, to, 2 * rows(), rows() * valueDims);
  }

  @Override
  void load(Partials partials, long index) {
    float[] from = partials.floats(index);
    System.arraycopy(from, 0, max, 0, rows());
    System.arraycopy(from, rows(), sum, 0, rows());
    System.arraycopy(from, 2 * rows(), o, 0, rows() * valueDims);
  }

  @Override
  boolean finish() {
    boolean finite = true;
    for (int r = 0; r < rows(); r++) {
      finite &= io.finish(this, r, max[r], sum[r], o, r * valueDims);
    }
    return finite;
  }
}
