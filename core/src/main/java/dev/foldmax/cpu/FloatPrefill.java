package dev.foldmax.cpu;

import dev.foldmax.KeyValues;
import dev.foldmax.Rescale;
import dev.foldmax.spi.AttentionCall;
import java.util.Arrays;

/**
 * Attention of many queries in float32: lanes are queries, see {@link FloatPanel}. A block is up to
 * 128 queries of one head, in panels; a tile of keys is copied to scratch and packed once for all
 * panels of the block, and stays in the second-level cache while they take turns.
 */
final class FloatPrefill extends TileEngine {
  /** A multiple of the six keys of the micro-kernel; 192 was the best of 48, 96 and 192. */
  private static final int TILE = 192;

  private static final int CELL = 32 * TILE;
  private static final int V = FloatPanel.V;
  private static final int W = FloatPanel.W;
  private static final int GROUP = FloatPanel.GROUP;
  private static final int PLANE = FloatPanel.PLANE;
  private static final int KEY_STRIDE = FloatPanel.KEY_STRIDE;

  /** Room for what the packing of a group's last key writes past it. */
  private static final int GROUP_STRIDE = TILE * GROUP + FloatPanel.PACKED;

  private static final int PLANE_SIZE = (TILE + GROUP) * KEY_STRIDE;

  private final FloatIo io = new FloatIo();
  private final FloatScores view = new FloatScores(this, io, 1, W, TILE);

  private int panels;
  private int keyDim;
  private int valueDim;
  private int valueGroups;
  private float factor;
  private float factorLow;
  private float least;
  private float threshold;

  // What the steps work on: a panel, and the keys of the tile that it folds.
  private int panel;
  private long panelBegin;
  private int firstKey;
  private int keyCount;
  private boolean raised;

  private float[][] q = {}; // (panels)(Dqk, W)
  private float[][] o = {}; // (panels)(value groups * 6, W)
  private float[][] state = {}; // (panels)(4, W): maximum, sum, correction, new maximum
  private float[][][] levelO = {}; // (levels)(panels)(value groups * 6, W)
  private float[][][] levelState = {}; // (levels)(panels)(4, W)
  private float[] keys = {}; // (planes)(TILE + 6, KEY_STRIDE)
  private float[] values = {}; // (value groups)(TILE, 6) and a little room
  private final float[] scores = new float[(TILE + GROUP) * W]; // (keys, W)
  private float[] hidden = {}; // (keys, W), when careful
  private final float[] bounds = new float[2 * W];
  private float[] row = {}; // (Dqk or Dv)

  FloatPrefill() {
    super(TILE, CELL);
  }

  @Override
  String describe() {
    return "prefill f32, lanes are queries, panels of " + W;
  }

  @Override
  int maxRows(AttentionCall call) {
    return Math.max(W, (Math.max(call.keyDim(), call.valueDim()) <= 128 ? 128 : 64) / W * W);
  }

  @Override
  void packQueries() {
    AttentionCall call = call();
    keyDim = call.keyDim();
    valueDim = call.valueDim();
    valueGroups = (valueDim + GROUP - 1) / GROUP;
    panels = (rows() + W - 1) / W;
    double c = scoreUnit() * Exponential.LOG2_E_DOUBLE;
    factor = (float) c;
    factorLow = Exponential.low(c);
    least = Exponential.least(factor);
    threshold = rescale() == Rescale.LAZY ? (float) (call.attention().tau() / c) : 0;
    reserve();
    for (int r = 0; r < panels * W; r++) {
      io.readQuery(this, Math.min(r, rows() - 1), row, 0);
      float[] panel = q[r / W];
      for (int d = 0; d < keyDim; d++) {
        panel[d * W + r % W] = row[d];
      }
    }
  }

  private void reserve() {
    if (q.length < panels || q[0].length < keyDim * W || o[0].length < valueGroups * GROUP * W) {
      int most = Math.max(panels, q.length);
      int mostKeyDim = Math.max(keyDim, most == 0 || q.length == 0 ? 0 : q[0].length / W);
      int mostDims = Math.max(valueGroups * GROUP, o.length == 0 ? 0 : o[0].length / W);
      q = new float[most][mostKeyDim * W];
      o = new float[most][mostDims * W];
      state = new float[most][FloatPanel.STATE_SIZE];
      levelO = new float[0][][];
      levelState = new float[0][][];
    }
    int planes = Math.max(1, (keyDim + PLANE - 1) / PLANE);
    if (keys.length < planes * PLANE_SIZE) {
      keys = new float[planes * PLANE_SIZE];
    }
    if (values.length < valueGroups * GROUP_STRIDE) {
      values = new float[valueGroups * GROUP_STRIDE];
    }
    int longest = Math.max(keyDim, valueGroups * GROUP) + FloatPanel.PACKED;
    if (row.length < longest) {
      row = new float[longest];
    }
  }

  @Override
  void clearState() {
    for (int p = 0; p < panels; p++) {
      Arrays.fill(o[p], 0);
      Arrays.fill(state[p], FloatPanel.MAX, FloatPanel.MAX + W, Float.NEGATIVE_INFINITY);
      Arrays.fill(state[p], FloatPanel.SUM, FloatPanel.SUM + W, 0);
    }
  }

  @Override
  void foldTile(long begin, int n) {
    boolean loaded = false;
    for (int p = 0; p < panels; p++) {
      int firstRow = p * W;
      int lastRow = Math.min(firstRow + W, rows()) - 1;
      // Queries of a block are consecutive and intervals never fall back: the panel's first row
      // begins first and its last row ends last.
      int first = (int) Math.max(0, Math.min(n, visibleBegin(firstRow) - begin));
      int end = (int) Math.max(0, Math.min(n, visibleEnd(lastRow) - begin));
      if (first < end) {
        if (!loaded) {
          loadTile(begin, n);
          loaded = true;
        }
        foldPanel(p, begin + first, first, end - first);
      }
    }
  }

  private void loadTile(long begin, int n) {
    KeyValues kv = call().keyValues();
    for (int plane = 0; plane * PLANE < keyDim; plane++) {
      int dims = Math.min(PLANE, keyDim - plane * PLANE);
      io.readRows(
          kv,
          kv.keys(),
          kv.keyScales(),
          batch(),
          keyHead(),
          begin,
          n,
          plane * PLANE,
          dims,
          keys,
          plane * PLANE_SIZE,
          KEY_STRIDE);
    }
    for (int j = 0; j < n; j++) {
      io.readRows(
          kv,
          kv.values(),
          kv.valueScales(),
          batch(),
          keyHead(),
          begin + j,
          1,
          0,
          valueDim,
          row,
          0,
          valueDim);
      FloatPanel.packValues(row, valueGroups, values, j * GROUP, GROUP_STRIDE);
    }
  }

  /** The five lines, for the keys {@code first} to {@code first + n} of the tile. */
  private void foldPanel(int p, long begin, int first, int n) {
    panel = p;
    panelBegin = begin;
    firstKey = first;
    keyCount = n;
    for (Step step : STEPS) {
      step.run(this);
    }
  }

  /**
   * A step of folding a panel. C2 sees all of them at the one call above and therefore inlines
   * none: inlined together they pass its limit on nodes and leave vectors boxed, some ten times
   * slower.
   */
  private interface Step {
    void run(FloatPrefill engine);
  }

  private static final Step[] STEPS = {
    FloatPrefill::score,
    FloatPrefill::scale,
    FloatPrefill::softCap,
    FloatPrefill::modify,
    FloatPrefill::findMax,
    FloatPrefill::raiseMax,
    FloatPrefill::weigh,
    FloatPrefill::correct,
    FloatPrefill::addValues
  };

  private void findMax() {
    for (int i = 0; i < W; i += V) {
      FloatPanel.tileMax(scores, keyCount, state[panel], i);
    }
  }

  private void raiseMax() {
    raised = false;
    for (int i = 0; i < W; i += V) {
      raised |= FloatPanel.raiseMax(state[panel], i, threshold, factor, factorLow, least);
    }
  }

  private void weigh() {
    for (int i = 0; i < W; i += V) {
      FloatPanel.weigh(scores, keyCount, state[panel], i, factor, factorLow, least);
    }
  }

  private void correct() {
    if (raised || rescale() == Rescale.ALWAYS) {
      FloatPanel.correct(o[panel], valueGroups * GROUP, state[panel]);
    }
  }

  private void addValues() {
    if (isCareful()) {
      addVisibleValues(panel, firstKey, keyCount);
      return;
    }
    for (int g = 0; g < valueGroups; g++) {
      int at = g * GROUP_STRIDE + firstKey * GROUP;
      FloatPanel.values(values, at, scores, keyCount, o[panel], g * GROUP * W, -1);
    }
  }

  private void score() {
    int n = keyCount;
    if (keyDim == 0) {
      Arrays.fill(scores, 0, n * W, 0);
    }
    for (int plane = 0; plane * PLANE < keyDim; plane++) {
      int dims = Math.min(PLANE, keyDim - plane * PLANE);
      for (int j = 0; j < n; j += GROUP) {
        FloatPanel.scores(
            keys,
            plane * PLANE_SIZE + (firstKey + j) * KEY_STRIDE,
            q[panel],
            plane * PLANE * W,
            dims,
            scores,
            j * W,
            plane > 0,
            -1);
      }
    }
  }

  private void scale() {
    if (hasScaledScores()) {
      FloatScores.scale(scores, keyCount * W, (float) call().scale());
    }
  }

  private void softCap() {
    if (call().attention().softCap() > 0) {
      FloatScores.softCap(scores, keyCount * W, FloatScores.capOf(call().attention()));
    }
  }

  /** Bias, ALiBi, the user's function, and last the mask. */
  private void modify() {
    long begin = panelBegin;
    int n = keyCount;
    int firstRow = panel * W;
    int count = Math.min(W, rows() - firstRow);
    if (hasScaledScores()) {
      view.over(scores, 0).set(firstRow, count, begin, n);
      view.addBiases();
      view.applyFunction();
    }
    int lastRow = firstRow + count - 1;
    if (visibleBegin(lastRow) > begin || visibleEnd(firstRow) < begin + n) {
      for (int lane = 0; lane < W; lane++) {
        int r = firstRow + Math.min(lane, count - 1);
        bounds[lane] = Math.max(0, Math.min(n, visibleBegin(r) - begin));
        bounds[W + lane] = Math.max(0, Math.min(n, visibleEnd(r) - begin));
      }
      for (int i = 0; i < W; i += V) {
        FloatPanel.hideOutside(scores, n, bounds, i);
      }
    }
    if (!call().attention().mask().isInterval()) {
      view.over(scores, 0).set(firstRow, count, begin, n);
      view.hideMasked();
    }
    if (isCareful()) {
      keepHidden(n);
    }
  }

  private void keepHidden(int n) {
    if (hidden.length < n * W) {
      hidden = new float[TILE * W];
    }
    System.arraycopy(scores, 0, hidden, 0, n * W);
  }

  /** The values kernel's arithmetic, lane by lane, without the values of hidden keys. */
  private void addVisibleValues(int p, int first, int n) {
    float[] output = o[p];
    for (int d = 0; d < valueDim; d++) {
      for (int lane = 0; lane < W; lane++) {
        float sum = output[d * W + lane];
        for (int j = 0; j < n; j++) {
          if (hidden[j * W + lane] != Float.NEGATIVE_INFINITY) {
            float v = values[d / GROUP * GROUP_STRIDE + (first + j) * GROUP + d % GROUP];
            sum = Math.fma(scores[j * W + lane], v, sum);
          }
        }
        output[d * W + lane] = sum;
      }
    }
  }

  @Override
  void mergeLevel(int level) {
    for (int p = 0; p < panels; p++) {
      float[] earlier = levelState[level][p];
      FloatPanel.jointMax(earlier, state[p]);
      for (int i = 0; i < W; i += V) {
        FloatPanel.correctTo(earlier, state[p], i, factor, factorLow, least);
        FloatPanel.correctTo(state[p], state[p], i, factor, factorLow, least);
      }
      FloatPanel.merge(earlier, levelO[level][p], state[p], o[p], valueGroups * GROUP);
    }
  }

  @Override
  void moveToLevel(int level) {
    if (levelO.length <= level) {
      levelO = Arrays.copyOf(levelO, level + 1);
      levelState = Arrays.copyOf(levelState, level + 1);
      for (int i = 0; i <= level; i++) {
        if (levelO[i] == null) {
          levelO[i] = new float[o.length][o[0].length];
          levelState[i] = new float[o.length][FloatPanel.STATE_SIZE];
        }
      }
    }
    float[][] freeO = levelO[level];
    float[][] freeState = levelState[level];
    levelO[level] = o;
    levelState[level] = state;
    o = freeO;
    state = freeState;
    clearState();
  }

  @Override
  int partialSize(AttentionCall call, int blockRows) {
    int blockPanels = (blockRows + W - 1) / W;
    return blockPanels * W * (2 + (call.valueDim() + GROUP - 1) / GROUP * GROUP);
  }

  @Override
  void save(Partials partials, long index) {
    float[] to = partials.floats(index);
    int size = valueGroups * GROUP * W;
    int at = 0;
    for (int p = 0; p < panels; p++) {
      System.arraycopy(state[p], 0, to, at, 2 * W);
      System.arraycopy(o[p], 0, to, at + 2 * W, size);
      at += 2 * W + size;
    }
  }

  @Override
  void load(Partials partials, long index) {
    float[] from = partials.floats(index);
    int size = valueGroups * GROUP * W;
    int at = 0;
    for (int p = 0; p < panels; p++) {
      System.arraycopy(from, at, state[p], 0, 2 * W);
      System.arraycopy(from, at + 2 * W, o[p], 0, size);
      at += 2 * W + size;
    }
  }

  @Override
  boolean finish() {
    boolean finite = true;
    for (int r = 0; r < rows(); r++) {
      float[] output = o[r / W];
      int lane = r % W;
      for (int d = 0; d < valueDim; d++) {
        row[d] = output[d * W + lane];
      }
      float[] lanes = state[r / W];
      finite &=
          io.finish(this, r, lanes[FloatPanel.MAX + lane], lanes[FloatPanel.SUM + lane], row, 0);
    }
    return finite;
  }
}
