package dev.foldmax.cpu;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * A tensor of F32 that lies in a Java array, with rows of adjacent elements: streaming kernels read
 * such keys and values where they are. Looked up once a call, on the calling thread.
 *
 * @param array the array
 * @param base where the tensor's first element lies in it
 */
@SuppressWarnings("ArrayRecordComponent") // a view of memory, never compared
record HeapArray(float[] array, int base) {
  /** The array behind a tensor, or null where kernels have to copy. */
  static @Nullable HeapArray of(Tensor tensor, @Nullable Tensor scales) {
    if (scales != null || tensor.dtype() != DType.F32 || tensor.stride(-1) != 1) {
      return null;
    }
    Object heap = tensor.segment().heapBase().orElse(null);
    long byteOffset = tensor.segment().address();
    return heap instanceof float[] array && byteOffset % Float.BYTES == 0
        ? new HeapArray(array, (int) (byteOffset / Float.BYTES))
        : null;
  }
}
