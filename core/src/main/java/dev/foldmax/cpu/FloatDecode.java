package dev.foldmax.cpu;

import dev.foldmax.KeyValues;
import dev.foldmax.Rescale;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Attention of few queries over many keys in float32, see {@link FloatStream}: the rows of all
 * query heads that share a key head go together, and keys and values are read once for all of them.
 * The outputs' lanes are dimensions; what the scores' lanes are is the subclasses' matter.
 */
abstract class FloatDecode extends TileEngine {
  private static final int MAX_ROWS = 64;

  /** Elements of keys or values worked on at a time: half of a first-level cache of 32 KiB. */
  private static final int CHUNK = 4096;

  static final int V = FloatStream.V;
  static final int ROWS = FloatStream.ROWS;

  final FloatIo io = new FloatIo();
  private final FloatScores view;

  /** The keys of a tile, and the step from a row's scores to the next row's. */
  final int tile;

  int keyDims;
  int valueDims;
  private float factor;
  private float factorLow;
  private float least;
  private float threshold;

  // What the steps work on: some keys of a tile, and where in the scratch their scores begin.
  long tileBegin;
  int lead;
  int keyCount;
  private int paddedEnd;

  static final int PIECES = 4;

  /** Where pieces of a tile begin in their array. */
  final int[] pieces = new int[PIECES];

  /** The most pieces that {@link #touch} goes through at a time. */
  private static final int STREAMS = 16;

  /** Where they begin. */
  private final int[] touching = new int[STREAMS];

  /** What {@link FloatStream#touch} returned; not private, so that nothing finds it unread. */
  int touched;

  // Rows are rounded up to ROWS: those beyond have a query of zeros, and nothing reads them.
  float[] q = {}; // (rows, keyDims): padded with zeros
  float[] o = {}; // (rows, valueDims): likewise
  private float[] max = {}; // (rows)
  private float[] sum = {}; // (rows)
  private float[][] levelO = {}; // (levels)(rows, valueDims)
  private float[][] levelMax = {}; // (levels)(rows)
  private float[][] levelSum = {}; // (levels)(rows)
  float[] keys = {}; // (keyChunk, keyDims)
  float[] values = {}; // (chunk, but PIECES at least, valueDims)
  float[] scores = {}; // (rows, tile)
  private float[] hidden = {}; // (rows, tile), when careful

  FloatDecode(int tile, int cell) {
    super(tile, cell);
    this.tile = tile;
    this.view = new FloatScores(this, io, tile, 1, tile);
  }

  /** Where in the scratch a tile's scores begin when its first key in use is at a position. */
  abstract int lead(long begin);

  /**
   * Where in the scratch the scores end that are turned into weights, a multiple of V: those from
   * {@code end}, where the scores of keys in use end, are of no key and become 0.
   */
  abstract int paddedEnd(int end);

  /** Dot products with the tile's keys. */
  abstract void score();

  /**
   * Adds up each row's weights of a tile, of which there are {@code n}, a multiple of V, and adds
   * what comes out to the row's sum.
   */
  abstract void addWeights(float[] weights, int n, float[] sums);

  /** Adds the tile's weighted values to the outputs. */
  abstract void addValues();

  /** How many keys there is scratch for. */
  abstract int keyChunk();

  /** How many keys' values there is scratch for. */
  int valueChunk() {
    return chunk(valueDims);
  }

  @Override
  int maxRows(AttentionCall call, int b) {
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
    Arrays.fill(q, 0);
    for (int r = 0; r < rows(); r++) {
      io.readQuery(this, r, q, r * keyDims);
    }
  }

  private void reserve() {
    int rows = Math.ceilDiv(rows(), ROWS) * ROWS;
    if (q.length < rows * keyDims) {
      q = new float[rows * keyDims];
    }
    if (o.length < rows * valueDims || max.length < rows) {
      int mostRows = Math.max(rows, max.length);
      o = new float[Math.max(o.length, mostRows * valueDims)];
      max = new float[mostRows];
      sum = new float[mostRows];
      scores = new float[mostRows * tile];
      levelO = new float[0][];
      levelMax = new float[0][];
      levelSum = new float[0][];
    }
    if (keys.length < keyChunk() * keyDims) {
      keys = new float[keyChunk() * keyDims];
    }
    int valueRows = Math.max(PIECES, valueChunk());
    if (values.length < valueRows * valueDims) {
      values = new float[valueRows * valueDims];
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

  /** The five lines, row by row, around the two products, four rows at a time. */
  @Override
  void foldTile(long begin, int n) {
    tileBegin = begin;
    lead = lead(begin);
    keyCount = n;
    paddedEnd = paddedEnd(lead + n);
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
    for (int r = 0; r < rows(); r++) {
      float candidate = FloatStream.max(scores, r * tile, paddedEnd);
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
      FloatStream.weigh(scores, r * tile, paddedEnd, reference, factor, factorLow, least);
    }
    addWeights(scores, paddedEnd, sum);
  }

  /** The array whose rows kernels can read where they lie, or null if they need scratch. */
  static float @Nullable [] inPlace(Elements rows, @Nullable Tensor scales, int paddedDims) {
    return scales == null && paddedDims == rows.tensor().shape(3) ? rows.floats() : null;
  }

  /** How many of the next {@code most} keys of the tile lie in one run. */
  final int run(int key, int most) {
    long position = tileBegin + key;
    return (int) call().keyValues().run(batch(), position, position + most);
  }

  /** Where in its array the row of a key of the tile begins. */
  final int position(Elements elements, int key) {
    KeyValues kv = call().keyValues();
    Tensor tensor = elements.tensor();
    return elements.position(
        kv.block(batch(), tileBegin + key) * tensor.stride(0)
            + keyHead() * tensor.stride(1)
            + kv.row(batch(), tileBegin + key) * tensor.stride(2));
  }

  static int rowStride(Elements elements) {
    return (int) elements.tensor().stride(2);
  }

  /**
   * Brings the tile's rows into the second-level cache, four pieces at a time, or as many shorter
   * ones as lie apart: decoding over pages of 16 keys was measured 4 to 13 % slower when they were
   * gone through four by four.
   */
  final void touch(Elements elements, float[] array, int dims) {
    int piece = Math.max(1, keyCount / PIECES);
    int stride = rowStride(elements);
    int streams = 0;
    int length = 0;
    for (int key = 0; key < keyCount; key += length) {
      int run = run(key, Math.min(piece, keyCount - key));
      if (streams == STREAMS || run != length) {
        touched ^= FloatStream.touch(array, touching, streams, stride, dims, length);
        streams = 0;
        length = run;
      }
      touching[streams++] = position(elements, key);
    }
    touched ^= FloatStream.touch(array, touching, streams, stride, dims, length);
  }

  /** How many rows of so many dimensions make up the scratch's share of the cache. */
  final int chunk(int dims) {
    return Math.clamp(CHUNK / dims, 1, tile);
  }

  /** Adds the weighted value of one key to the outputs of the rows that may see it. */
  final void addVisibleValue(float[] v, int row, int place) {
    for (int r = 0; r < rows(); r++) {
      int at = r * tile + place;
      if (hidden[at] == Float.NEGATIVE_INFINITY) {
        continue;
      }
      for (int d = 0; d < call().valueDim(); d++) {
        int to = r * valueDims + d;
        o[to] = Math.fma(scores[at], v[row + d], o[to]);
      }
    }
  }

  private void scale() {
    if (hasScaledScores()) {
      FloatScores.scale(scores, rows() * tile, (float) call().scale());
    }
  }

  private void softCap() {
    if (call().attention().softCap() > 0) {
      FloatScores.softCap(scores, rows() * tile, FloatScores.capOf(call().attention()));
    }
  }

  /** Bias, ALiBi, the user's function, and last the mask. */
  private void modify() {
    long begin = tileBegin;
    int n = keyCount;
    view.over(scores, lead).set(0, rows(), begin, n);
    if (hasScaledScores()) {
      view.addBiases();
      view.applyFunction();
    }
    for (int r = 0; r < rows(); r++) {
      int first = lead + Math.clamp(visibleBegin(r) - begin, 0, n);
      int end = lead + Math.clamp(visibleEnd(r) - begin, 0, n);
      Arrays.fill(scores, r * tile, r * tile + first, Float.NEGATIVE_INFINITY);
      Arrays.fill(scores, r * tile + end, r * tile + paddedEnd, Float.NEGATIVE_INFINITY);
    }
    if (!call().attention().mask().isInterval()) {
      view.hideMasked();
    }
    if (isCareful()) {
      if (hidden.length < scores.length) {
        hidden = new float[scores.length];
      }
      System.arraycopy(scores, 0, hidden, 0, rows() * tile);
    }
  }

  @Override
  void mergeLevel(int level) {
    float[] earlierMax = levelMax[level];
    float[] earlierSum = levelSum[level];
    for (int r = 0; r < rows(); r++) {
      float m = earlierMax[r] > max[r] ? earlierMax[r] : max[r];
      float c1 = correction(earlierMax[r], m, factor, factorLow, least);
      float c2 = correction(max[r], m, factor, factorLow, least);
      sum[r] = sum[r] * c2 + earlierSum[r] * c1;
      FloatStream.mergeOutputs(levelO[level], r * valueDims, c1, o, r * valueDims, c2, valueDims);
      max[r] = m;
    }
  }

  /**
   * What takes a state's terms from its maximum to a larger one; exactly 1 where it is the same.
   */
  static float correction(float from, float to, float factor, float factorLow, float least) {
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
