package dev.foldmax.spark;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.KeyValues;
import dev.foldmax.SoftmaxState;
import dev.foldmax.Tensor;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.util.ArrayData;

/**
 * A batch of queries folds keys and values in: blocks of them go through the CPU kernel, and each
 * block's result merges into one {@link SoftmaxState} for each query. Memory is bounded by a block.
 */
final class KeyFold {
  /** Keys of a block: results depend on it in their last bits. */
  private static final int BLOCK = 1024;

  private static final String FUNCTION = "attend";

  private final Backend backend;
  private final Attention attention;
  private final Tensor queries; // (1, 1, queries, Dqk)
  private final int count; // of queries
  private final int keyDim;
  private final float[] keys; // (BLOCK, Dqk)
  private final double[] lses; // (queries)
  private float[] values = {}; // (BLOCK, Dv)
  private double[] outputs = {}; // (queries, Dv)
  private SoftmaxState[] states = {}; // (queries), none before the first row
  private int valueDim;
  private int rows; // in the block

  /**
   * An empty fold.
   *
   * @param queries row-major, (count, Dqk)
   */
  KeyFold(Backend backend, double scale, float[] queries, int count, int keyDim) {
    this.backend = backend;
    this.attention = Attention.standard().scale(scale);
    this.queries = Tensor.of(queries, 1, 1, count, keyDim);
    this.count = count;
    this.keyDim = keyDim;
    this.keys = new float[Math.multiplyExact(BLOCK, keyDim)];
    this.lses = new double[count];
  }

  /** Adds a row; the first one gives the dimension of the values. */
  void add(ArrayData key, ArrayData value) {
    VectorState.checkDimension(FUNCTION, keyDim, key.numElements());
    if (states.length == 0) {
      begin(value.numElements());
    }
    VectorState.checkDimension(FUNCTION, valueDim, value.numElements());
    System.arraycopy(key.toFloatArray(), 0, keys, rows * keyDim, keyDim);
    System.arraycopy(value.toFloatArray(), 0, values, rows * valueDim, valueDim);
    rows++;
    if (rows == BLOCK) {
      fold();
    }
  }

  private void begin(int dimension) {
    if (values.length != BLOCK * dimension) {
      values = new float[Math.multiplyExact(BLOCK, dimension)];
      outputs = new double[Math.multiplyExact(count, dimension)];
    }
    valueDim = dimension;
    states =
        Stream.generate(() -> new SoftmaxState(dimension))
            .limit(count)
            .toArray(SoftmaxState[]::new);
  }

  private void fold() {
    Tensor k = Tensor.of(keys, 1, 1, BLOCK, keyDim).slice(2, 0, rows);
    Tensor v = Tensor.of(values, 1, 1, BLOCK, valueDim).slice(2, 0, rows);
    backend.attend(
        queries,
        KeyValues.dense(k, v),
        attention,
        Tensor.of(outputs, 1, 1, count, valueDim),
        Tensor.of(lses, 1, 1, count));
    double[] output = new double[valueDim];
    for (int i = 0; i < count; i++) {
      System.arraycopy(outputs, i * valueDim, output, 0, valueDim);
      states[i].merge(SoftmaxState.of(output, lses[i]));
    }
    rows = 0;
  }

  /** Whether no row has come since the beginning or the last {@link #finish}. */
  boolean isEmpty() {
    return states.length == 0;
  }

  /** The states of the queries as bytes. The fold is empty afterwards. */
  byte[][] finish() {
    if (rows > 0) {
      fold();
    }
    byte[][] partial = Stream.of(states).map(SoftmaxState::toBytes).toArray(byte[][]::new);
    states = new SoftmaxState[0];
    return partial;
  }

  /**
   * Merges the partial results of other rows into one.
   *
   * @param partials at least one, in the order in which they are to be merged
   */
  static byte[][] merge(Iterable<byte[][]> partials) {
    SoftmaxState[] merged = {};
    for (byte[][] partial : partials) {
      SoftmaxState[] states =
          Stream.of(partial).map(SoftmaxState::fromBytes).toArray(SoftmaxState[]::new);
      if (merged.length == 0) {
        merged = states;
        continue;
      }
      for (int i = 0; i < states.length; i++) {
        VectorState.checkDimension(FUNCTION, merged[i].dimension(), states[i].dimension());
        merged[i].merge(states[i]);
      }
    }
    return Stream.of(merged).map(SoftmaxState::toBytes).toArray(byte[][]::new);
  }
}
