package dev.foldmax.benchmarks;

import dev.foldmax.DType;

/**
 * An attention to measure.
 *
 * @param batch sequences, all of one length
 * @param heads of the queries
 * @param keyHeads of the keys; divides {@code heads}
 * @param queries of each head
 * @param keys of each key head; at least as many as queries
 * @param dim of queries and keys
 * @param valueDim of values
 * @param queryType of queries and output
 * @param storage of keys and values
 * @param layout of the batch
 * @param variant what is done with the scores
 */
public record AttentionCase(
    int batch,
    int heads,
    int keyHeads,
    int queries,
    int keys,
    int dim,
    int valueDim,
    DType queryType,
    Storage storage,
    Layout layout,
    Variant variant)
    implements Case {
  /** How many keys a query of {@link Variant#WINDOW} sees, its own included. */
  static final int WINDOW = 512;

  /** Rows of a page of {@link Layout#PAGED}. */
  static final int PAGE = 16;

  /** Full attention of one sequence in float32 with as many queries as keys. */
  static AttentionCase square(int heads, int length, int dim) {
    return full(heads, heads, length, length, dim);
  }

  /** One query for each of 32 heads over keys in float32, D 128. */
  static AttentionCase decode(int keyHeads, int keys) {
    return full(32, keyHeads, 1, keys, 128);
  }

  private static AttentionCase full(int heads, int keyHeads, int queries, int keys, int dim) {
    return new AttentionCase(
        1,
        heads,
        keyHeads,
        queries,
        keys,
        dim,
        dim,
        DType.F32,
        Storage.F32,
        Layout.DENSE,
        Variant.FULL);
  }

  /** The same with other heads. */
  AttentionCase heads(int newHeads, int newKeyHeads) {
    return new AttentionCase(
        batch,
        newHeads,
        newKeyHeads,
        queries,
        keys,
        dim,
        valueDim,
        queryType,
        storage,
        layout,
        variant);
  }

  /** The same with other lengths. */
  AttentionCase lengths(int newQueries, int newKeys) {
    return new AttentionCase(
        batch,
        heads,
        keyHeads,
        newQueries,
        newKeys,
        dim,
        valueDim,
        queryType,
        storage,
        layout,
        variant);
  }

  /** The same with a dimension of its own for the values. */
  AttentionCase valueDim(int newValueDim) {
    return new AttentionCase(
        batch,
        heads,
        keyHeads,
        queries,
        keys,
        dim,
        newValueDim,
        queryType,
        storage,
        layout,
        variant);
  }

  /** The same with keys and values stored otherwise; float64 takes the queries along. */
  AttentionCase stored(Storage newStorage) {
    return typed(newStorage == Storage.F64 ? DType.F64 : DType.F32, newStorage);
  }

  /** The same with queries, keys, values and output all of the storage's type. */
  AttentionCase typed(Storage newStorage) {
    return typed(newStorage.dtype(), newStorage);
  }

  private AttentionCase typed(DType newQueryType, Storage newStorage) {
    return new AttentionCase(
        batch,
        heads,
        keyHeads,
        queries,
        keys,
        dim,
        valueDim,
        newQueryType,
        newStorage,
        layout,
        variant);
  }

  /** The same for a batch. */
  AttentionCase batch(int newBatch, Layout newLayout) {
    return new AttentionCase(
        newBatch, heads, keyHeads, queries, keys, dim, valueDim, queryType, storage, newLayout,
        variant);
  }

  /** The same with another variant. */
  AttentionCase variant(Variant newVariant) {
    return new AttentionCase(
        batch,
        heads,
        keyHeads,
        queries,
        keys,
        dim,
        valueDim,
        queryType,
        storage,
        layout,
        newVariant);
  }

  @Override
  public Class<?> benchmark() {
    return AttendBenchmark.class;
  }

  @Override
  public String label() {
    StringBuilder label = new StringBuilder();
    if (batch > 1) {
      label.append("B ").append(batch).append(' ');
    }
    label.append("H ").append(heads).append(heads == keyHeads ? "" : "/" + keyHeads);
    label.append(queries == keys ? " L " + keys : " Lq " + queries + " Lk " + keys);
    label.append(" D ").append(dim).append(dim == valueDim ? "" : "/" + valueDim);
    label.append(' ').append(storage.label());
    if (queryType != storage.dtype()) {
      label.append(" K V");
    }
    if (layout != Layout.DENSE) {
      label.append(' ').append(layout.label());
    }
    return label.append(' ').append(variant.label()).toString();
  }

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
    return 2.0 * batch * heads * pairs * (dim + valueDim);
  }

  /** The size of keys and values in memory, with their scales. */
  double bytes() {
    double scales = storage == Storage.I8 ? 2.0 * Float.BYTES : 0;
    return (double) batch
        * keyHeads
        * keys
        * ((double) (dim + valueDim) * storage.dtype().bytes() + scales);
  }
}
