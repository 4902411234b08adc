package dev.foldmax.spi;

import dev.foldmax.AttentionPartial;
import dev.foldmax.AttentionPartial.Fold;
import dev.foldmax.AttentionPartial.Piece;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.List;

/**
 * Where a backend leaves the states of a {@link PartialCall}. A row is a query of a head of a
 * sequence, numbered in row-major order of the first three axes of {@link AttentionCall#q}; rows
 * that nothing is written to stay empty. States of different rows may be written by several threads
 * at once.
 */
public final class PartialStates {
  private static final long CACHE_LINE = 64;

  private final PartialCall call;
  private final Fold fold;
  private final List<Piece> pieces;
  private final long rows;
  private final Tensor maxima; // (pieces, rows)
  private final Tensor sums; // (pieces, rows)
  private final Tensor outputs; // (pieces, rows, Dv)

  /**
   * Empty states.
   *
   * @param dtype F32 or F64
   * @param arena where they lie
   */
  public PartialStates(PartialCall call, Fold fold, DType dtype, Arena arena) {
    this.call = call;
    this.fold = fold;
    this.pieces = fold.cut(call.keyBegin(), call.keyEnd(), call.totalKeys());
    this.rows = Rows.count(call.attention().q());
    this.maxima = allocate(arena, dtype, pieces.size(), rows);
    this.sums = allocate(arena, dtype, pieces.size(), rows);
    this.outputs = allocate(arena, dtype, pieces.size(), rows, call.attention().valueDim());
    maxima.fill(Double.NEGATIVE_INFINITY);
  }

  private static Tensor allocate(Arena arena, DType dtype, long... shape) {
    long bytes = dtype.bytes();
    for (long size : shape) {
      bytes = Math.multiplyExact(bytes, size);
    }
    return Tensor.of(arena.allocate(bytes, CACHE_LINE), dtype, shape);
  }

  /** The keys of each state of a row. */
  public List<Piece> pieces() {
    return pieces;
  }

  /** The number of a row. */
  public long row(int b, int head, long query) {
    AttentionCall attention = call.attention();
    return (attention.queryBlock(b) * attention.queryHeads() + head) * attention.q().shape(2)
        + attention.firstQueryRow(b)
        + query;
  }

  /** Sets the maximum and the sum of a row's state. */
  public void set(int piece, long row, double max, double sum) {
    maxima.setAt(piece * rows + row, max);
    sums.setAt(piece * rows + row, sum);
  }

  /** Where in {@link #outputs} the weighted values of a row's state begin, in elements. */
  public long outputOffset(int piece, long row) {
    return (piece * rows + row) * outputs.shape(2);
  }

  /** The weighted values, row-major. */
  public Tensor outputs() {
    return outputs;
  }

  /** The partial, as soon as all states are set. */
  public AttentionPartial partial(long[] shapeOfQ) {
    long[] shape = new long[shapeOfQ.length + 1];
    shape[0] = pieces.size();
    System.arraycopy(shapeOfQ, 0, shape, 1, shapeOfQ.length);
    shape[shapeOfQ.length] = outputs.shape(2);
    long[] withoutLast = Arrays.copyOf(shape, shapeOfQ.length);
    Tensor sinks = call.attention().attention().sinks();
    return new AttentionPartial(
        AttentionIdentity.of(call.attention()),
        fold,
        call.totalKeys(),
        pieces,
        maxima.reshape(withoutLast),
        sums.reshape(withoutLast),
        outputs.reshape(shape),
        sinks == null ? null : sinks.copy());
  }
}
