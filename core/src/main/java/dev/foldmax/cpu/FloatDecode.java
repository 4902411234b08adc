package dev.foldmax.cpu;

import dev.foldmax.KeyValues;
import dev.foldmax.Rescale;
import dev.foldmax.Tensor;
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

  /** Elements of keys or values worked on at a time: half of a first-level cache of 32 KiB. */
  private static final int CHUNK = 4096;

  private static final int V = FloatStream.V;
  private static final int ROWS = FloatStream.ROWS;

  private final FloatIo io = new FloatIo();
  private final FloatScores view = new FloatScores(this, io, TILE, 1, TILE);

  private int keyDims;
  private int valueDims;
  private float factor;
  private float factorLow;
  private float least;
  private float threshold;

  // What the steps work on: some keys of a tile, and how far into it they begin.
  private long tileBegin;
  private int lead;
  private int keyCount;

  /** What {@link FloatStream#touch} returned; not private, so that nothing finds it unread. */
  int touched;

  private float[] q = {}; // (rows, keyDims): padded with zeros
  private float[] o = {}; // (rows, valueDims): likewise
  private float[] max = {}; // (rows)
  private float[] sum = {}; // (rows)
  private float[][] levelO = {}; // (levels)(rows, valueDims)
  private float[][] levelMax = {}; // (levels)(rows)
  private float[][] levelSum = {}; // (levels)(rows)
  private float[] keys = {}; // (chunk, keyDims)
  private float[] values = {}; // (chunk, valueDims)
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
    return Math.max(1, Math.ceilDiv(dims, V)) * V;
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
    if (keys.length < chunk(keyDims) * keyDims) {
      keys = new float[chunk(keyDims) * keyDims];
    }
    if (values.length < chunk(valueDims) * valueDims) {
      values = new float[chunk(valueDims) * valueDims];
    }
    if (keyDims != call().keyDim()) {
      Arrays.fill(keys, 0); // padding: another head dimension may have left a NaN there
    }
  }

  @Override
  void clearState() {
    Arrays.fill(o, 0, rows() * valueDims, 0);
    Arrays.fill(max, 0, rows(), Float.NEGATIVE_INFINITY);
    Arrays.fill(sum, 0, rows(), 0);
  }

  /**
   * The five lines, row by row, around the two products, four rows at a time. A key's score has a
   * fixed place in its tile, whichever part of the tile is folded: the sum adds lanes up in an
   * order that must not depend on what the other rows of the block see.
   */
  @Override
  void foldTile(long begin, int n) {
    tileBegin = begin;
    lead = (int) (begin % TILE);
    keyCount = n;
    for (Step step : STEPS) {
      step.run(this);
    }
  }

  /** A step of folding a tile; apart for the reason that {@link FloatPrefill} gives. */
  private interface Step {
    void run(FloatDecode engine);
  }

  private static final Step[] STEPS = {
    FloatDecode::score,
    FloatDecode::scale,
    FloatDecode::softCap,
    FloatDecode::modify,
    FloatDecode::weigh,
    FloatDecode::addValues
  };

  private void weigh() {
    int padded = Math.ceilDiv(lead + keyCount, V) * V;
    for (int r = 0; r < rows(); r++) {
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
  }

  /**
   * Dot products with the tile's keys: where they lie, if they do so in one piece of an array, else
   * through scratch, as many at a time as stay in the first-level cache.
   */
  private void score() {
    long begin = tileBegin;
    int n = keyCount;
    int chunk = chunk(keyDims);
    KeyValues kv = call().keyValues();
    Elements inPlace = keyElements();
    float[] array = inPlace == null ? null : inPlace.floats();
    if (inPlace != null
        && array != null
        && keyDims == call().keyDim()
        && kv.run(batch(), begin, begin + n) == n) {
      int at = inPlace.position(offset(kv.keys(), begin));
      int stride = (int) kv.keys().stride(2);
      for (int j = 0; j < n; j += chunk) {
        scoreKeys(array, at + j * stride, stride, lead + j, Math.min(chunk, n - j));
      }
      return;
    }
    for (int j = 0; j < n; j += chunk) {
      int count = Math.min(chunk, n - j);
      io.readRows(
          kv,
          kv.keys(),
          kv.keyScales(),
          batch(),
          keyHead(),
          begin + j,
          count,
          0,
          call().keyDim(),
          keys,
          0,
          keyDims);
      scoreKeys(keys, 0, keyDims, lead + j, count);
    }
  }

  private static int chunk(int dims) {
    return Math.clamp(CHUNK / dims, 1, TILE);
  }

  /** The offset, in elements, of a position's row. */
  private long offset(Tensor tensor, long position) {
    KeyValues kv = call().keyValues();
    return kv.block(batch(), position) * tensor.stride(0)
        + keyHead() * tensor.stride(1)
        + kv.row(batch(), position) * tensor.stride(2);
  }

  private void scoreKeys(float[] k, int k0, int stride, int first, int n) {
    int r = 0;
    for (; r + ROWS <= rows(); r += ROWS) {
      FloatStream.scoresOfFour(
          q, r * keyDims, k, k0, stride, keyDims, scores, r * TILE + first, TILE, n);
    }
    for (; r < rows(); r++) {
      FloatStream.scoresOfOne(q, r * keyDims, k, k0, stride, keyDims, scores, r * TILE + first, n);
    }
  }

  private void addValues() {
    long begin = tileBegin;
    int n = keyCount;
    int chunk = chunk(valueDims);
    KeyValues kv = call().keyValues();
    Elements inPlace = valueElements();
    float[] array = inPlace == null ? null : inPlace.floats();
    if (inPlace != null
        && array != null
        && valueDims == call().valueDim()
        && kv.run(batch(), begin, begin + n) == n) {
      int at = inPlace.position(offset(kv.values(), begin));
      int stride = (int) kv.values().stride(2);
      for (int j = 0; j < n; j += chunk) {
        int count = Math.min(chunk, n - j);
        if (rows() >= ROWS) {
          touched ^= FloatStream.touch(array, at + j * stride, stride, valueDims, count);
        }
        addValues(array, at + j * stride, stride, lead + j, count);
      }
      return;
    }
    for (int j = 0; j < n; j += chunk) {
      int count = Math.min(chunk, n - j);
      io.readRows(
          kv,
          kv.values(),
          kv.valueScales(),
          batch(),
          keyHead(),
          begin + j,
          count,
          0,
          call().valueDim(),
          values,
          0,
          valueDims);
      addValues(values, 0, valueDims, lead + j, count);
    }
  }

  private void addValues(float[] v, int v0, int stride, int first, int n) {
    if (isCareful()) {
      addVisibleValues(v, v0, stride, first, n);
      return;
    }
    int r = 0;
    for (; r + ROWS <= rows(); r += ROWS) {
      FloatStream.valuesOfFour(
          v, v0, stride, valueDims, scores, r * TILE + first, TILE, n, o, r * valueDims);
    }
    for (; r < rows(); r++) {
      FloatStream.valuesOfOne(
          v, v0, stride, valueDims, scores, r * TILE + first, n, o, r * valueDims);
    }
  }

  /** The values kernels' arithmetic, one by one, without the values of hidden keys. */
  private void addVisibleValues(float[] v, int v0, int stride, int first, int n) {
    for (int r = 0; r < rows(); r++) {
      for (int j = 0; j < n; j++) {
        int at = r * TILE + first + j;
        if (hidden[at] == Float.NEGATIVE_INFINITY) {
          continue;
        }
        for (int d = 0; d < call().valueDim(); d++) {
          int to = r * valueDims + d;
          o[to] = Math.fma(scores[at], v[v0 + j * stride + d], o[to]);
        }
      }
    }
  }

  private void scale() {
    if (hasScaledScores()) {
      FloatScores.scale(scores, rows() * TILE, (float) call().scale());
    }
  }

  private void softCap() {
    if (call().attention().softCap() > 0) {
      FloatScores.softCap(scores, rows() * TILE, FloatScores.capOf(call().attention()));
    }
  }

  /** Bias, ALiBi, the user's function, and last the mask. */
  private void modify() {
    long begin = tileBegin;
    int n = keyCount;
    int padded = Math.ceilDiv(lead + n, V) * V;
    view.over(scores, lead).set(0, rows(), begin, n);
    if (hasScaledScores()) {
      view.addBiases();
      view.applyFunction();
    }
    for (int r = 0; r < rows(); r++) {
      int first = lead + Math.clamp(visibleBegin(r) - begin, 0, n);
      int end = lead + Math.clamp(visibleEnd(r) - begin, 0, n);
      Arrays.fill(scores, r * TILE, r * TILE + first, Float.NEGATIVE_INFINITY);
      Arrays.fill(scores, r * TILE + end, r * TILE + padded, Float.NEGATIVE_INFINITY);
    }
    if (!call().attention().mask().isInterval()) {
      view.hideMasked();
    }
    if (isCareful()) {
      if (hidden.length < scores.length) {
        hidden = new float[scores.length];
      }
      System.arraycopy(scores, 0, hidden, 0, rows() * TILE);
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
