package dev.foldmax.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.Alignment;
import dev.foldmax.Attention;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import java.lang.foreign.MemorySegment;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/** How many pieces the keys that are seen lie in: now, and at most. */
class AttentionLaunchTest {
  private static final int ROOM = 60;

  @SuppressWarnings("NullAway") // nothing is launched
  private static long pieces(AttentionCall call, boolean lengthsMayChange, int keys) {
    Tensor q = call.q();
    return new AttentionLaunch(call, MemorySegment.NULL, q, q, q, 1, ROOM, lengthsMayChange, null)
        .pieces(0, keys);
  }

  private static Mask mask(SplittableRandom random, Tensor prefix, Alignment alignment) {
    return switch (random.nextInt(5)) {
      case 0 -> Mask.none();
      case 1 -> Mask.causal(alignment);
      case 2 -> Mask.window(random.nextInt(30), random.nextInt(4), alignment);
      case 3 -> Mask.prefix(prefix);
      default -> Mask.causal(alignment).and(Mask.window(random.nextInt(20), Mask.UNBOUNDED));
    };
  }

  @Test
  void noLengthsHaveMorePiecesThanThoseThatMayChange() {
    SplittableRandom random = new SplittableRandom(9);
    Tensor keys = Tensor.allocate(DType.F32, 1, 1, ROOM, 8);
    Tensor lengths = Tensor.of(new int[1], 1);
    Tensor first = Tensor.of(new int[1], 1);
    Tensor prefix = Tensor.of(new int[1], 1);
    for (int n = 0; n < 300; n++) {
      boolean isRing = random.nextBoolean();
      Alignment alignment = random.nextBoolean() ? Alignment.TOP_LEFT : Alignment.BOTTOM_RIGHT;
      KeyValues keyValues =
          isRing
              ? KeyValues.ring(keys, keys, first, lengths)
              : KeyValues.dense(keys, keys).lengths(lengths);
      int queries = random.nextInt(1, 6);
      int piece = 1 << random.nextInt(5);
      Tensor q = Tensor.allocate(DType.F32, 1, 1, queries, 8);
      Attention attention = Attention.standard().mask(mask(random, prefix, alignment));
      AttentionCall call = AttentionCall.of(q, keyValues, attention, q.copy(), null);
      long most = pieces(call, true, piece);
      long largest = 0;
      for (int length = 0; length <= ROOM; length++) {
        for (int shift = 0; shift < (isRing ? piece : 1); shift++) {
          lengths.setLongAt(0, length);
          first.setLongAt(0, 16 * piece + shift);
          prefix.setLongAt(0, random.nextInt(16 * piece + 2 * ROOM));
          AttentionCall now = call.reread();
          long pieces = pieces(now, false, piece);
          assertThat(pieces).as("%s, %d keys", attention, length).isBetween(0L, most);
          largest = Math.max(largest, pieces);
        }
      }
      if (alignment == Alignment.BOTTOM_RIGHT) {
        assertThat(largest) // one fewer where what is seen cannot begin anywhere
            .as("%s, %d queries, pieces of %d", attention, queries, piece)
            .isGreaterThanOrEqualTo(most - 1);
      }
    }
  }
}
