package dev.foldmax.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/** Packing in pieces of any size is copying. */
class HostElementsTest {
  private static List<Tensor> views(DType dtype) {
    Tensor whole = Tensor.allocate(dtype, 4, 6, 5, 8);
    for (long i = 0; i < whole.elements(); i++) {
      whole.setAt(i, (int) (dtype == DType.BOOL ? i % 3 % 2 : i % 100));
    }
    return List.of(
        whole,
        whole.slice(3, 1, 7),
        whole.slice(0, 1, 3).slice(1, 2, 5).slice(2, 1, 4),
        whole.permute(0, 2, 1, 3),
        whole.permute(3, 2, 1, 0),
        whole.select(3, 2),
        whole.select(0, 1).select(0, 0).select(0, 0).select(0, 3),
        whole.slice(1, 2, 3).expand(4, 6, 5, 8),
        whole.slice(2, 0, 0));
  }

  @Test
  void anyRangeOfBytesIsPackedAndUnpacked() {
    SplittableRandom random = new SplittableRandom(1);
    for (DType dtype : DType.values()) {
      for (Tensor view : views(dtype)) {
        HostElements elements = new HostElements(view);
        MemorySegment expected = view.copy().segment();
        assertThat(elements.byteSize()).isEqualTo(expected.byteSize());
        byte[] packed = new byte[(int) elements.byteSize()];
        boolean repeats = view.rank() > 1 && view.stride(1) == 0;
        for (long begin = 0; begin < packed.length; ) {
          int room = dtype.bytes() * random.nextInt(1, 100);
          byte[] piece = new byte[room];
          long bytes = elements.pack(begin, MemorySegment.ofArray(piece));
          System.arraycopy(piece, 0, packed, (int) begin, (int) bytes);
          begin += bytes;
        }
        assertThat(MemorySegment.ofArray(packed).mismatch(expected))
            .as("%s %s", dtype, view)
            .isEqualTo(-1);
        if (repeats) {
          continue;
        }
        view.fill(0);
        for (long begin = 0; begin < packed.length; ) {
          long bytes =
              Math.min(packed.length - begin, (long) dtype.bytes() * random.nextInt(1, 100));
          elements.unpack(begin, MemorySegment.ofArray(packed).asSlice(begin, bytes));
          begin += bytes;
        }
        assertThat(view.copy().segment().mismatch(MemorySegment.ofArray(packed)))
            .as("%s %s", dtype, view)
            .isEqualTo(-1);
      }
    }
  }
}
