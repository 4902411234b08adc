package dev.foldmax.benchmarks;

/** The k largest of a row by a binary heap whose root is the least of them. */
final class LargestHeap {
  private final float[] values;
  private final int[] indices;
  private int size;

  LargestHeap(int k) {
    this.values = new float[k];
    this.indices = new int[k];
  }

  /** How many it keeps. */
  int k() {
    return values.length;
  }

  /** Takes the largest of the elements {@code begin} to {@code end - 1}, counted from 0. */
  void collect(float[] x, int begin, int end) {
    size = 0;
    int i = begin;
    for (; i < end && size < values.length; i++) {
      siftUp(x[i], i - begin);
    }
    for (; i < end; i++) {
      if (x[i] > values[0]) { // ties keep the lower index
        siftDown(x[i], i - begin);
      }
    }
  }

  /** The value of the least that is left. */
  float leastValue() {
    return values[0];
  }

  /** The index of the least that is left. */
  int leastIndex() {
    return indices[0];
  }

  /** Drops the least. */
  void removeLeast() {
    size--;
    siftDown(values[size], indices[size]);
  }

  private void siftUp(float value, int index) {
    int hole = size++;
    while (hole > 0 && isLess(value, index, (hole - 1) / 2)) {
      move((hole - 1) / 2, hole);
      hole = (hole - 1) / 2;
    }
    values[hole] = value;
    indices[hole] = index;
  }

  private void siftDown(float value, int index) {
    int hole = 0;
    for (int child = 1; child < size; child = 2 * hole + 1) {
      if (child + 1 < size && isLess(values[child + 1], indices[child + 1], child)) {
        child++;
      }
      if (isLess(value, index, child)) {
        break;
      }
      move(child, hole);
      hole = child;
    }
    values[hole] = value;
    indices[hole] = index;
  }

  private void move(int from, int to) {
    values[to] = values[from];
    indices[to] = indices[from];
  }

  /** Whether a candidate is less than an entry; of equals the higher index is less. */
  private boolean isLess(float value, int index, int entry) {
    return value < values[entry] || (value == values[entry] && index > indices[entry]);
  }
}
