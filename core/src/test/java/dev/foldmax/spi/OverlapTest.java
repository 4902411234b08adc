package dev.foldmax.spi;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.BitSet;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/** Against the bytes of small views, counted one by one. */
class OverlapTest {
  private static final int BYTES = 160;

  private final MemorySegment memory = MemorySegment.ofArray(new byte[BYTES]);

  @Test
  void isSharedAndIsRepeatingAreExact() {
    SplittableRandom random = new SplittableRandom(11);
    int shared = 0;
    int repeating = 0;
    int rounds = 20_000;
    for (int round = 0; round < rounds; round++) {
      Tensor a = view(random);
      Tensor b = view(random);
      boolean isShared = bytes(a).intersects(bytes(b));
      assertThat(Overlap.isShared(a, b)).as("%s", a).isEqualTo(isShared);
      assertThat(Overlap.isShared(b, a)).isEqualTo(isShared);
      boolean isRepeating = bytes(a).cardinality() < a.elements() * a.dtype().bytes();
      assertThat(Overlap.isRepeating(a)).isEqualTo(isRepeating);
      shared += isShared ? 1 : 0;
      repeating += isRepeating ? 1 : 0;
    }
    assertThat(shared).as("rounds with a shared byte").isBetween(rounds / 10, rounds - rounds / 10);
    assertThat(repeating).as("rounds that repeat").isBetween(rounds / 10, rounds - rounds / 10);
  }

  /** Up to four dimensions of up to four, anywhere in the memory. */
  private Tensor view(SplittableRandom random) {
    DType[] types = {DType.BOOL, DType.F16, DType.F32, DType.F64};
    while (true) {
      DType type = types[random.nextInt(types.length)];
      int rank = random.nextInt(5);
      long[] shape =
          random.longs(rank, 0, 5).map(size -> size == 0 ? random.nextInt(3) : size).toArray();
      long[] strides = random.longs(rank, 0, 14).toArray();
      int begin = random.nextInt(BYTES);
      long last = 1;
      for (int axis = 0; axis < rank; axis++) {
        last += Math.max(0, shape[axis] - 1) * strides[axis];
      }
      if (begin + last * type.bytes() <= BYTES) {
        return Tensor.strided(memory.asSlice(begin), type, shape, strides);
      }
    }
  }

  private static BitSet bytes(Tensor tensor) {
    BitSet bytes = new BitSet();
    for (long element = 0; element < tensor.elements(); element++) {
      long at =
          tensor.segment().address() + Rows.elementOffset(tensor, element) * tensor.dtype().bytes();
      bytes.set((int) at, (int) at + tensor.dtype().bytes());
    }
    return bytes;
  }

  @Test
  void otherMemoryIsNotShared() {
    Tensor a = Tensor.of(new float[8], 2, 4);
    Tensor b = Tensor.of(new float[8], 2, 4);
    assertThat(Overlap.isShared(a, b)).isFalse();
    assertThat(Overlap.isShared(a, a)).isTrue();
  }
}
