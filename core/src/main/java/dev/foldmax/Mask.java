package dev.foldmax;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * Which keys a query may attend to. Masks are immutable values; {@link #and} combines them.
 *
 * <p>A key that a mask hides contributes nothing at all: neither its score nor its value is ever
 * added, even if they are NaN or infinite. Masks are applied last, so that no bias or soft cap
 * revives a hidden key.
 *
 * <p>Positions are those of {@link Alignment}. {@link None}, {@link Causal}, {@link Window} and
 * {@link Prefix} hide, for each query, everything outside one interval of keys, {@link #begin} to
 * {@link #end}; kernels skip the rest without asking. The others answer for single pairs.
 */
public sealed interface Mask {
  /** "No bound", for {@link #window}. */
  long UNBOUNDED = Long.MAX_VALUE;

  /** Every key is visible. */
  static Mask none() {
    return None.INSTANCE;
  }

  /** A query sees the keys up to its own position; the last query sees every key. */
  static Mask causal() {
    return new Causal(Alignment.BOTTOM_RIGHT);
  }

  /** A query sees the keys up to its own position. */
  static Mask causal(Alignment alignment) {
    return new Causal(alignment);
  }

  /**
   * A query at position {@code i} sees the keys {@code i - left} to {@code i + right}, both
   * inclusive; aligned bottom-right.
   *
   * @param left how many keys before its own a query sees, or {@link #UNBOUNDED}
   * @param right how many keys after its own a query sees, or {@link #UNBOUNDED}
   */
  static Mask window(long left, long right) {
    return new Window(left, right, Alignment.BOTTOM_RIGHT);
  }

  /** As {@link #window(long, long)}, with an alignment. */
  static Mask window(long left, long right, Alignment alignment) {
    return new Window(left, right, alignment);
  }

  /**
   * Prefix-LM: causal, and every query also sees the first {@code length} keys.
   *
   * @param length the length of the prefix, the same for every sequence
   */
  static Mask prefix(long length) {
    return prefix(Tensor.of(new long[] {length}, 1));
  }

  /**
   * Prefix-LM with a length for each sequence; aligned bottom-right.
   *
   * @param lengths I32 or I64 of shape (batch) or (1); read at each call
   */
  static Mask prefix(Tensor lengths) {
    return new Prefix(lengths, Alignment.BOTTOM_RIGHT);
  }

  /**
   * A boolean tensor, true where a key is visible.
   *
   * @param visible BOOL, broadcastable to (batch, query heads, queries, keys); columns are counted
   *     from the first key that is present
   */
  static Mask of(Tensor visible) {
    return new Dense(visible);
  }

  /** A mask of the user's own. */
  static Mask of(MaskFunction function) {
    return new Custom(function);
  }

  /** The mask that shows what both this and {@code other} show. */
  default Mask and(Mask other) {
    List<Mask> parts = new ArrayList<>();
    for (Mask mask : List.of(this, other)) {
      switch (mask) {
        case None none -> {}
        case And and -> parts.addAll(and.parts());
        default -> parts.add(mask);
      }
    }
    return switch (parts.size()) {
      case 0 -> none();
      case 1 -> parts.getFirst();
      default -> new And(parts);
    };
  }

  /**
   * The first key that query {@code query} may see. It never falls as the query's index grows. What
   * it admits may still be hidden by a tensor or a function.
   */
  default long begin(Sequence sequence, long query) {
    return sequence.firstKey();
  }

  /** One past the last key that query {@code query} may see; never falls as the index grows. */
  default long end(Sequence sequence, long query) {
    return sequence.endKey();
  }

  /** Whether nothing but {@link #begin} and {@link #end} decides. */
  default boolean isInterval() {
    return true;
  }

  /** Whether a key inside its query's interval is visible; true for masks that are intervals. */
  default boolean visibleInside(Sequence sequence, int head, long query, long key) {
    return true;
  }

  /** Whether a query sees a key. */
  default boolean visible(Sequence sequence, int head, long query, long key) {
    return key >= begin(sequence, query)
        && key < end(sequence, query)
        && visibleInside(sequence, head, query, key);
  }

  /**
   * What is visible of a tile.
   *
   * @param queryBegin the first query, inclusive
   * @param queryEnd one past the last query; at least one query
   * @param keyBegin the first key, inclusive
   * @param keyEnd one past the last key; at least one key
   */
  default Coverage coverage(
      Sequence sequence, int head, long queryBegin, long queryEnd, long keyBegin, long keyEnd) {
    if (keyEnd <= begin(sequence, queryBegin) || keyBegin >= end(sequence, queryEnd - 1)) {
      return Coverage.NONE;
    }
    boolean inside =
        keyBegin >= begin(sequence, queryEnd - 1) && keyEnd <= end(sequence, queryBegin);
    return inside && isInterval() ? Coverage.ALL : Coverage.SOME;
  }

  /** Every key is visible. */
  record None() implements Mask {
    private static final None INSTANCE = new None();
  }

  /** See {@link Mask#causal()}. */
  record Causal(Alignment alignment) implements Mask {
    public Causal {
      Objects.requireNonNull(alignment, "alignment");
    }

    @Override
    public long end(Sequence sequence, long query) {
      return clamp(sequence, positionOf(sequence, query, alignment) + 1);
    }
  }

  /** See {@link Mask#window(long, long)}. */
  record Window(long left, long right, Alignment alignment) implements Mask {
    public Window {
      Objects.requireNonNull(alignment, "alignment");
      if (left < 0 || right < 0) {
        throw new IllegalArgumentException(
            "window: left and right must be at least 0 (or Mask.UNBOUNDED), got "
                + left
                + " and "
                + right);
      }
    }

    @Override
    public long begin(Sequence sequence, long query) {
      return left >= UNBOUNDED / 2
          ? sequence.firstKey()
          : clamp(sequence, positionOf(sequence, query, alignment) - left);
    }

    @Override
    public long end(Sequence sequence, long query) {
      return right >= UNBOUNDED / 2
          ? sequence.endKey()
          : clamp(sequence, positionOf(sequence, query, alignment) + right + 1);
    }
  }

  /** See {@link Mask#prefix(Tensor)}. */
  record Prefix(Tensor lengths, Alignment alignment) implements Mask {
    public Prefix {
      Objects.requireNonNull(alignment, "alignment");
      if (!lengths.dtype().isIndex() || lengths.rank() != 1) {
        throw new IllegalArgumentException(
            "prefix: lengths must be I32 or I64 of shape (batch) or (1), got " + lengths);
      }
    }

    @Override
    public long end(Sequence sequence, long query) {
      long index = lengths.shape(0) == 1 ? 0 : sequence.batch();
      long prefix = lengths.longAt(index * lengths.stride(0));
      return clamp(sequence, Math.max(prefix, positionOf(sequence, query, alignment) + 1));
    }
  }

  /** See {@link Mask#of(Tensor)}. */
  record Dense(Tensor visible) implements Mask {
    public Dense {
      if (visible.dtype() != DType.BOOL || visible.rank() > 4) {
        throw new IllegalArgumentException(
            "mask: expected BOOL, broadcastable to (batch, heads, queries, keys), got " + visible);
      }
    }

    @Override
    public boolean isInterval() {
      return false;
    }

    @Override
    public boolean visibleInside(Sequence sequence, int head, long query, long key) {
      return visible.booleanAt(
          visible.broadcastOffset(sequence.batch(), head, query, key - sequence.firstKey()));
    }
  }

  /** See {@link Mask#of(MaskFunction)}. */
  record Custom(MaskFunction function) implements Mask {
    public Custom {
      Objects.requireNonNull(function, "function");
    }

    @Override
    public boolean isInterval() {
      return false;
    }

    @Override
    public boolean visibleInside(Sequence sequence, int head, long query, long key) {
      return function.visible(sequence, head, query, key);
    }

    @Override
    public Coverage coverage(
        Sequence sequence, int head, long queryBegin, long queryEnd, long keyBegin, long keyEnd) {
      return function.coverage(sequence, head, queryBegin, queryEnd, keyBegin, keyEnd);
    }
  }

  /** What all of its parts show. */
  record And(List<Mask> parts) implements Mask {
    public And {
      parts = List.copyOf(parts);
    }

    @Override
    public long begin(Sequence sequence, long query) {
      long begin = sequence.firstKey();
      for (int i = 0; i < parts.size(); i++) {
        begin = Math.max(begin, parts.get(i).begin(sequence, query));
      }
      return begin;
    }

    @Override
    public long end(Sequence sequence, long query) {
      long end = sequence.endKey();
      for (int i = 0; i < parts.size(); i++) {
        end = Math.min(end, parts.get(i).end(sequence, query));
      }
      return end;
    }

    @Override
    public boolean isInterval() {
      for (int i = 0; i < parts.size(); i++) {
        if (!parts.get(i).isInterval()) {
          return false;
        }
      }
      return true;
    }

    @Override
    public boolean visibleInside(Sequence sequence, int head, long query, long key) {
      for (int i = 0; i < parts.size(); i++) {
        if (!parts.get(i).visibleInside(sequence, head, query, key)) {
          return false;
        }
      }
      return true;
    }

    @Override
    public Coverage coverage(
        Sequence sequence, int head, long queryBegin, long queryEnd, long keyBegin, long keyEnd) {
      Coverage all = Coverage.ALL;
      for (int i = 0; i < parts.size(); i++) {
        Coverage part =
            parts.get(i).coverage(sequence, head, queryBegin, queryEnd, keyBegin, keyEnd);
        if (part == Coverage.NONE) {
          return Coverage.NONE;
        }
        all = part == Coverage.SOME ? Coverage.SOME : all;
      }
      return all;
    }
  }

  private static long positionOf(Sequence sequence, long query, Alignment alignment) {
    return query + alignment.offset(sequence.queries(), sequence.endKey());
  }

  private static long clamp(Sequence sequence, long key) {
    return Math.clamp(key, sequence.firstKey(), sequence.endKey());
  }
}
