package dev.foldmax.examples.decoder;

import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;

/**
 * A ring for each layer, written round and round: in sliding layers it holds the last tokens only,
 * in the others it is long enough for all.
 */
class RingCache extends KvCache {
  private final int capacity;
  private final int mostOfAStep;
  private final float[][] keys; // (layers)(ring, key heads, dim)
  private final float[][] values;
  private int written; // one past the last position that any token was written to

  /**
   * An empty cache.
   *
   * @param capacity the most tokens of the sequence
   * @param mostOfAStep the most tokens of one step: the last of them must not overwrite the window
   *     of the first
   */
  RingCache(ModelShape shape, int capacity, int mostOfAStep) {
    super(shape);
    this.capacity = capacity;
    this.mostOfAStep = mostOfAStep;
    keys = new float[shape.layers()][];
    values = new float[shape.layers()][];
    for (int layer = 0; layer < shape.layers(); layer++) {
      keys[layer] = new float[ring(layer) * shape.rowSize()];
      values[layer] = new float[ring(layer) * shape.rowSize()];
    }
  }

  private int ring(int layer) {
    return shape().isSliding(layer)
        ? Math.min(shape().window() - 1 + mostOfAStep, capacity)
        : capacity;
  }

  @Override
  KeyValues write(int layer, Tensor newKeys, Tensor newValues) {
    if (newKeys.shape(0) > mostOfAStep) {
      throw new IllegalArgumentException(
          "keys: expected at most " + mostOfAStep + " tokens in a step, got " + newKeys);
    }
    int end = endOf(newKeys, capacity);
    written = Math.max(written, end);
    // Older ones are overwritten, also by tokens that were forgotten since.
    int first = Math.max(0, written - ring(layer));
    return KeyValues.ring(
        write(keys[layer], newKeys, ring(layer)),
        write(values[layer], newValues, ring(layer)),
        Tensor.of(new int[] {first}, 1),
        Tensor.of(new int[] {end - first}, 1));
  }

  /**
   * Forgets tokens, as far back as the ring allows.
   *
   * @throws IllegalStateException if the next token would see keys that have been overwritten
   */
  @Override
  void truncate(int to) {
    int least = leastLength();
    if (to > 0 && to < least) {
      throw new IllegalStateException(
          "the ring has overwritten keys that token "
              + to
              + " would see: truncate to 0 or to "
              + least
              + " and more");
    }
    super.truncate(to);
    if (to == 0) {
      written = 0; // the next token sees none of what the ring holds
    }
  }

  /** The length from which on the next token sees no key that has been overwritten. */
  private int leastLength() {
    int least = 0;
    for (int layer = 0; layer < shape().layers(); layer++) {
      int first = written - ring(layer);
      if (first > 0) { // only in sliding layers
        least = Math.max(least, first + shape().window() - 1);
      }
    }
    return least;
  }

  private Tensor write(float[] array, Tensor rows, int ring) {
    Tensor all = Tensor.of(array, 1, ring, shape().keyHeads(), shape().dim());
    for (int row = 0; row < rows.shape(0); row++) {
      int position = length() + row;
      all.select(0, 0).select(0, position % ring).copyFrom(rows.select(0, row));
    }
    return all.permute(0, 2, 1, 3);
  }
}
