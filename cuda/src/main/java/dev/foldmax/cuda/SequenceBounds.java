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
  private final long[] prefix = {FAR, FAR};
  private final long[] prefixShift = {-FAR, -FAR};

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
        int slot = part.alignment() == Alignment.BOTTOM_RIGHT ? 0 : 1;
        prefix[slot] = Math.min(prefix[slot], lengths.longAt(index * lengths.stride(0)));
        prefixShift[slot] = offset(part.alignment()) + 1;
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

  long prefix(int slot) {
    return prefix[slot];
  }

  long prefixShift(int slot) {
    return prefixShift[slot];
  }
}
