package dev.foldmax.cli;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.KernelChoice;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Phase;
import dev.foldmax.Sequence;
import dev.foldmax.Tensor;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * An attention with its data. It can be cut into parts, since no row depends on another.
 *
 * @param q (batch, query heads, queries, Dqk)
 * @param k (batch, key heads, keys, Dqk)
 * @param v (batch, key heads, keys, Dv)
 * @param keyScales (batch, key heads, keys), or null
 * @param valueScales (batch, key heads, keys), or null
 * @param attention without a score function, and with masks that are tensors or intervals
 * @param out (batch, query heads, queries, Dv)
 * @param lse (batch, query heads, queries)
 */
record AttendJob(
    Tensor q,
    Tensor k,
    Tensor v,
    @Nullable Tensor keyScales,
    @Nullable Tensor valueScales,
    Attention attention,
    Tensor out,
    Tensor lse) {
  /** The number of sequences. */
  long batch() {
    return q.shape(0);
  }

  /** The number of query heads. */
  long heads() {
    return q.shape(1);
  }

  /** The number of queries of each sequence. */
  long queries() {
    return q.shape(2);
  }

  /** The number of keys of each sequence. */
  long keys() {
    return k.shape(2);
  }

  /** How many query heads share a key head. */
  long group() {
    return k.shape(1) == 0 ? 1 : heads() / k.shape(1);
  }

  /** What masks know of each sequence. */
  Sequence sequence() {
    return new Sequence(0, queries(), 0, keys());
  }

  /** The keys and values as the library takes them. */
  KeyValues keyValues() {
    KeyValues dense = KeyValues.dense(k, v);
    return keyScales == null && valueScales == null ? dense : dense.scales(keyScales, valueScales);
  }

  /** Computes out and lse. */
  void run(Backend backend) {
    backend.attend(q, keyValues(), attention, out, lse);
  }

  /**
   * The same part after part, with the same bits: a row's do not depend on the others of a call.
   *
   * @param parts about how many, at least 1
   */
  void runInParts(Backend backend, double parts, Progress progress) {
    // Whole sequences, or, where that is too coarse, whole groups of heads.
    long sequences = (long) Math.max(1, batch() / parts);
    double partsOfSequence = parts / batch();
    long groups =
        partsOfSequence <= 1 ? k.shape(1) : (long) Math.max(1, k.shape(1) / partsOfSequence);
    long step = groups * group();
    for (long b = 0; b < batch(); b += sequences) {
      long batchEnd = Math.min(b + sequences, batch());
      for (long h = 0; h < heads(); h += step) {
        long headEnd = Math.min(h + step, heads());
        double all = (double) batch() * heads();
        progress.begin(
            (b * heads() + (batchEnd - b) * h) / all,
            (b * heads() + (batchEnd - b) * headEnd) / all,
            backend::progress);
        part(b, batchEnd, h, headEnd).run(backend);
      }
    }
  }

  /** Which kernel {@link #run} would take. */
  KernelChoice explain(Backend backend) {
    return backend.explain(q, keyValues(), attention);
  }

  /** The same with another place for the results, of the same shapes. */
  AttendJob into(Tensor newOut, Tensor newLse) {
    return new AttendJob(q, k, v, keyScales, valueScales, attention, newOut, newLse);
  }

  /**
   * The part of some sequences and heads.
   *
   * @param headBegin the first query head, inclusive
   * @param headEnd one past the last query head: whole groups that share key heads, or heads of one
   *     group
   */
  AttendJob part(long batchBegin, long batchEnd, long headBegin, long headEnd) {
    Box queryBox = new Box(batchBegin, batchEnd, headBegin, headEnd);
    Box keyBox =
        new Box(batchBegin, batchEnd, headBegin / group(), (headEnd + group() - 1) / group());
    return new AttendJob(
        queryBox.of(q),
        keyBox.of(k),
        keyBox.of(v),
        keyScales == null ? null : keyBox.of(keyScales),
        valueScales == null ? null : keyBox.of(valueScales),
        queryBox.of(attention),
        queryBox.of(out),
        queryBox.of(lse));
  }

  /** A range of sequences and heads. */
  private record Box(long batchBegin, long batchEnd, long headBegin, long headEnd) {
    /** Of a tensor that begins with batch and heads. */
    Tensor of(Tensor tensor) {
      return tensor.slice(0, batchBegin, batchEnd).slice(1, headBegin, headEnd);
    }

    Attention of(Attention whole) {
      Tensor bias = whole.bias();
      Tensor slopes = whole.alibiSlopes();
      Tensor sinks = whole.sinks();
      return whole
          .mask(of(whole.mask()))
          .bias(bias == null ? null : broadcast(bias))
          .alibi(slopes == null ? null : slopes(slopes), whole.alibiAlignment())
          .sinks(sinks == null ? null : sinks.slice(0, headBegin, headEnd));
    }

    private Mask of(Mask mask) {
      return switch (mask) {
        case Mask.Dense dense -> Mask.of(broadcast(dense.visible()));
        case Mask.And and -> new Mask.And(and.parts().stream().map(this::of).toList());
        default -> mask;
      };
    }

    private Tensor broadcast(Tensor tensor) {
      return range(range(tensor, -4, batchBegin, batchEnd), -3, headBegin, headEnd);
    }

    private Tensor slopes(Tensor slopes) {
      return range(range(slopes, -2, batchBegin, batchEnd), -1, headBegin, headEnd);
    }
  }

  /** A range along an axis, unless the tensor lacks the axis or repeats along it. */
  static Tensor range(Tensor tensor, int axisFromEnd, long begin, long end) {
    boolean has = tensor.rank() >= -axisFromEnd && tensor.shape(axisFromEnd) != 1;
    return has ? tensor.slice(axisFromEnd, begin, end) : tensor;
  }

  /** Whether there are a few queries only, for which the limit is memory, not arithmetic. */
  boolean isDecode() {
    return attention.phase().resolve(queries()) == Phase.DECODE;
  }

  /**
   * The floating-point operations of the two products, of the pairs of a query and a key that
   * causal masks, windows and prefixes leave; tensors may hide more.
   */
  double operations() {
    Sequence sequence = sequence();
    Mask mask = attention.mask();
    double pairs = 0;
    for (long i = 0; i < queries(); i++) {
      pairs += Math.max(0, mask.end(sequence, i) - mask.begin(sequence, i));
    }
    return 2.0 * (q.shape(3) + v.shape(3)) * pairs * batch() * heads();
  }

  /** The bytes that must be read and written once: queries, visible keys and values, outputs. */
  double bytes() {
    Sequence sequence = sequence();
    Mask mask = attention.mask();
    double seen =
        queries() == 0
            ? 0
            : Math.max(0, mask.end(sequence, queries() - 1) - mask.begin(sequence, 0));
    double total = 0;
    for (Tensor tensor : List.of(q, out, lse)) {
      total += (double) tensor.elements() * tensor.dtype().bytes();
    }
    for (Tensor tensor : List.of(k, v)) {
      total += batch() * k.shape(1) * seen * tensor.shape(3) * tensor.dtype().bytes();
    }
    return total;
  }
}
