package dev.foldmax.spark;

import dev.foldmax.SoftmaxState;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import java.util.function.Function;

/**
 * The buffer of {@code softmax_top_k}: the best k rows so far, and the {@link SoftmaxState} of all
 * rows, also of those that were left out.
 */
final class TopKState {
  private static final int MAGIC = 0x4b544d46; // "FMTK" in little-endian order
  private static final int VERSION = 1;

  /** A row's score and its id, a value of Spark's own that nobody else changes. */
  record Entry(double score, Object id) {}

  private final int k;
  private final Comparator<Entry> bestFirst;
  private final PriorityQueue<Entry> best; // its head is the one to give way
  private final SoftmaxState all;

  /**
   * An empty state.
   *
   * @param k how many rows to keep, at least 1
   * @param ids the order of ids, by which equal scores are told apart
   */
  TopKState(int k, Comparator<Object> ids) {
    this(k, ids, new SoftmaxState(0));
  }

  private TopKState(int k, Comparator<Object> ids, SoftmaxState all) {
    if (k < 1) {
      throw new IllegalArgumentException("k: must be at least 1, got " + k);
    }
    this.k = k;
    this.bestFirst =
        Comparator.<Entry>comparingDouble(entry -> entry.score + 0.0) // -0.0 becomes 0.0
            .reversed() // NaN counts as larger than every number
            .thenComparing(Entry::id, ids);
    this.best = new PriorityQueue<>(bestFirst.reversed());
    this.all = all;
  }

  /** Whether no row has come. */
  boolean isEmpty() {
    return best.isEmpty();
  }

  /** Whether a row of this score, whatever its id, is among the best so far. */
  boolean mayEnter(double score) {
    return best.size() < k || !(score < best.element().score);
  }

  /** Counts a row that does not enter. */
  void count(double score) {
    all.add(score);
  }

  /** Adds a row. */
  void add(Entry entry) {
    all.add(entry.score);
    keep(entry);
  }

  private void keep(Entry entry) {
    if (best.size() < k) {
      best.add(entry);
    } else if (bestFirst.compare(entry, best.element()) < 0) {
      best.remove();
      best.add(entry);
    }
  }

  /** Merges a state of other rows into this one. */
  void merge(TopKState other) {
    all.merge(other.all);
    other.best.forEach(this::keep);
  }

  /** The best rows, best first. */
  List<Entry> entries() {
    return best.stream().sorted(bestFirst).toList();
  }

  /** The softmax of a score over all rows; 0 for -inf, NaN where a score is NaN or +inf. */
  double probability(double score) {
    return all.isEmpty() ? 0 : Math.exp(score - all.max()) / all.sum();
  }

  /**
   * The state as bytes, little-endian: the characters FMTK, the version, the length of the {@link
   * SoftmaxState}'s bytes and these, the number of entries, and for each its score, the length of
   * its id's bytes and these.
   */
  byte[] toBytes(Function<Object, byte[]> idToBytes) {
    byte[] state = all.toBytes();
    List<Entry> entries = entries();
    List<byte[]> ids = entries.stream().map(entry -> idToBytes.apply(entry.id)).toList();
    int size = 4 * Integer.BYTES + state.length;
    for (byte[] id : ids) {
      size = Math.addExact(size, Double.BYTES + Integer.BYTES + id.length);
    }
    ByteBuffer buffer = ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
    buffer.putInt(MAGIC).putInt(VERSION).putInt(state.length).put(state).putInt(ids.size());
    for (int i = 0; i < ids.size(); i++) {
      buffer.putDouble(entries.get(i).score).putInt(ids.get(i).length).put(ids.get(i));
    }
    return buffer.array();
  }

  /**
   * Reads what {@link #toBytes} wrote.
   *
   * @throws IllegalArgumentException if the bytes have not that form, with a sentence that says why
   */
  static TopKState fromBytes(
      byte[] bytes, int k, Comparator<Object> ids, Function<byte[], Object> idFromBytes) {
    ByteBuffer buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    try {
      if (buffer.getInt() != MAGIC) {
        throw new IllegalArgumentException("top-k state: does not begin with FMTK");
      }
      int version = buffer.getInt();
      if (version != VERSION) {
        throw new IllegalArgumentException(
            "top-k state: version " + version + " is not known, expected " + VERSION);
      }
      TopKState state = new TopKState(k, ids, SoftmaxState.fromBytes(block(buffer)));
      int count = buffer.getInt();
      if (count < 0 || count > k) {
        throw new IllegalArgumentException(
            "top-k state: " + count + " entries, expected 0 to " + k);
      }
      for (int i = 0; i < count; i++) {
        double score = buffer.getDouble();
        checkScore(score, state.all);
        state.best.add(new Entry(score, idFromBytes.apply(block(buffer))));
      }
      if (buffer.hasRemaining()) {
        throw new IllegalArgumentException(
            "top-k state: " + buffer.remaining() + " bytes too many");
      }
      return state;
    } catch (BufferUnderflowException e) {
      throw new IllegalArgumentException("top-k state: " + bytes.length + " bytes are cut off", e);
    }
  }

  /** That a row of this score may be one of those that the state counts. */
  private static void checkScore(double score, SoftmaxState all) {
    if (score > all.max() || (Double.isNaN(score) && !Double.isNaN(all.sum()))) {
      throw new IllegalArgumentException(
          "top-k state: an entry of score "
              + score
              + ", but its rows have maximum "
              + all.max()
              + " and sum "
              + all.sum());
    }
  }

  /** The next bytes, after their length. */
  private static byte[] block(ByteBuffer buffer) {
    int length = buffer.getInt();
    if (length < 0 || length > buffer.remaining()) {
      throw new IllegalArgumentException(
          "top-k state: a part of " + length + " bytes, but " + buffer.remaining() + " are left");
    }
    byte[] block = new byte[length];
    buffer.get(block);
    return block;
  }
}
