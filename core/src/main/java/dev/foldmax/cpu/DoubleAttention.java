package dev.foldmax.cpu;

import dev.foldmax.Rescale;
import dev.foldmax.spi.AttentionCall;
import java.util.Arrays;

/**
 * Attention in float64, of any number of queries: the structure of {@link FloatDecode}, rows in
 * groups of four over tiles of keys. One family serves both phases, so a row decoded alone has the
 * bits of the same row prefilled.
 */
final class DoubleAttention extends TileEngine {
  private static final int TILE = 128;

  /**
   * The cell of {@link FloatPrefill} and of {@link FloatDimLanes}: splits at theirs are splits at
   * these.
   */
  private static final int CELL = 12 * TILE;

  private static final int MAX_ROWS = 64;
  private static final int V = DoubleStream.V;
  private static final int ROWS = DoubleStream.ROWS;

  private final DoubleIo io = new DoubleIo();
  private final DoubleScores view = new DoubleScores(this, TILE, 1);

  private int keyDims;
  private int valueDims;
  private double factor;
  private double factorLow;
  private double least;
  private double threshold;

  // What the steps work on: some keys of a tile, and how far into it they begin.
  private long tileBegin;
  private int lead;
  private int keyCount;

  private final double[] lanes = new double[DoubleStream.LANES];
  private double[] q = {}; // (rows, keyDims): padded with zeros
  private double[] o = {}; // (rows, valueDims): likewise
  private double[] max = {}; // (rows)
  private double[] sum = {}; // (rows)
  private double[][] levelO = {}; // (levels)(rows, valueDims)
  private double[][] levelMax = {}; // (levels)(rows)
  private double[][] levelSum = {}; // (levels)(rows)
  private double[] keys = {}; // (TILE, keyDims)
  private double[] values = {}; // (TILE, valueDims)
  private double[] scores = {}; // (rows, TILE)
  private double[] hidden = {}; // (rows, TILE), when careful

  DoubleAttention() {
    super(TILE, CELL);
  }

  @Override
  String describe() {
    return "f64, lanes are dimensions, vectors of " + V;
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
    factor = c;
    factorLow = scoreUnit() * Exponential.LOG2_E_DOUBLE_LOW;
    least = Exponential.least(factor);
    threshold = rescale() == Rescale.LAZY ? (call.attention().tau() / c) : 0;
    reserve();
    Arrays.fill(q, 0, rows() * keyDims, 0);
    for (int r = 0; r < rows(); r++) {
      io.readQuery(this, r, q, r * keyDims);
    }
  }

  private void reserve() {
    int rows = rows();
    if (q.length < rows * keyDims) {
      q = new double[rows * keyDims];
    }
    if (o.length < rows * valueDims || max.length < rows) {
      int mostRows = Math.max(rows, max.length);
      o = new double[Math.max(o.length, mostRows * valueDims)];
      max = new double[mostRows];
      sum = new double[mostRows];
      scores = new double[mostRows * TILE];
      levelO = new double[0][];
      levelMax = new double[0][];
      levelSum = new double[0][];
    }
    if (keys.length < TILE * keyDims) {
      keys = new double[TILE * keyDims];
    }
    if (values.length < TILE * valueDims) {
      values = new double[TILE * valueDims];
    }
    if (keyDims != call().keyDim()) {
      Arrays.fill(keys, 0); // padding: another head dimension may have left a NaN there
    }
  }

  @Override
  void clearState() {
    Arrays.fill(o, 0, rows() * valueDims, 0);
    Arrays.fill(max, 0, rows(), Double.NEGATIVE_INFINITY);
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
    void run(DoubleAttention engine);
  }

  private static final Step[] STEPS = {
    DoubleAttention::loadTile,
    DoubleAttention::score,
    DoubleAttention::modify,
    DoubleAttention::weigh,
    DoubleAttention::addValues
  };

  private void loadTile() {
    io.readKeys(this, tileBegin, keyCount, keys, 0, keyDims);
    io.readValues(this, tileBegin, keyCount, values, 0, valueDims);
  }

  private void weigh() {
    int padded = Math.ceilDiv(lead + keyCount, V) * V;
    for (int r = 0; r < rows(); r++) {
      double candidate = DoubleStream.max(scores, r * TILE, padded);
      boolean rises = candidate > max[r] + threshold;
      double m = rises ? candidate : max[r];
      if (rises || rescale() == Rescale.ALWAYS) {
        double c = rises ? Exponential.pow2(max[r] - m, factor, factorLow, least) : 1;
        sum[r] *= c;
        DoubleStream.correct(o, r * valueDims, valueDims, c);
        max[r] = m;
      }
      // A row that has seen nothing but -inf: (-inf) - (-inf) would be NaN.
      double reference = m == Double.NEGATIVE_INFINITY ? 0 : m;
      sum[r] +=
          DoubleStream.weigh(scores, r * TILE, padded, reference, factor, factorLow, least, lanes);
    }
  }

  private void score() {
    int n = keyCount;
    int r = 0;
    for (; r + ROWS <= rows(); r += ROWS) {
      DoubleStream.scoresOfFour(
          q, r * keyDims, keys, 0, keyDims, keyDims, scores, r * TILE + lead, TILE, n, lanes);
    }
    for (; r < rows(); r++) {
      DoubleStream.scoresOfOne(
          q, r * keyDims, keys, 0, keyDims, keyDims, scores, r * TILE + lead, n, lanes);
    }
  }

  private void addValues() {
    int n = keyCount;
    if (isCareful()) {
      addVisibleValues(n);
      return;
    }
    int r = 0;
    for (; r + ROWS <= rows(); r += ROWS) {
      DoubleStream.valuesOfFour(
          values, 0, valueDims, valueDims, scores, r * TILE + lead, TILE, n, o, r * valueDims);
    }
    for (; r < rows(); r++) {
      DoubleStream.valuesOfOne(
          values, 0, valueDims, valueDims, scores, r * TILE + lead, n, o, r * valueDims);
    }
  }

  /** The values kernels' arithmetic, one by one, without the values of hidden keys. */
  private void addVisibleValues(int n) {
    for (int r = 0; r < rows(); r++) {
      for (int j = 0; j < n; j++) {
        int at = r * TILE + lead + j;
        if (hidden[at] == Double.NEGATIVE_INFINITY) {
          continue;
        }
        for (int d = 0; d < call().valueDim(); d++) {
          int to = r * valueDims + d;
          o[to] = Math.fma(scores[at], values[j * valueDims + d], o[to]);
        }
      }
    }
  }

  /** Scale, soft cap, bias, ALiBi, the user's function, and last the mask. */
  private void modify() {
    long begin = tileBegin;
    int n = keyCount;
    int padded = Math.ceilDiv(lead + n, V) * V;
    view.over(scores, lead).set(0, rows(), begin, n);
    if (hasScaledScores()) {
      DoubleScores.scale(scores, rows() * TILE, call().scale(), call().attention().softCap());
      view.addBiases();
      view.applyFunction();
    }
    for (int r = 0; r < rows(); r++) {
      int first = lead + Math.clamp(visibleBegin(r) - begin, 0, n);
      int end = lead + Math.clamp(visibleEnd(r) - begin, 0, n);
      Arrays.fill(scores, r * TILE, r * TILE + first, Double.NEGATIVE_INFINITY);
      Arrays.fill(scores, r * TILE + end, r * TILE + padded, Double.NEGATIVE_INFINITY);
    }
    if (!call().attention().mask().isInterval()) {
      view.hideMasked();
    }
    if (isCareful()) {
      if (hidden.length < scores.length) {
        hidden = new double[scores.length];
      }
      System.arraycopy(scores, 0, hidden, 0, rows() * TILE);
    }
  }

  @Override
  void mergeLevel(int level) {
    double[] earlierMax = levelMax[level];
    double[] earlierSum = levelSum[level];
    for (int r = 0; r < rows(); r++) {
      double m = earlierMax[r] > max[r] ? earlierMax[r] : max[r];
      double c1 = correction(earlierMax[r], m, factor, factorLow, least);
      double c2 = correction(max[r], m, factor, factorLow, least);
      sum[r] = sum[r] * c2 + earlierSum[r] * c1;
      DoubleStream.mergeOutputs(levelO[level], r * valueDims, c1, o, r * valueDims, c2, valueDims);
      max[r] = m;
    }
  }

  /**
   * What takes a state's terms from its maximum to a larger one; exactly 1 where it is the same.
   */
  static double correction(double from, double to, double factor, double factorLow, double least) {
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
        levelO[i] = new double[o.length];
        levelMax[i] = new double[max.length];
        levelSum[i] = new double[max.length];
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
    double[] to = partials.doubles(index);
    System.arraycopy(max, 0, to, 0, rows());
    System.arraycopy(sum, 0, to, rows(), rows());
    System.arraycopy(o, 0, to, 2 * rows(), rows() * valueDims);
  }

  @Override
  void load(Partials partials, long index) {
    double[] from = partials.doubles(index);
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
