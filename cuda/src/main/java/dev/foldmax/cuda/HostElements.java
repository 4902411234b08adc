package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_SHORT_UNALIGNED;

import dev.foldmax.Tensor;
import java.lang.foreign.MemorySegment;

/**
 * A host tensor's elements as bytes in row-major order, whatever its strides: packs any range of
 * them, and unpacks. The innermost dimensions that lie without gaps are copied in one piece.
 */
final class HostElements {
  private final MemorySegment segment;
  private final int elementBytes;
  private final long[] sizes; // of the dimensions outside a piece, slowest first
  private final long[] strides; // of those, in bytes
  private final long pieceBytes;
  private final long byteSize;

  HostElements(Tensor tensor) {
    this.segment = tensor.segment();
    this.elementBytes = tensor.dtype().bytes();
    this.byteSize = tensor.elements() * elementBytes;
    int outside = tensor.rank();
    long piece = 1;
    while (outside > 0 && (tensor.shape(outside - 1) == 1 || tensor.stride(outside - 1) == piece)) {
      outside--;
      piece *= tensor.shape(outside);
    }
    this.pieceBytes = piece * elementBytes;
    this.sizes = new long[outside];
    this.strides = new long[outside];
    for (int axis = 0; axis < outside; axis++) {
      sizes[axis] = tensor.shape(axis);
      strides[axis] = tensor.stride(axis) * elementBytes;
    }
  }

  /** The number of bytes. */
  long byteSize() {
    return byteSize;
  }

  /**
   * Packs as much as fits.
   *
   * @param begin the first byte, at an element
   * @return how many bytes it was
   */
  long pack(long begin, MemorySegment target) {
    long bytes = Math.min(byteSize - begin, target.byteSize());
    transfer(begin, target, bytes, true);
    return bytes;
  }

  /** Unpacks all bytes of {@code source}, which go to {@code begin} and on. */
  void unpack(long begin, MemorySegment source) {
    transfer(begin, source, source.byteSize(), false);
  }

  private void transfer(long begin, MemorySegment packed, long bytes, boolean pack) {
    if (bytes == 0) {
      return;
    }
    long[] index = new long[sizes.length];
    long offset = 0;
    long rest = begin / pieceBytes;
    for (int axis = sizes.length - 1; axis >= 0; axis--) {
      index[axis] = rest % sizes[axis];
      offset += index[axis] * strides[axis];
      rest /= sizes[axis];
    }
    long inside = begin % pieceBytes; // of the first piece
    for (long done = 0; done < bytes; ) {
      long length = Math.min(pieceBytes - inside, bytes - done);
      move(offset + inside, packed, done, length, pack);
      done += length;
      inside = 0;
      for (int axis = sizes.length - 1; axis >= 0; axis--) {
        offset += strides[axis];
        if (++index[axis] < sizes[axis]) {
          break;
        }
        offset -= sizes[axis] * strides[axis];
        index[axis] = 0;
      }
    }
  }

  private void move(long offset, MemorySegment packed, long place, long length, boolean pack) {
    MemorySegment from = pack ? segment : packed;
    MemorySegment to = pack ? packed : segment;
    long source = pack ? offset : place;
    long target = pack ? place : offset;
    if (length != elementBytes) {
      MemorySegment.copy(from, source, to, target, length);
      return;
    }
    switch (elementBytes) { // a call to copy memory is slower than one element
      case Long.BYTES -> to.set(JAVA_LONG_UNALIGNED, target, from.get(JAVA_LONG_UNALIGNED, source));
      case Integer.BYTES ->
          to.set(JAVA_INT_UNALIGNED, target, from.get(JAVA_INT_UNALIGNED, source));
      case Short.BYTES ->
          to.set(JAVA_SHORT_UNALIGNED, target, from.get(JAVA_SHORT_UNALIGNED, source));
      default -> to.set(JAVA_BYTE, target, from.get(JAVA_BYTE, source));
    }
  }
}
