package dev.foldmax.spi;

import dev.foldmax.Attention;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Phase;
import dev.foldmax.Sequence;
import dev.foldmax.Tensor;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;

/**
 * An attention whose arguments have been checked and brought into one form: whoever holds one need
 * not check again. The memory behind the tensors stays the caller's, so lengths and tables could
 * still change under a running call; reads are bounds-checked by their segments.
 */
public final class AttentionCall {
  private final Tensor q;
  private final KeyValues keyValues;
  private final Attention attention;
  private final @Nullable Tensor out;
  private final @Nullable Tensor lse;
  private final int batch;
  private final int queryHeads;
  private final int keyHeads;
  private final int keyDim;
  private final int valueDim;
  private final boolean packed;
  private final Sequence[] sequences;

  private AttentionCall(
      Tensor q,
      KeyValues keyValues,
      Attention attention,
      @Nullable Tensor out,
      @Nullable Tensor lse) {
    checkQuery(q, keyValues);
    keyValues.validate();
    this.keyValues = keyValues;
    this.attention = attention;
    this.packed = keyValues.queryOffsets() != null;
    this.q = toRank(q, 4);
    this.batch = toInt("batch", keyValues.batch());
    this.queryHeads = toInt("query heads", this.q.shape(1));
    this.keyHeads = toInt("key heads", keyValues.heads());
    this.keyDim = toInt("Dqk", this.q.shape(3));
    this.valueDim = toInt("Dv", keyValues.values().shape(3));
    if (keyHeads == 0 ? queryHeads != 0 : queryHeads % keyHeads != 0) {
      throw new IllegalArgumentException(
          "q: the number of heads, "
              + queryHeads
              + ", must be a multiple of the keys', "
              + keyHeads
              + ", got q "
              + q
              + " and "
              + keyValues);
    }
    this.sequences = sequences(q);
    if (out != null) {
      checkOutput("out", q, out, valueDim);
      checkApart("out", out, q);
    }
    if (lse != null) {
      checkLse(q, lse);
      checkApart("lse", lse, q);
    }
    if (out != null && lse != null) {
      Rows.checkApart("lse", lse, "out", out);
    }
    this.out = out == null ? null : toRank(out, 4);
    this.lse = lse == null ? null : toRank(lse, 3);
    checkAttention();
  }

  /**
   * Checks the arguments of {@link dev.foldmax.Backend#attend(Tensor, KeyValues, Attention, Tensor,
   * Tensor)}.
   */
  public static AttentionCall of(
      Tensor q, KeyValues keyValues, Attention attention, Tensor out, @Nullable Tensor lse) {
    Objects.requireNonNull(out, "out");
    if (!keyValues.isWhole()) {
      throw new IllegalArgumentException(
          "keys: expected all "
              + keyValues.totalKeys()
              + ", got the slice "
              + keyValues.heldBegin()
              + ".."
              + keyValues.heldEnd()
              + ", which serves Backend.attendPartial");
    }
    return new AttentionCall(q, keyValues, attention, out, lse);
  }

  /**
   * The same without outputs, for {@link dev.foldmax.Backend#explain}, and for {@link PartialCall},
   * which says which keys it reads.
   */
  public static AttentionCall withoutOutput(Tensor q, KeyValues keyValues, Attention attention) {
    return new AttentionCall(q, keyValues, attention, null, null);
  }

  /** A checked call with its sequences looked up again. */
  private AttentionCall(AttentionCall other) {
    other.keyValues.validate();
    this.q = other.q;
    this.keyValues = other.keyValues;
    this.attention = other.attention;
    this.out = other.out;
    this.lse = other.lse;
    this.batch = other.batch;
    this.queryHeads = other.queryHeads;
    this.keyHeads = other.keyHeads;
    this.keyDim = other.keyDim;
    this.valueDim = other.valueDim;
    this.packed = other.packed;
    this.sequences = sequences(q);
    checkAttention();
  }

  /**
   * The same call with what its lengths, offsets and tables say now.
   *
   * @throws IllegalArgumentException if that is no longer right, as from {@link #of}
   */
  public AttentionCall reread() {
    return new AttentionCall(this);
  }

  private static void checkQuery(Tensor q, KeyValues keyValues) {
    if (!q.dtype().isFloating()) {
      throw new IllegalArgumentException("q: expected F64, F32, F16 or BF16, got " + q);
    }
    boolean isPacked = keyValues.queryOffsets() != null;
    if (isPacked ? q.rank() != 3 : q.rank() < 2 || q.rank() > 4) {
      throw new IllegalArgumentException(
          "q: expected "
              + (isPacked
                  ? "(query heads, total queries, dim), since queryOffsets are given"
                  : "(batch, query heads, queries, dim), (query heads, queries, dim) or (queries,"
                      + " dim)")
              + ", got "
              + q);
    }
    if (q.shape(-1) != keyValues.keys().shape(-1)) {
      throw new IllegalArgumentException(
          "q: expected the head dimension of the keys, got q " + q + " and " + keyValues);
    }
    long sequences = q.rank() == 4 ? q.shape(0) : 1;
    if (!isPacked && sequences != keyValues.batch()) {
      throw new IllegalArgumentException(
          "q: expected "
              + keyValues.batch()
              + " sequences as in the keys, got q "
              + q
              + " and "
              + keyValues
              + (keyValues.layout().equals("ragged")
                  ? "; packed queries need KeyValues.queryOffsets"
                  : ""));
    }
  }

  private Sequence[] sequences(Tensor given) {
    Tensor offsets = keyValues.queryOffsets();
    Sequence[] all = new Sequence[batch];
    long previous = 0;
    for (int b = 0; b <= batch && offsets != null; b++) {
      long offset = offsets.longAt(b * offsets.stride(0));
      if (offset < previous || offset > q.shape(2)) {
        throw new IllegalArgumentException(
            "queryOffsets: entry "
                + b
                + " is "
                + offset
                + ", expected "
                + previous
                + " to "
                + q.shape(2)
                + " for q "
                + given);
      }
      previous = offset;
    }
    for (int b = 0; b < batch; b++) {
      long queries =
          offsets == null
              ? q.shape(2)
              : offsets.longAt((b + 1) * offsets.stride(0)) - offsets.longAt(b * offsets.stride(0));
      all[b] = new Sequence(b, queries, keyValues.firstKey(b), keyValues.endKey(b));
    }
    return all;
  }

  private static void checkOutput(String name, Tensor q, Tensor out, long valueDim) {
    int last = q.rank() - 1;
    boolean fits = out.rank() == q.rank() && startsAs(q, last, out) && out.shape(last) == valueDim;
    if (!out.dtype().isFloating() || !fits) {
      long[] expected = q.shape();
      expected[last] = valueDim;
      throw new IllegalArgumentException(
          name
              + ": expected a floating tensor of shape "
              + Arrays.toString(expected)
              + ", got "
              + out);
    }
    Rows.checkWritable(name, out);
  }

  /** Whether two tensors agree in the sizes of their first axes. */
  private static boolean startsAs(Tensor a, int axes, Tensor b) {
    for (int axis = 0; axis < axes; axis++) {
      if (a.shape(axis) != b.shape(axis)) {
        return false;
      }
    }
    return true;
  }

  private void checkApart(String name, Tensor output, Tensor queries) {
    forEachInput(
        queries,
        keyValues,
        attention,
        (inputName, input) -> Rows.checkApart(name, output, inputName, input));
  }

  /** Gives every tensor that an attention reads to an action, each with its parameter's name. */
  public static void forEachInput(
      Tensor q, KeyValues keyValues, Attention attention, BiConsumer<String, Tensor> action) {
    action.accept("q", q);
    keyValues.forEachTensor(action);
    forEachTensor(attention.mask(), action);
    Tensor bias = attention.bias();
    if (bias != null) {
      action.accept("bias", bias);
    }
    Tensor slopes = attention.alibiSlopes();
    if (slopes != null) {
      action.accept("alibi", slopes);
    }
    Tensor sinks = attention.sinks();
    if (sinks != null) {
      action.accept("sinks", sinks);
    }
  }

  private static void forEachTensor(Mask mask, BiConsumer<String, Tensor> action) {
    switch (mask) {
      case Mask.Dense dense -> action.accept("mask", dense.visible());
      case Mask.Prefix prefix -> action.accept("prefix", prefix.lengths());
      case Mask.And and -> and.parts().forEach(part -> forEachTensor(part, action));
      case Mask.None none -> {}
      case Mask.Causal causal -> {}
      case Mask.Window window -> {}
      case Mask.Custom custom -> {}
    }
  }

  private static void checkLse(Tensor q, Tensor lse) {
    int rank = q.rank() - 1;
    if (!lse.dtype().isFloating() || lse.rank() != rank || !startsAs(q, rank, lse)) {
      long[] expected = Arrays.copyOf(q.shape(), rank);
      throw new IllegalArgumentException(
          "lse: expected a floating tensor of shape " + Arrays.toString(expected) + ", got " + lse);
    }
    Rows.checkWritable("lse", lse);
  }

  private void checkAttention() {
    Tensor bias = attention.bias();
    if (bias != null) {
      checkBroadcast("bias", bias);
    }
    checkMask(attention.mask());
    Tensor slopes = attention.alibiSlopes();
    if (slopes != null
        && (slopes.shape(-1) != queryHeads || (slopes.rank() == 2 && slopes.shape(0) != batch))) {
      throw new IllegalArgumentException(
          "alibi: expected slopes of shape ("
              + queryHeads
              + ") or ("
              + batch
              + ", "
              + queryHeads
              + "), got "
              + slopes);
    }
    Tensor sinks = attention.sinks();
    if (sinks != null && sinks.shape(0) != queryHeads) {
      throw new IllegalArgumentException(
          "sinks: expected shape (" + queryHeads + "), got " + sinks);
    }
  }

  private void checkMask(Mask mask) {
    switch (mask) {
      case Mask.Dense dense -> checkBroadcast("mask", dense.visible());
      case Mask.Prefix prefix -> {
        long lengths = prefix.lengths().shape(0);
        if (lengths != 1 && lengths != batch) {
          throw new IllegalArgumentException(
              "prefix: expected lengths of shape (1) or (" + batch + "), got " + prefix.lengths());
        }
      }
      case Mask.And and -> {
        List<Mask> parts = and.parts();
        parts.forEach(this::checkMask);
      }
      case Mask.None none -> {}
      case Mask.Causal causal -> {}
      case Mask.Window window -> {}
      case Mask.Custom custom -> {}
    }
  }

  /**
   * A bias or mask must have, in each dimension, size 1 or that of the call; where sequences differ
   * in length, at least that of the longest.
   */
  private void checkBroadcast(String name, Tensor tensor) {
    if (batch == 0) {
      return; // nothing is read, and nothing says how long a sequence would be
    }
    long mostQueries = 0;
    long mostKeys = 0;
    for (Sequence sequence : sequences) {
      mostQueries = Math.max(mostQueries, sequence.queries());
      mostKeys = Math.max(mostKeys, sequence.endKey() - sequence.firstKey());
    }
    boolean oneLength =
        keyValues.layout().equals("slice")
            || (keyValues.layout().equals("dense") && mostKeys == keyValues.keys().shape(2));
    boolean fits =
        fits(tensor, 1, mostKeys, oneLength)
            && fits(tensor, 2, mostQueries, !packed)
            && fits(tensor, 3, queryHeads, true)
            && fits(tensor, 4, batch, true);
    if (!fits) {
      throw new IllegalArgumentException(
          name
              + ": expected a shape that broadcasts to (batch "
              + batch
              + ", query heads "
              + queryHeads
              + ", queries "
              + mostQueries
              + ", keys "
              + mostKeys
              + "), got "
              + tensor);
    }
  }

  private static boolean fits(Tensor tensor, int fromEnd, long size, boolean exactly) {
    if (tensor.rank() < fromEnd) {
      return true;
    }
    long own = tensor.shape(-fromEnd);
    return own == 1 || (exactly ? own == size : own >= size);
  }

  private static Tensor toRank(Tensor tensor, int rank) {
    if (tensor.rank() == rank) {
      return tensor;
    }
    long[] shape = new long[rank];
    Arrays.fill(shape, 1);
    System.arraycopy(tensor.shape(), 0, shape, rank - tensor.rank(), tensor.rank());
    return tensor.expand(shape);
  }

  private static int toInt(String name, long size) {
    if (size > Integer.MAX_VALUE) {
      throw new IllegalArgumentException(name + ": " + size + " is more than 2^31 - 1");
    }
    return (int) size;
  }

  /** The queries as (batch, query heads, queries, Dqk); packed ones have one block. */
  public Tensor q() {
    return q;
  }

  /** Keys and values. */
  public KeyValues keyValues() {
    return keyValues;
  }

  /** What to compute. */
  public Attention attention() {
    return attention;
  }

  /** The output, in the form of {@link #q}. */
  public Tensor out() {
    if (out == null) {
      throw new IllegalStateException("a call without output");
    }
    return out;
  }

  /** The logsumexp as (batch, query heads, queries), or null where it is not wanted. */
  public @Nullable Tensor lse() {
    return lse;
  }

  /** The number of sequences. */
  public int batch() {
    return batch;
  }

  /** The number of query heads. */
  public int queryHeads() {
    return queryHeads;
  }

  /** The number of key heads. */
  public int keyHeads() {
    return keyHeads;
  }

  /** How many query heads share a key head. */
  public int group() {
    return keyHeads == 0 ? 1 : queryHeads / keyHeads;
  }

  /** The head dimension of queries and keys. */
  public int keyDim() {
    return keyDim;
  }

  /** The head dimension of values and outputs. */
  public int valueDim() {
    return valueDim;
  }

  /** The factor of the dot product. */
  public double scale() {
    return attention.scaleFor(keyDim);
  }

  /** What is known of a sequence. */
  public Sequence sequence(int b) {
    return sequences[b];
  }

  /** The index, on axis 0 of q and out, of a sequence's queries. */
  public long queryBlock(int b) {
    return packed ? 0 : b;
  }

  /** The index, on axis 2 of q and out, of a sequence's first query. */
  public long firstQueryRow(int b) {
    Tensor offsets = keyValues.queryOffsets();
    return offsets == null ? 0 : offsets.longAt(b * offsets.stride(0));
  }

  /** The phase of a sequence, AUTO resolved. */
  public Phase phase(int b) {
    return attention.phase().resolve(sequences[b].queries());
  }

  /** Whether arithmetic is in float64: some input is F64. */
  public boolean isFloat64() {
    return q.dtype() == DType.F64
        || keyValues.keys().dtype() == DType.F64
        || keyValues.values().dtype() == DType.F64;
  }

  /** ALiBi's slope of a head of a sequence, or 0. */
  public double alibiSlope(int b, int head) {
    Tensor slopes = attention.alibiSlopes();
    return slopes == null ? 0 : slopes.at(slopes.broadcastOffset(0, 0, b, head));
  }

  /** The position, for ALiBi, of query 0 of a sequence. */
  public long alibiOffset(int b) {
    return attention.alibiAlignment().offset(sequences[b].queries(), sequences[b].endKey());
  }

  /** The sink of a head, or -inf. */
  public double sink(int head) {
    Tensor sinks = attention.sinks();
    return sinks == null ? Double.NEGATIVE_INFINITY : sinks.at(head * sinks.stride(0));
  }
}
