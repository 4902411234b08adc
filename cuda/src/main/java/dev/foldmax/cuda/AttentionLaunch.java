package dev.foldmax.cuda;

import dev.foldmax.Alignment;
import dev.foldmax.Mask;
import dev.foldmax.Sequence;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import java.lang.foreign.MemorySegment;
import java.util.Map;

/**
 * One call as a family of kernels gets it: every tensor on the device and in the form that
 * arguments.cuh asks for, the arguments written, and what a launch needs.
 *
 * @param call what was asked for; its tensors may lie on the host or have other strides, so only
 *     its numbers are for launches
 * @param arguments struct AttentionArguments, to be copied into the kernel's parameters
 * @param q as struct Matrix describes: 4 dimensions, rows at multiples of 16 bytes
 * @param k likewise
 * @param v likewise
 * @param mostQueries of any sequence of this launch, at least 1
 * @param mostKeys of any sequence; of a launch that is recorded, and whose lengths may change, as
 *     many as there is room for
 * @param lengthsMayChange whether it is recorded with lengths that a later launch may change; not
 *     so the number of queries
 * @param workplace where the work goes
 */
record AttentionLaunch(
    AttentionCall call,
    MemorySegment arguments,
    Tensor q,
    Tensor k,
    Tensor v,
    long mostQueries,
    long mostKeys,
    boolean lengthsMayChange,
    Workplace workplace) {
  Device device() {
    return workplace.device();
  }

  Stream stream() {
    return workplace.stream();
  }

  /**
   * In how many pieces of so many keys, at absolute multiples of that, those lie that the queries
   * of a sequence see; at most, where lengths may change.
   *
   * @param b the sequence's index; it has queries
   */
  long pieces(int b, long keys) {
    Sequence sequence = call.sequence(b);
    return lengthsMayChange
        ? mostPieces(call.attention().mask(), sequence, keys)
        : pieces(call.attention().mask(), sequence, keys);
  }

  private static long pieces(Mask mask, Sequence sequence, long keys) {
    long begin = mask.begin(sequence, 0);
    long end = mask.end(sequence, sequence.queries() - 1);
    return begin < end ? Math.ceilDiv(end, keys) - begin / keys : 0;
  }

  private long mostPieces(Mask mask, Sequence sequence, long keys) {
    long seen = mostKeys;
    for (Alignment alignment : Alignment.values()) {
      // Aligned bottom-right, the last query stands at the last key: none is to its right.
      long[] reach = {mostKeys, alignment == Alignment.BOTTOM_RIGHT ? 0 : mostKeys};
      narrow(mask, alignment, reach);
      seen = Math.min(seen, reach[0] + reach[1] + sequence.queries());
    }
    if (seen == 0) {
      return 0;
    }
    long anywhere = Math.ceilDiv(seen - 1, keys) + 1;
    boolean beginsAtZero = !call.keyValues().layout().equals("ring");
    return beginsAtZero ? Math.min(anywhere, Math.ceilDiv(mostKeys, keys)) : anywhere;
  }

  /** Narrows how far a query sees to the left and to the right of its position of an alignment. */
  private static void narrow(Mask mask, Alignment alignment, long[] reach) {
    if (mask instanceof Mask.Causal causal && causal.alignment() == alignment) {
      reach[1] = 0;
    } else if (mask instanceof Mask.Window window && window.alignment() == alignment) {
      reach[0] = Math.min(reach[0], window.left());
      reach[1] = Math.min(reach[1], window.right());
    } else if (mask instanceof Mask.And and) {
      and.parts().forEach(part -> narrow(part, alignment, reach));
    }
  }

  /** See {@link Kernels#get}. */
  Kernel kernel(String source, String entry, Map<String, Integer> macros) {
    return workplace.kernels().get(source, entry, macros);
  }

  /** Uninitialised device memory for this launch alone; see {@link Workplace#scratch}. */
  long scratch(long bytes) {
    return workplace.scratch(bytes);
  }
}
