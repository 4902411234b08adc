package dev.foldmax.spi;

import dev.foldmax.Attention;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Phase;
import dev.foldmax.Tensor;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Which attention a call is part of, as texts by name: whatever all machines that work on it must
 * agree on. Tensors that all of them have stand there as digests; of keys and values, of which each
 * has its own, types and shapes. Functions of the user's are named, not compared.
 */
final class AttentionIdentity {
  private AttentionIdentity() {}

  static Map<String, String> of(AttentionCall call) {
    Attention attention = call.attention();
    KeyValues kv = call.keyValues();
    Map<String, String> texts = new LinkedHashMap<>();
    texts.put("q", digest(call.q()));
    texts.put("keys", rows(call.keyHeads(), kv.keys(), kv.keyScales()));
    texts.put("values", rows(call.keyHeads(), kv.values(), kv.valueScales()));
    texts.put("sequences", sequences(call));
    texts.put("scale", Double.toString(call.scale()));
    texts.put("mask", mask(attention.mask()));
    texts.put("softCap", Double.toString(attention.softCap()));
    texts.put("bias", digestOrNone(attention.bias()));
    Tensor slopes = attention.alibiSlopes();
    texts.put("alibi", slopes == null ? "none" : attention.alibiAlignment() + " " + digest(slopes));
    texts.put("sinks", digestOrNone(attention.sinks()));
    texts.put("scoreFunction", attention.scoreFunction() == null ? "none" : "function");
    texts.put("rescale", rescale(attention));
    texts.put("phase", phases(call));
    return texts;
  }

  private static String digestOrNone(@Nullable Tensor tensor) {
    return tensor == null ? "none" : digest(tensor);
  }

  private static String digest(Tensor tensor) {
    return tensor.dtype()
        + " "
        + Arrays.toString(tensor.shape())
        + " sha256:"
        + ContentDigest.of(tensor);
  }

  private static String rows(int heads, Tensor tensor, @Nullable Tensor scales) {
    return tensor.dtype()
        + ", "
        + heads
        + " heads of "
        + tensor.shape(3)
        + (scales == null ? "" : ", scales " + scales.dtype());
  }

  /** How many queries and keys: one number where all sequences have the same. */
  private static String sequences(AttentionCall call) {
    int batch = call.batch();
    long[] numbers = new long[3 * batch];
    boolean same = call.keyValues().queryOffsets() == null;
    for (int b = 0; b < batch; b++) {
      numbers[3 * b] = call.sequence(b).queries();
      numbers[3 * b + 1] = call.sequence(b).firstKey();
      numbers[3 * b + 2] = call.sequence(b).endKey();
      same &= numbers[3 * b + 1] == 0 && numbers[3 * b + 2] == numbers[2];
    }
    String text = batch + " of ";
    return same && batch > 0
        ? text + numbers[0] + " queries and " + numbers[2] + " keys"
        : text + "several lengths, sha256:" + ContentDigest.of(numbers);
  }

  private static String mask(Mask mask) {
    return switch (mask) {
      case Mask.None none -> "none";
      case Mask.Causal causal -> "causal " + causal.alignment();
      case Mask.Window window ->
          "window " + window.left() + "," + window.right() + " " + window.alignment();
      case Mask.Prefix prefix -> "prefix " + prefix.alignment() + " " + digest(prefix.lengths());
      case Mask.Dense dense -> "tensor " + digest(dense.visible());
      case Mask.Custom custom -> "function";
      case Mask.And and ->
          and.parts().stream().map(AttentionIdentity::mask).collect(Collectors.joining(" and "));
    };
  }

  private static String rescale(Attention attention) {
    return attention.rescale() == null
        ? "default"
        : attention.rescale() + ", tau " + attention.tau();
  }

  private static String phases(AttentionCall call) {
    boolean prefill = false;
    boolean decode = false;
    for (int b = 0; b < call.batch(); b++) {
      prefill |= call.phase(b) == Phase.PREFILL;
      decode |= call.phase(b) == Phase.DECODE;
    }
    return prefill && decode ? "PREFILL and DECODE" : decode ? "DECODE" : "PREFILL";
  }
}
