package dev.foldmax.examples.decoder;

import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;

/** An array of keys and one of values for each layer, a row for each token. */
final class LayerCache extends KvCache {
  private final int capacity;
  private final float[][] keys; // (layers)(capacity, key heads, dim)
  private final float[][] values;

  LayerCache(ModelShape shape, int capacity) {
    super(shape);
    this.capacity = capacity;
    keys = new float[shape.layers()][capacity * shape.rowSize()];
    values = new float[shape.layers()][capacity * shape.rowSize()];
  }

  @Override
  KeyValues write(int layer, Tensor newKeys, Tensor newValues) {
    int end = endOf(newKeys, capacity);
    return KeyValues.dense(write(keys[layer], newKeys, end), write(values[layer], newValues, end));
  }

  private Tensor write(float[] array, Tensor rows, int end) {
    Tensor all = Tensor.of(array, capacity, shape().keyHeads(), shape().dim());
    all.slice(0, length(), end).copyFrom(rows);
    return all.slice(0, 0, end).permute(1, 0, 2);
  }
}
