package dev.foldmax.cuda;

import dev.foldmax.Alignment;
import dev.foldmax.Mask;
import dev.foldmax.Sequence;
import dev.foldmax.Tensor;

/**
 * The interval masks of an attention, resolved for one sequence: query i sees the keys from {@code
 * max(firstKey, i + begin)} to, exclusively, {@code min(endKey, i + end, max(prefix[n], i +
 * prefixShift[n]))}. What boolean masks hide within is no matter of this.
 *
 * <p>Two prefixes suffice: of those with one alignment the shortest decides, and there are two
 * alignments.
 */
final class SequenceBounds {
  /** Far enough to bound nothing, near enough for sums with positions. */
  static final long FAR = 1L << 62;

  private final Sequence sequence;
  private long begin = -FAR;
  private long end = FAR;
  private long bottomPrefix = FAR;
  private long bottomShift = -FAR;
  private long topPrefix = FAR;
  private long topShift = -FAR;

  private SequenceBounds(Sequence sequence) {
    this.sequence = sequence;
  }

  static SequenceBounds of(Mask mask, Sequence sequence) {
    SequenceBounds bounds = new SequenceBounds(sequence);
    bounds.add(mask);
    return bounds;
  }

  private void add(Mask mask) {
    switch (mask) {
      case Mask.Causal causal -> end = Math.min(end, offset(causal.alignment()) + 1);
      case Mask.Window window -> {
        long offset = offset(window.alignment());
        if (window.left() < Mask.UNBOUNDED / 2) {
          begin = Math.max(begin, offset - window.left());
        }
        if (window.right() < Mask.UNBOUNDED / 2) {
          end = Math.min(end, offset + window.right() + 1);
        }
      }
      case Mask.Prefix part -> {
        Tensor lengths = part.lengths();
        long index = lengths.shape(0) == 1 ? 0 : sequence.batch();
        long length = lengths.longAt(index * lengths.stride(0));
        if (part.alignment() == Alignment.BOTTOM_RIGHT) {
          bottomPrefix = Math.min(bottomPrefix, length);
          bottomShift = offset(part.alignment()) + 1;
        } else {
          topPrefix = Math.min(topPrefix, length);
          topShift = offset(part.alignment()) + 1;
        }
      }
      case Mask.And and -> and.parts().forEach(this::add);
      case Mask.None none -> {}
      case Mask.Dense dense -> {}
      case Mask.Custom custom -> {}
    }
  }

  private long offset(Alignment alignment) {
    return alignment.offset(sequence.queries(), sequence.endKey());
  }

  long begin() {
    return Math.clamp(begin, -FAR, FAR);
  }

  long end() {
    return Math.clamp(end, -FAR, FAR);
  }

  /** The shortest prefix of those with an alignment; {@link #FAR} without any. */
  long prefix(Alignment alignment) {
    return alignment == Alignment.BOTTOM_RIGHT ? bottomPrefix : topPrefix;
  }

  /** Where a query's own reach ends that has such a prefix, from its index. */
  long prefixShift(Alignment alignment) {
    return alignment == Alignment.BOTTOM_RIGHT ? bottomShift : topShift;
  }
}
