package dev.foldmax;

/**
 * How the positions of queries and keys line up when there are more of one than of the other. It
 * matters to causal masks, windows, prefixes and ALiBi.
 */
public enum Alignment {
  /**
   * The last query stands at the last key: query {@code i} of {@code Lq} has position {@code i +
   * end - Lq}, where {@code end} is one past the last key. This is what decoding and chunked
   * prefill need, and the default everywhere. With more queries than keys the first queries have
   * negative positions, and a causal mask lets them see nothing.
   */
  BOTTOM_RIGHT,
  /** The first query stands at key 0: query {@code i} has position {@code i}. */
  TOP_LEFT;

  /**
   * The position of query 0.
   *
   * @param queries the number of queries of the sequence
   * @param endKey one past the position of its last key
   */
  public long offset(long queries, long endKey) {
    return this == BOTTOM_RIGHT ? endKey - queries : 0;
  }
}
