package dev.foldmax.benchmarks;

/**
 * An attention to measure.
 *
 * @param heads of the queries
 * @param keyHeads of the keys; divides {@code heads}
 * @param queries of each head
 * @param keys of each key head; at least as many as queries
 * @param dim of queries, keys and values
 * @param storage of keys and values
 * @param variant what is done with the scores
 */
record AttentionCase(
    int heads, int keyHeads, int queries, int keys, int dim, Storage storage, Variant variant) {
  /** How many keys a query of {@link Variant#WINDOW} sees, its own included. */
  static final int WINDOW = 512;

  /** The first key that a query sees. */
  int begin(int query) {
    return variant == Variant.WINDOW ? Math.max(0, end(query) - WINDOW) : 0;
  }

  /** One past the last key that a query sees. */
  int end(int query) {
    return variant == Variant.CAUSAL || variant == Variant.WINDOW
        ? query + 1 + keys - queries
        : keys;
  }

  /** The scale of the scores. */
  double scale() {
    return 1 / Math.sqrt(dim);
  }

  /**
   * Multiplications and additions of both products, over the pairs that lie in their query's
   * interval; keys that a boolean mask hides count.
   */
  double flops() {
    long pairs = 0;
    for (int i = 0; i < queries; i++) {
      pairs += end(i) - begin(i);
    }
    return 4.0 * heads * pairs * dim;
  }

  /** The size of keys and values in memory, with their scales. */
  double bytes() {
    double scales = storage == Storage.I8 ? Float.BYTES : 0;
    return 2.0 * keyHeads * keys * ((double) dim * storage.dtype().bytes() + scales);
  }
}
