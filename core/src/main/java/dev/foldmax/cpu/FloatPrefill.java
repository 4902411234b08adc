package dev.foldmax.cpu;

import dev.foldmax.Rescale;
import dev.foldmax.spi.AttentionCall;
import java.util.Arrays;

/**
 * Attention of many queries in float32: lanes are queries, see {@link FloatPanel}. A block is up to
 * 256 queries of one head, or fewer of several that share their keys, in panels; a tile of keys is
 * copied to scratch and packed once for all panels of the block, and stays in the second-level
 * cache while they take turns.
 */
final class FloatPrefill extends TileEngine {
  /** A multiple of the six keys of the micro-kernel; 192 was the best of 48, 96 and 192. */
  static final int TILE = 192;

  /** Small, since threads cut the keys of a single query at cells. */
  static final int CELL = 8 * TILE;

  /** Rows of a block at head dimensions up to 128. */
  private static final int MOST_ROWS = 256;

  /** Room for the outputs at the levels of the fold, in elements: half a megabyte. */
  private static final int LEVELS_ROOM = 1 << 17;

  /** Elements of rows that are read before they are packed: what the first-level cache keeps. */
  private static final int CHUNK = 2048;

  private static final int V = FloatPanel.V;
  private static final int W = FloatPanel.W;
  private static final int GROUP = FloatPanel.GROUP;
  private static final int PLANE = FloatPanel.PLANE;
  private static final int KEY_STRIDE = FloatPanel.KEY_STRIDE;

  /** Room for what the packing of a group's last key writes past it. */
  private static final int GROUP_STRIDE = TILE * GROUP + FloatPanel.SLACK;

  private static final int PLANE_SIZE = (TILE + GROUP) * KEY_STRIDE;

  private final FloatIo io = new FloatIo();

  private final Loops loops;

  /** Whether this block is folded by {@link PlainPanel}. */
  private boolean plain;

  private int panels;
  private int keyDim;
  private int valueDim;
  private ValueGroups groups = ValueGroups.of(0);
  private float factor;
  private float factorLow;
  private float least;
  private float threshold;

  // What the steps work on: a panel, and the keys of the tile that it folds.
  private int panel;
  private long panelBegin;
  private int firstKey;
  private int keyCount;

  private float[][] q = {}; // (panels)(Dqk, W)
  private float[][] o = {}; // (panels)(dimensions of the value groups, W)
  private float[][] state = {}; // (panels)(4, W): maximum, sum, correction, new maximum
  private float[][][] levelO = {}; // (levels)(panels)(dimensions of the value groups, W)
  private float[][][] levelState = {}; // (levels)(panels)(4, W)
  private float[] keys = {}; // (planes)(TILE + 6, KEY_STRIDE)
  private float[] values = {}; // (value groups)(TILE, 6) and a little room
  private final float[] scores = new float[(TILE + GROUP) * W]; // (keys, W)
  private final PanelScores view = new PanelScores(this, io, scores, TILE);
  private float[] hidden = {}; // (keys, W), when careful
  private final float[] bounds = new float[2 * W];

  // The interval of keys that some row of a panel sees, and the one that all of its rows see.
  private long[] anyBegin = {}; // (panels)
  private long[] anyEnd = {}; // (panels)
  private long[] allBegin = {}; // (panels)
  private long[] allEnd = {}; // (panels)

  /** Rows of keys, values, queries or outputs on their way: they stay in the first-level cache. */
  private float[] rows = {}; // (W or CHUNK / D, D)

  /** Which loops an engine takes: they give the same bits. */
  enum Loops {
    /** Vectors, once they are compiled; see {@link PrefillWarmUp}. */
    AUTO,
    VECTORS,
    PLAIN
  }

  FloatPrefill() {
    this(Loops.AUTO);
  }

  FloatPrefill(Loops loops) {
    super(TILE, CELL);
    this.loops = loops;
  }

  @Override
  String describe() {
    return "prefill f32, lanes are queries, panels of " + W;
  }

  /**
   * The more rows share a packed tile the better, as long as they fit the second-level cache, with
   * their outputs at all levels of the fold.
   */
  @Override
  int maxRows(AttentionCall call, int b) {
    int dims = Math.max(128, Math.max(call.keyDim(), call.valueDim()));
    long cells = Math.ceilDiv(call.sequence(b).endKey(), (long) CELL);
    int levels = Long.SIZE - Long.numberOfLeadingZeros(cells);
    int rows = Math.min(MOST_ROWS * 128, LEVELS_ROOM / Math.max(1, levels)) / dims;
    return Math.max(W, rows / W * W);
  }

  @Override
  void packQueries() {
    AttentionCall call = call();
    keyDim = call.keyDim();
    if (valueDim != call.valueDim()) {
      valueDim = call.valueDim();
      groups = ValueGroups.of(valueDim);
    }
    panels = (rows() + W - 1) / W;
    double c = scoreUnit() * Exponential.LOG2_E_DOUBLE;
    factor = (float) c;
    factorLow = Exponential.low(c);
    least = Exponential.least(factor);
    threshold = rescale() == Rescale.LAZY ? (float) (call.attention().tau() / c) : 0;
    plain =
        switch (loops) {
          case VECTORS -> false;
          // The soft cap's hyperbolic tangent has no scalar twin.
          case PLAIN -> call.attention().softCap() == 0;
          case AUTO -> call.attention().softCap() == 0 && PrefillWarmUp.wantsPlain(call, batch());
        };
    view.setPlain(plain);
    reserve();
    findBounds();
    int stride = FloatPanel.roundUp(keyDim);
    for (int p = 0; p < panels; p++) {
      for (int lane = 0; lane < W; lane++) {
        io.readQuery(this, Math.min(p * W + lane, rows() - 1), rows, lane * stride);
      }
      transpose(rows, stride, W, keyDim, q[p], W);
    }
  }

  private void transpose(
      float[] from, int fromStride, int fromRows, int columns, float[] to, int toStride) {
    if (plain) {
      PlainPanel.transpose(from, fromStride, fromRows, columns, to, toStride);
    } else {
      FloatPacking.transpose(from, fromStride, fromRows, columns, to, toStride);
    }
  }

  /** Finds out which keys some row of a panel sees, and which all of its rows see. */
  private void findBounds() {
    for (int p = 0; p < panels; p++) {
      anyBegin[p] = Long.MAX_VALUE;
      anyEnd[p] = Long.MIN_VALUE;
      allBegin[p] = Long.MIN_VALUE;
      allEnd[p] = Long.MAX_VALUE;
      for (int r = p * W; r < Math.min(p * W + W, rows()); r++) {
        anyBegin[p] = Math.min(anyBegin[p], visibleBegin(r));
        anyEnd[p] = Math.max(anyEnd[p], visibleEnd(r));
        allBegin[p] = Math.max(allBegin[p], visibleBegin(r));
        allEnd[p] = Math.min(allEnd[p], visibleEnd(r));
      }
    }
  }

  private void reserve() {
    int queryDims = FloatPanel.roundUp(keyDim);
    int outputDims = Math.max(groups.dims(), FloatPanel.roundUp(valueDim));
    if (q.length < panels || q[0].length < queryDims * W || o[0].length < outputDims * W) {
      int most = Math.max(panels, q.length);
      int mostQueryDims = Math.max(queryDims, q.length == 0 ? 0 : q[0].length / W);
      int mostOutputDims = Math.max(outputDims, o.length == 0 ? 0 : o[0].length / W);
      q = new float[most][mostQueryDims * W];
      o = new float[most][mostOutputDims * W];
      state = new float[most][FloatPanel.STATE_SIZE];
      levelO = new float[0][][];
      levelState = new float[0][][];
      anyBegin = new long[most];
      anyEnd = new long[most];
      allBegin = new long[most];
      allEnd = new long[most];
    }
    int planes = Math.max(1, (keyDim + PLANE - 1) / PLANE);
    if (keys.length < planes * PLANE_SIZE) {
      keys = new float[planes * PLANE_SIZE];
    }
    if (values.length < groups.count() * GROUP_STRIDE) {
      values = new float[groups.count() * GROUP_STRIDE];
    }
    int longest = Math.max(queryDims, outputDims);
    int room = Math.max(CHUNK, W * longest) + FloatPanel.SLACK;
    if (rows.length < room) {
      rows = new float[room];
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
      int first = Math.clamp(anyBegin[p] - begin, 0, n);
      int end = Math.clamp(anyEnd[p] - begin, 0, n);
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
    int chunk = Math.max(1, CHUNK / Math.max(1, keyDim));
    for (int j = 0; j < n && keyDim > 0; j += chunk) {
      int count = Math.min(chunk, n - j);
      io.readKeys(this, begin + j, count, rows, 0, keyDim);
      for (int plane = 0; plane * PLANE < keyDim; plane++) {
        int dims = Math.min(PLANE, keyDim - plane * PLANE);
        int to = plane * PLANE_SIZE + j * KEY_STRIDE;
        if (plain) {
          PlainPanel.packKeys(rows, plane * PLANE, keyDim, count, dims, keys, to);
        } else {
          FloatPacking.packKeys(rows, plane * PLANE, keyDim, count, dims, keys, to);
        }
      }
    }
    chunk = Math.max(1, CHUNK / Math.max(1, valueDim));
    for (int j = 0; j < n; j += chunk) {
      int count = Math.min(chunk, n - j);
      io.readValues(this, begin + j, count, rows, 0, valueDim);
      packValues(0, groups.sixes(), 6, count, j);
      packValues(groups.sixes(), groups.count(), 5, count, j);
    }
  }

  private void packValues(int firstGroup, int endGroup, int width, int n, int firstKey) {
    int to = firstGroup * GROUP_STRIDE + firstKey * GROUP;
    if (plain) {
      for (int g = firstGroup; g < endGroup; g++) {
        PlainPanel.packValues(rows, groups.begin(g), valueDim, n, width, values, to);
        to += GROUP_STRIDE;
      }
      return;
    }
    FloatPacking.packValues(
        rows,
        groups.begin(firstGroup),
        valueDim,
        n,
        endGroup - firstGroup,
        width,
        values,
        to,
        GROUP_STRIDE);
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
    FloatPrefill::addValues
  };

  private void findMax() {
    if (plain) {
      PlainPanel.tileMax(scores, keyCount, state[panel]);
    } else {
      FloatPanel.tileMax(scores, keyCount, state[panel]);
    }
  }

  private void raiseMax() {
    if (plain) {
      PlainPanel.raiseMax(state[panel], threshold, factor, factorLow, least);
      return;
    }
    for (int i = 0; i < W; i += V) {
      FloatPanel.raiseMax(state[panel], i, threshold, factor, factorLow, least);
    }
  }

  private void weigh() {
    if (plain) {
      PlainPanel.weigh(scores, keyCount, state[panel], factor, factorLow, least);
      return;
    }
    for (int i = 0; i < W; i += V) {
      FloatPanel.weigh(scores, keyCount, state[panel], i, factor, factorLow, least);
    }
  }

  private void addValues() {
    if (isCareful()) {
      addVisibleValues(panel, firstKey, keyCount);
      return;
    }
    for (int g = 0; g < groups.count(); g++) {
      int v = g * GROUP_STRIDE + firstKey * GROUP;
      int to = groups.begin(g) * W;
      if (plain) {
        int width = g < groups.sixes() ? 6 : 5;
        PlainPanel.values(values, v, width, scores, keyCount, o[panel], to, state[panel]);
      } else if (g < groups.sixes()) {
        FloatPanel.values6(values, v, scores, keyCount, o[panel], to, state[panel], -1);
      } else {
        FloatPanel.values5(values, v, scores, keyCount, o[panel], to, state[panel], -1);
      }
    }
  }

  private void score() {
    int n = keyCount;
    if (keyDim == 0) {
      Arrays.fill(scores, 0, n * W, 0);
    }
    for (int plane = 0; plane * PLANE < keyDim; plane++) {
      int dims = Math.min(PLANE, keyDim - plane * PLANE);
      if (plain) {
        int first = plane * PLANE_SIZE + firstKey * KEY_STRIDE;
        PlainPanel.scores(keys, first, n, q[panel], plane * PLANE * W, dims, scores, plane > 0);
        continue;
      }
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
    if (hasScaledScores() && plain) {
      PlainPanel.scale(scores, keyCount * W, (float) call().scale());
    } else if (hasScaledScores()) {
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
      view.set(firstRow, count, begin, n);
      view.addBiases();
      view.applyFunction();
    }
    if (allBegin[panel] > begin || allEnd[panel] < begin + n) {
      for (int lane = 0; lane < W; lane++) {
        int r = firstRow + Math.min(lane, count - 1);
        bounds[lane] = Math.max(0, Math.min(n, visibleBegin(r) - begin));
        bounds[W + lane] = Math.max(0, Math.min(n, visibleEnd(r) - begin));
      }
      if (plain) {
        PlainPanel.hideOutside(scores, n, bounds);
      } else {
        for (int i = 0; i < W; i += V) {
          FloatPanel.hideOutside(scores, n, bounds, i);
        }
      }
    }
    if (!call().attention().mask().isInterval()) {
      view.set(firstRow, count, begin, n);
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
    for (int g = 0; g < groups.count(); g++) {
      for (int d = groups.begin(g); d < groups.begin(g + 1); d++) {
        int v = g * GROUP_STRIDE + first * GROUP + d - groups.begin(g);
        for (int lane = 0; lane < W; lane++) {
          float sum = output[d * W + lane] * state[p][FloatPanel.CORRECTION + lane];
          for (int j = 0; j < n; j++) {
            if (hidden[j * W + lane] != Float.NEGATIVE_INFINITY) {
              sum = Math.fma(scores[j * W + lane], values[v + j * GROUP], sum);
            }
          }
          output[d * W + lane] = sum;
        }
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
      FloatPanel.merge(earlier, levelO[level][p], state[p], o[p], groups.dims());
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
    return blockPanels * W * (2 + ValueGroups.of(call.valueDim()).dims());
  }

  @Override
  void save(Partials partials, long index) {
    float[] to = partials.floats(index);
    int size = groups.dims() * W;
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
    int size = groups.dims() * W;
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
    int stride = FloatPanel.roundUp(valueDim);
    for (int p = 0; p < panels; p++) {
      transpose(o[p], W, valueDim, W, rows, stride);
      for (int lane = 0; lane < W && p * W + lane < rows(); lane++) {
        float max = state[p][FloatPanel.MAX + lane];
        float sum = state[p][FloatPanel.SUM + lane];
        finite &= io.finish(this, p * W + lane, max, sum, rows, lane * stride);
      }
    }
    return finite;
  }
}
