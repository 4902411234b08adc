package dev.foldmax.spi;

import dev.foldmax.Attention;
import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;

/**
 * An attention over a range of its keys whose arguments have been checked: those of {@link
 * dev.foldmax.Backend#attendPartial}.
 *
 * @param attention without outputs
 * @param keyBegin the first key, inclusive; it is held here, as all to {@code keyEnd} are
 * @param keyEnd one past the last key
 * @param totalKeys the keys of the longest sequence
 */
public record PartialCall(AttentionCall attention, long keyBegin, long keyEnd, long totalKeys) {
  /** Checks the arguments. */
  public static PartialCall of(
      Tensor q, KeyValues keyValues, Attention attention, long keyBegin, long keyEnd) {
    AttentionCall call = AttentionCall.withoutOutput(q, keyValues, attention);
    long heldBegin = keyValues.heldBegin();
    long heldEnd = keyValues.heldEnd();
    if (keyBegin < heldBegin || keyEnd > heldEnd || keyBegin >= keyEnd) {
      throw new IllegalArgumentException(
          "keys: expected a range within "
              + heldBegin
              + ".."
              + heldEnd
              + (heldBegin == heldEnd ? ", which is empty" : "")
              + ", got "
              + keyBegin
              + ".."
              + keyEnd);
    }
    return new PartialCall(call, keyBegin, keyEnd, keyValues.totalKeys());
  }
}
