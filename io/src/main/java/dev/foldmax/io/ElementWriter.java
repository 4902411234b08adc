package dev.foldmax.io;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_SHORT_UNALIGNED;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;

/**
 * Streams a file: bytes, and elements of tensors to a channel in row-major order, through one
 * buffer whatever the tensors' sizes, strides and memory. Booleans become 0 or 1.
 */
final class ElementWriter {
  private static final int BUFFER_BYTES = 1 << 20;

  private final WritableByteChannel channel;
  private final ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER_BYTES);
  private final MemorySegment memory = MemorySegment.ofBuffer(buffer);

  ElementWriter(WritableByteChannel channel) {
    this.channel = channel;
  }

  /** Writes bytes, such as a header's. */
  void write(byte[] bytes) throws IOException {
    writeAll(ByteBuffer.wrap(bytes));
  }

  /** Writes all elements as they are. */
  void write(Tensor tensor) throws IOException {
    write(tensor, tensor.dtype());
  }

  /** Writes all elements of a BF16 tensor as F32, which is exact. */
  void writeWidened(Tensor tensor) throws IOException {
    write(tensor, DType.F32);
  }

  private void write(Tensor tensor, DType target) throws IOException {
    Tensor rows =
        tensor.rank() == 0 || tensor.isContiguous() ? tensor.reshape(tensor.elements()) : tensor;
    if (rows.elements() == 0) {
      return;
    }
    int last = rows.rank() - 1;
    long[] index = new long[last];
    boolean more = true;
    while (more) {
      long offset = 0;
      for (int i = 0; i < last; i++) {
        offset += index[i] * rows.stride(i);
      }
      writeRow(rows, offset, target);
      more = false;
      for (int i = last - 1; i >= 0 && !more; i--) {
        index[i] = (index[i] + 1) % rows.shape(i);
        more = index[i] != 0;
      }
    }
    flush();
  }

  private void writeRow(Tensor rows, long offset, DType target) throws IOException {
    long length = rows.shape(-1);
    long stride = rows.stride(-1);
    for (long done = 0; done < length; ) {
      if (buffer.remaining() < target.bytes()) {
        flush();
      }
      int count = (int) Math.min(length - done, buffer.remaining() / target.bytes());
      copy(rows, offset + done * stride, stride, count, target);
      buffer.position(buffer.position() + count * target.bytes());
      done += count;
    }
  }

  /** Copies elements to the buffer's position. */
  private void copy(Tensor source, long offset, long stride, int count, DType target) {
    MemorySegment from = source.segment();
    DType dtype = source.dtype();
    int width = dtype.bytes();
    long to = buffer.position();
    if (dtype != target) {
      for (long i = 0; i < count; i++) {
        short bits = from.get(JAVA_SHORT_UNALIGNED, (offset + i * stride) * width);
        memory.set(JAVA_INT_UNALIGNED, to + i * target.bytes(), bits << 16);
      }
    } else if (dtype == DType.BOOL) {
      for (long i = 0; i < count; i++) {
        memory.set(JAVA_BYTE, to + i, (byte) (source.booleanAt(offset + i * stride) ? 1 : 0));
      }
    } else if (stride == 1) {
      MemorySegment.copy(from, offset * width, memory, to, (long) count * width);
    } else {
      for (long i = 0; i < count; i++) {
        long at = (offset + i * stride) * width;
        switch (width) {
          case Byte.BYTES -> memory.set(JAVA_BYTE, to + i, from.get(JAVA_BYTE, at));
          case Short.BYTES ->
              memory.set(JAVA_SHORT_UNALIGNED, to + i * width, from.get(JAVA_SHORT_UNALIGNED, at));
          case Integer.BYTES ->
              memory.set(JAVA_INT_UNALIGNED, to + i * width, from.get(JAVA_INT_UNALIGNED, at));
          default ->
              memory.set(JAVA_LONG_UNALIGNED, to + i * width, from.get(JAVA_LONG_UNALIGNED, at));
        }
      }
    }
  }

  private void flush() throws IOException {
    writeAll(buffer.flip());
    buffer.clear();
  }

  private void writeAll(ByteBuffer bytes) throws IOException {
    while (bytes.hasRemaining()) {
      channel.write(bytes);
    }
  }
}
