package dev.foldmax.cpu;

import dev.foldmax.Coverage;
import dev.foldmax.Mask;
import dev.foldmax.Rescale;
import dev.foldmax.Sequence;
import dev.foldmax.spi.AttentionCall;
import dev.foldmax.spi.PartialStates;
import org.jspecify.annotations.Nullable;

/**
 * Folds the keys of one block of rows, tile by tile, into one state a row. Subclasses hold the
 * states and do the arithmetic; this class walks the keys and keeps the order of the fold.
 *
 * <p>That order is fixed for the sake of row invariance. Keys are cut at absolute positions into
 * tiles and these into cells. The tiles of a cell fold one after the other. Cells fold in the
 * binary tree over their absolute numbers, evaluated like a binary counter: level n holds the state
 * of a complete subtree of 2^n cells, and closing a cell carries like adding one. Threads may
 * therefore cut keys at cells and merge what they got without changing a bit, and keys that a row
 * does not see leave its state as it is, so it does not matter which of them are skipped and which
 * are masked.
 *
 * <p>A block's rows are some queries of some heads that share a key head: row {@code r} is query
 * {@code queryBegin + r % queries} of head {@code headBegin + r / queries}. An engine belongs to
 * one worker and serves block after block; its buffers grow to the largest it has met.
 */
abstract class TileEngine {
  private final int tileKeys;
  private final int cellKeys;

  private Workers.@Nullable Account account;
  private @Nullable AttentionCall call;
  private @Nullable Elements keyElements;
  private @Nullable Elements valueElements;
  private int batch;
  private int headBegin;
  private long queryBegin;
  private int queries;
  private int rows;
  private boolean careful;
  private boolean scaledScores;
  private Rescale rescale = Rescale.ALWAYS;

  /** Where the states go, and as which piece, if the call is a partial one. */
  private @Nullable PartialStates states;

  private int piece;

  /** The interval of keys that each row may see; (rows). */
  private long[] visibleBegin = {};

  private long[] visibleEnd = {};

  /** Bit n is set while level n of the counter holds a state. */
  private long levels;

  TileEngine(int tileKeys, int cellKeys) {
    this.tileKeys = tileKeys;
    this.cellKeys = cellKeys;
  }

  /** What the engine is called in {@link dev.foldmax.KernelChoice}. */
  abstract String describe();

  /** The most rows that a block of a sequence of this call may have. */
  abstract int maxRows(AttentionCall attentionCall, int b);

  /** Packs the block's queries; buffers are made large enough. */
  abstract void packQueries();

  /** Sets every row's state to the empty one. */
  abstract void clearState();

  /** Folds the keys {@code begin} to {@code begin + n}, which lie in one tile. */
  abstract void foldTile(long begin, int n);

  /** state = merge(level, state), the level's keys being the earlier ones. */
  abstract void mergeLevel(int level);

  /** Moves the state to a level and clears it. */
  abstract void moveToLevel(int level);

  /** How many numbers the states of a block of so many rows take. */
  abstract int partialSize(AttentionCall attentionCall, int blockRows);

  /** Copies the states out to a partial's place. */
  abstract void save(Partials partials, long index);

  /** Replaces the states by a partial. */
  abstract void load(Partials partials, long index);

  /**
   * Writes outputs and logsumexps, or after {@link #keepStates} the states.
   *
   * @return whether all is well: false if an output is not finite though its sum is, since a value
   *     that its row must not see may have leaked in as 0 times infinity
   */
  abstract boolean finish();

  /** Takes the account of its worker, to say how far it is. */
  final void setAccount(Workers.Account newAccount) {
    account = newAccount;
  }

  /** How many keys a cell has. */
  final int cellKeys() {
    return cellKeys;
  }

  /**
   * Takes up a call.
   *
   * @param newKeys the keys' memory
   * @param newValues the values'
   */
  final void setCall(AttentionCall newCall, Elements newKeys, Elements newValues) {
    call = newCall;
    keyElements = newKeys;
    valueElements = newValues;
  }

  /** Takes up a block of the call. */
  final void start(int b, int firstHead, int heads, long firstQuery, int queryCount) {
    AttentionCall newCall = call();
    batch = b;
    headBegin = firstHead;
    queryBegin = firstQuery;
    queries = queryCount;
    rows = heads * queryCount;
    careful = false;
    states = null;
    scaledScores = needsScaledScores(newCall);
    Rescale asked = newCall.attention().rescale();
    rescale = asked == null ? defaultRescale() : asked;
    if (visibleBegin.length < rows) {
      visibleBegin = new long[rows];
      visibleEnd = new long[rows];
    }
    Mask mask = newCall.attention().mask();
    Sequence sequence = newCall.sequence(b);
    for (int r = 0; r < rows; r++) {
      visibleBegin[r] = mask.begin(sequence, query(r));
      visibleEnd[r] = Math.max(visibleBegin[r], mask.end(sequence, query(r)));
    }
    packQueries();
  }

  /**
   * Whether scores must be multiplied out before the maximum is taken, rather than inside the
   * exponential: something is added to them, or the factor is not one that keeps the order of
   * scores and the range of float32.
   */
  private static boolean needsScaledScores(AttentionCall call) {
    return call.attention().softCap() > 0
        || call.attention().bias() != null
        || call.attention().alibiSlopes() != null
        || call.attention().scoreFunction() != null
        || !(call.scale() >= 0x1p-40 && call.scale() <= 0x1p40);
  }

  /** The dialect that was measured fastest. */
  Rescale defaultRescale() {
    return Rescale.ON_NEW_MAX;
  }

  /** Lets {@link #finish} leave the block's states for others to go on, as those of a piece. */
  final void keepStates(PartialStates newStates, int newPiece) {
    states = newStates;
    piece = newPiece;
  }

  /** Folds keys again, this time keeping hidden values out of every product. */
  final void refoldCarefully(long from, long to) {
    careful = true;
    foldKeys(from, to);
  }

  /**
   * Folds the keys in {@code from} to {@code to} of those that the rows see: an aligned run of
   * cells, or part of a cell.
   */
  final void foldKeys(long from, long to) {
    clearState();
    levels = 0;
    long begin = from;
    long end = Long.MIN_VALUE;
    long earliest = Long.MAX_VALUE;
    for (int r = 0; r < rows; r++) {
      if (visibleBegin[r] < visibleEnd[r]) {
        earliest = Math.min(earliest, visibleBegin[r]);
        end = Math.max(end, visibleEnd[r]);
      }
    }
    begin = Math.max(begin, earliest);
    end = Math.min(end, to);
    if (begin >= end) {
      return; // no row sees any of these keys
    }
    long tile = begin / tileKeys * tileKeys;
    do {
      long first = Math.max(tile, begin);
      long last =
          end - tile > tileKeys ? tile + tileKeys : end; // no overflow at the last positions
      if (coverage(first, last) != Coverage.NONE) {
        foldTile(first, (int) (last - first));
      }
      if (last < end && last % cellKeys == 0) {
        close(tile / cellKeys);
        reach((double) (last - begin) / (end - begin));
      }
      tile = last;
    } while (tile < end);
    collapse();
  }

  private void reach(double share) {
    if (account != null) {
      account.reach(share);
    }
  }

  /** Folds the partials of splits 0 to {@code splits - 1}, each an equal, aligned run of cells. */
  final void foldPartials(Partials partials, long firstIndex, int splits) {
    levels = 0;
    for (int split = 0; split < splits; split++) {
      load(partials, firstIndex + split);
      if (split < splits - 1) {
        close(split);
      }
    }
    collapse();
  }

  /** Carries the state of a cell, or of a subtree, into the counter. */
  private void close(long number) {
    int level = 0;
    for (long carry = number; (carry & 1) == 1; carry >>= 1) {
      takeLevel(level++);
    }
    moveToLevel(level);
    levels |= 1L << level;
  }

  private void collapse() {
    for (int level = 0; levels != 0; level++) {
      takeLevel(level);
    }
  }

  private void takeLevel(int level) {
    if ((levels >> level & 1) == 1) {
      mergeLevel(level);
      levels &= ~(1L << level);
    }
  }

  /** What a user's mask leaves of a tile; intervals are seen to row by row. */
  private Coverage coverage(long first, long last) {
    Mask mask = call().attention().mask();
    if (mask.isInterval()) {
      return Coverage.SOME;
    }
    for (int r = 0; r < rows; r += queries) {
      Coverage coverage =
          mask.coverage(sequence(), head(r), queryBegin, queryBegin + queries, first, last);
      if (coverage != Coverage.NONE) {
        return coverage;
      }
    }
    return Coverage.NONE;
  }

  final AttentionCall call() {
    if (call == null) {
      throw new IllegalStateException("no block");
    }
    return call;
  }

  final Elements keyElements() {
    if (keyElements == null) {
      throw new IllegalStateException("no block");
    }
    return keyElements;
  }

  final Elements valueElements() {
    if (valueElements == null) {
      throw new IllegalStateException("no block");
    }
    return valueElements;
  }

  final Sequence sequence() {
    return call().sequence(batch);
  }

  final int batch() {
    return batch;
  }

  final int rows() {
    return rows;
  }

  final int head(int r) {
    return headBegin + r / queries;
  }

  final int keyHead() {
    return headBegin / call().group();
  }

  final long query(int r) {
    return queryBegin + r % queries;
  }

  final long visibleBegin(int r) {
    return visibleBegin[r];
  }

  final long visibleEnd(int r) {
    return visibleEnd[r];
  }

  final boolean isCareful() {
    return careful;
  }

  /** Whether scores are natural; otherwise they are raw dot products. */
  final boolean hasScaledScores() {
    return scaledScores;
  }

  /** What turns a score, as it is kept, into a natural one. */
  final double scoreUnit() {
    return scoreUnit(call());
  }

  static double scoreUnit(AttentionCall call) {
    return needsScaledScores(call) ? 1 : call.scale();
  }

  final @Nullable PartialStates states() {
    return states;
  }

  final int piece() {
    return piece;
  }

  final Rescale rescale() {
    return rescale;
  }
}
