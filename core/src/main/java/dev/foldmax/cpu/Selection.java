package dev.foldmax.cpu;

/**
 * The k first elements in descending order of those offered: a heap with the last of them on top;
 * for a small k one that is all in order, which takes fewer steps that depend on the elements. NaN
 * comes before every number, equal elements (also 0.0 and -0.0) and NaNs in order of their index.
 * So which elements remain does not depend on the order in which they were offered.
 */
final class Selection {
  /** The largest k. */
  static final int MAX_K = Integer.MAX_VALUE - 8;

  /** Longer arrays are not kept for the next row. */
  private static final int KEPT = 1 << 16;

  /** The largest k for which all elements are kept in order. */
  private static final int ORDERED_K = 16;

  private long[] keys = new long[0];
  private long[] indices = new long[0];
  private int k;
  private int size;

  /** At least k elements to come are above it; NaN if that is not known of any number. */
  private double bound;

  /** Starts anew. */
  void clear(int newK) {
    k = newK;
    size = 0;
    bound = Double.NaN;
    if (keys.length < k || (keys.length > KEPT && k <= KEPT)) {
      int capacity = k <= KEPT ? Math.min(KEPT, Math.max(64, 2 * k)) : k;
      keys = new long[capacity];
      indices = new long[capacity];
    }
  }

  /**
   * A number whose order as an integer is the order of the elements: that of the bits for positive
   * ones, reversed for negative ones; NaN is largest.
   */
  static long key(double x) {
    long bits = Double.doubleToLongBits(x + 0.0);
    return bits ^ ((bits >> 63) & Long.MAX_VALUE);
  }

  /** The element of a key. */
  static double element(long key) {
    return Double.longBitsToDouble(key ^ ((key >> 63) & Long.MAX_VALUE));
  }

  /**
   * Elements up to this one, coming with a larger index than all before, need not be offered; NaN
   * as long as every element has to be.
   */
  double threshold() {
    return size < k ? bound : k == 0 ? Double.POSITIVE_INFINITY : element(keys[0]);
  }

  /** Promises that at least k of the elements to come are above a number; NaN for no promise. */
  void expectAbove(double number) {
    bound = number;
  }

  boolean isEmpty() {
    return size == 0;
  }

  /** Whether nothing that comes with a larger index can be among the k any more. */
  boolean isClosed() {
    return size == k && (k == 0 || Double.isNaN(element(keys[0])));
  }

  void offer(double x, long index) {
    offer(key(x), index);
  }

  /** Offers all that another selection holds. */
  void offerAll(Selection other) {
    for (int i = 0; i < other.size; i++) {
      offer(other.keys[i], other.indices[i]);
    }
  }

  private void offer(long key, long index) {
    if (size < k) {
      int i = size++;
      for (int parent = parent(i); i > 0 && isBefore(parent, key, index); parent = parent(i)) {
        move(parent, i);
        i = parent;
      }
      put(i, key, index);
    } else if (k > 0 && !isBefore(0, key, index)) {
      if (k <= ORDERED_K) {
        shiftDown(key, index);
      } else {
        siftDown(key, index);
      }
    }
  }

  private int parent(int i) {
    return k <= ORDERED_K ? i - 1 : (i - 1) >> 1;
  }

  private void shiftDown(long key, long index) {
    int i = 0;
    for (; i + 1 < size && !isBefore(i + 1, key, index); i++) {
      move(i + 1, i);
    }
    put(i, key, index);
  }

  /** Whether the element at a place of the heap comes before the given one. */
  private boolean isBefore(int place, long key, long index) {
    return keys[place] > key || (keys[place] == key && indices[place] < index);
  }

  private void siftDown(long key, long index) {
    int i = 0;
    for (int child = 1; child < size; child = 2 * i + 1) {
      if (child + 1 < size && isBefore(child, keys[child + 1], indices[child + 1])) {
        child++;
      }
      if (isBefore(child, key, index)) {
        break;
      }
      move(child, i);
      i = child;
    }
    put(i, key, index);
  }

  private void move(int from, int to) {
    keys[to] = keys[from];
    indices[to] = indices[from];
  }

  private void put(int place, long key, long index) {
    keys[place] = key;
    indices[place] = index;
  }

  /** Puts the elements in order, first the largest; after this no element may be offered. */
  void sort() {
    if (k <= ORDERED_K) {
      reverse();
      return;
    }
    int all = size;
    while (size > 1) {
      size--;
      long key = keys[size];
      long index = indices[size];
      move(0, size);
      siftDown(key, index);
    }
    size = all;
  }

  private void reverse() {
    for (int i = 0, j = size - 1; i < j; i++, j--) {
      long key = keys[i];
      long index = indices[i];
      move(j, i);
      put(j, key, index);
    }
  }

  int k() {
    return k;
  }

  int size() {
    return size;
  }

  /** The element at a place after {@link #sort}. */
  double elementAt(int place) {
    return element(keys[place]);
  }

  /** The index of the element at a place after {@link #sort}. */
  long indexAt(int place) {
    return indices[place];
  }
}
