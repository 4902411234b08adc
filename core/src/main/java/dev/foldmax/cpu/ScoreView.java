package dev.foldmax.cpu;

import dev.foldmax.Attention;
import dev.foldmax.Mask;
import dev.foldmax.MaskFunction;
import dev.foldmax.ScoreFunction;
import dev.foldmax.ScoreTile;
import dev.foldmax.Tensor;

/**
 * A rectangle of natural scores in an engine's scratch, in whichever order the engine keeps them:
 * what biases, ALiBi, functions and masks that are no intervals work on. Here they touch each score
 * with scalar code; {@link PanelScores} does most of it in vectors.
 */
abstract class ScoreView implements ScoreTile {
  private final TileEngine engine;
  private final int rowStride;
  private final int keyStride;

  private int firstRow;
  private int rows;
  private long begin;
  private int keys;

  /** Over scores of rows {@code rowStride} apart and of keys {@code keyStride} apart. */
  ScoreView(TileEngine engine, int rowStride, int keyStride) {
    this.engine = engine;
    this.rowStride = rowStride;
    this.keyStride = keyStride;
  }

  /** The score at an index of the scratch. */
  abstract double at(int index);

  /** Sets the score at an index of the scratch. */
  abstract void setAt(int index, double score);

  /** Adds {@code n} elements of a tensor, {@code step} apart, to scores {@code stride} apart. */
  abstract void add(Tensor bias, long offset, long step, int n, int index, int stride);

  /** Subtracts {@code slope * distance} from the score at an index. */
  abstract void lower(int index, double slope, long distance);

  /** Looks at the scores of some rows and keys; row {@code first} is at index 0. */
  final void set(int first, int count, long keyBegin, int keyCount) {
    firstRow = first;
    rows = count;
    begin = keyBegin;
    keys = keyCount;
  }

  private int index(int i, int j) {
    return i * rowStride + j * keyStride;
  }

  /** Adds the bias, then ALiBi. */
  final void addBiases() {
    Attention attention = engine.call().attention();
    if (attention.bias() != null) {
      addBias(attention.bias());
    }
    if (attention.alibiSlopes() != null) {
      addAlibi();
    }
  }

  void addBias(Tensor bias) {
    long step = columnStep(bias);
    for (int i = 0; i < rows; i++) {
      add(bias, firstColumn(bias, i), step, keys, index(i, 0), keyStride);
    }
  }

  void addAlibi() {
    for (int i = 0; i < rows; i++) {
      double slope = slope(i);
      long distance = distance(i);
      for (int j = 0; j < keys; j++) {
        lower(index(i, j), slope, Math.abs(distance - j));
      }
    }
  }

  /** ALiBi's slope for a row. */
  final double slope(int i) {
    return engine.call().alibiSlope(batch(), head(i));
  }

  /** How far the key of column 0 lies before a row's query. */
  final long distance(int i) {
    return engine.call().alibiOffset(batch()) + query(i) - begin;
  }

  /** Applies the user's score function. */
  final void applyFunction() {
    ScoreFunction function = engine.call().attention().scoreFunction();
    if (function != null) {
      function.apply(this);
    }
  }

  /** Hides what the mask hides inside the rows' intervals, which are seen to elsewhere. */
  final void hideMasked() {
    hide(engine.call().attention().mask());
  }

  private void hide(Mask mask) {
    switch (mask) {
      case Mask.Dense dense -> hide(dense.visible());
      case Mask.Custom custom -> hide(custom.function());
      case Mask.And and -> {
        for (int i = 0; i < and.parts().size(); i++) {
          hide(and.parts().get(i));
        }
      }
      case Mask.None none -> {}
      case Mask.Causal causal -> {}
      case Mask.Window window -> {}
      case Mask.Prefix prefix -> {}
    }
  }

  void hide(Tensor visible) {
    long step = columnStep(visible);
    for (int i = 0; i < rows; i++) {
      long offset = firstColumn(visible, i);
      for (int j = 0; j < keys; j++) {
        if (!visible.booleanAt(offset + j * step)) {
          set(i, j, Double.NEGATIVE_INFINITY);
        }
      }
    }
  }

  private void hide(MaskFunction function) {
    for (int i = 0; i < rows; i++) {
      int head = head(i);
      long query = query(i);
      for (int j = 0; j < keys; j++) {
        if (!function.visible(engine.sequence(), head, query, begin + j)) {
          set(i, j, Double.NEGATIVE_INFINITY);
        }
      }
    }
  }

  /** The offset of the element for a row and column 0 in a bias or mask. */
  final long firstColumn(Tensor tensor, int i) {
    long column = begin - engine.sequence().firstKey();
    return tensor.broadcastOffset(batch(), head(i), query(i), column);
  }

  /** The step from a key's element to the next key's in a tensor that may have one for all keys. */
  static long columnStep(Tensor tensor) {
    return tensor.rank() == 0 || tensor.shape(-1) == 1 ? 0 : tensor.stride(-1);
  }

  @Override
  public final int batch() {
    return engine.batch();
  }

  @Override
  public final int queries() {
    return rows;
  }

  @Override
  public final int keys() {
    return keys;
  }

  @Override
  public final int head(int i) {
    return engine.head(firstRow + i);
  }

  @Override
  public final long query(int i) {
    return engine.query(firstRow + i);
  }

  @Override
  public final long keyBegin() {
    return begin;
  }

  @Override
  public final double get(int i, int j) {
    return at(index(i, j));
  }

  @Override
  public final void set(int i, int j, double score) {
    setAt(index(i, j), score);
  }
}
