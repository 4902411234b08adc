package dev.foldmax.cpu;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_SHORT_UNALIGNED;

import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import jdk.incubator.vector.ByteVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;
import org.jspecify.annotations.Nullable;

/**
 * Scratch of float32. One per worker: it has buffers for 16-bit and 8-bit elements on their way.
 */
final class FloatIo extends ScratchIo<float[]> {
  private static final VectorSpecies<Float> F = Species.F32;
  private static final int V = F.length();
  private static final int CHUNK = 1024;

  /** As many bytes as a vector has floats, where there are such vectors. */
  private static final @Nullable VectorSpecies<Byte> BYTES =
      V < 8 ? null : VectorSpecies.of(byte.class, VectorShape.forBitSize(V * Byte.SIZE));

  private final short[] shorts = new short[CHUNK];
  private final byte[] bytes = new byte[CHUNK];

  @Override
  void read(Tensor tensor, long offset, long stride, int n, float[] to, int at) {
    if (stride != 1 && n > 1) {
      for (int i = 0; i < n; i++) {
        to[at + i] = (float) tensor.at(offset + i * stride);
      }
      return;
    }
    if (n == 0) {
      return; // an empty tensor's offsets lie outside its segment
    }
    MemorySegment segment = tensor.segment();
    switch (tensor.dtype()) {
      case F32 -> MemorySegment.copy(segment, JAVA_FLOAT_UNALIGNED, offset << 2, to, at, n);
      case F16, BF16 -> {
        for (int done = 0; done < n; done += CHUNK) {
          int chunk = Math.min(CHUNK, n - done);
          MemorySegment.copy(segment, JAVA_SHORT_UNALIGNED, (offset + done) << 1, shorts, 0, chunk);
          if (tensor.dtype() == DType.F16) {
            HalfConversions.fromF16(shorts, 0, to, at + done, chunk);
          } else {
            HalfConversions.fromBf16(shorts, 0, to, at + done, chunk);
          }
        }
      }
      case I8, BOOL -> { // true is any number but 0
        for (int done = 0; done < n; done += CHUNK) {
          int chunk = Math.min(CHUNK, n - done);
          MemorySegment.copy(segment, JAVA_BYTE, offset + done, bytes, 0, chunk);
          fromI8(bytes, 0, chunk, 1, to, at + done);
        }
      }
      case F64, I32, I64 -> {
        for (int i = 0; i < n; i++) {
          to[at + i] = (float) tensor.at(offset + i);
        }
      }
    }
  }

  @Override
  void readRun(Elements from, long offset, int n, double scale, float[] to, int at) {
    if (n == 0) {
      return; // an empty tensor's offsets lie outside its segment
    }
    byte[] integers = from.bytes();
    if (integers != null) {
      fromI8(integers, from.position(offset), n, (float) scale, to, at);
      return;
    }
    switch (from.tensor().dtype()) {
      case F32, F16, BF16 -> from.read(offset, to, at, n, shorts);
      default -> read(from.tensor(), offset, 1, n, to, at);
    }
    if (scale != 1) {
      multiply(to, at, n, scale);
    }
  }

  /**
   * Reads the bits of the keys at the positions {@code begin} to {@code begin + n}, whose elements
   * lie side by side, to rows of so many floats.
   */
  void readKeyBits(TileEngine engine, long begin, int n, float[] to, int floats) {
    KeyValues kv = engine.call().keyValues();
    int b = engine.batch();
    Tensor keys = kv.keys();
    MemorySegment segment = keys.segment();
    long stride = keys.stride(2) * keys.dtype().bytes();
    boolean whole = stride == (long) floats * Float.BYTES;
    int at = 0;
    for (long position = begin; position < begin + n; ) {
      int run = (int) kv.run(b, position, begin + n);
      long from =
          (kv.block(b, position) * keys.stride(0) + engine.keyHead() * keys.stride(1))
                  * keys.dtype().bytes()
              + kv.row(b, position) * stride;
      int length = whole ? run * floats : floats;
      for (int j = 0; j < run * floats; j += length) {
        MemorySegment.copy(segment, JAVA_FLOAT_UNALIGNED, from, to, at + j, length);
        from += stride;
      }
      at += run * floats;
      position += run;
    }
  }

  /** Reads the scales of {@code n} keys from a position; ones where there are none. */
  void readKeyScales(TileEngine engine, long begin, int n, float[] to) {
    KeyValues kv = engine.call().keyValues();
    Tensor scales = kv.keyScales();
    if (scales == null) {
      Arrays.fill(to, 0, n, 1);
      return;
    }
    int b = engine.batch();
    for (int j = 0; j < n; j++) {
      long row = kv.row(b, begin + j);
      to[j] =
          (float)
              scales.at(
                  kv.block(b, begin + j) * scales.stride(0)
                      + engine.keyHead() * scales.stride(1)
                      + row * scales.stride(2));
    }
  }

  /**
   * C2 turns the plain loop into vector code too, at a third of the speed. There is no vector of
   * four bytes, so 128-bit vectors leave everything to it.
   */
  private static void fromI8(byte[] from, int first, int n, float scale, float[] to, int at) {
    int i = 0;
    if (BYTES != null) {
      for (; i <= n - V; i += V) {
        ((FloatVector)
                ByteVector.fromArray(BYTES, from, first + i)
                    .convertShape(VectorOperators.B2F, F, 0))
            .mul(scale)
            .intoArray(to, at + i);
      }
    }
    for (; i < n; i++) {
      to[at + i] = from[first + i] * scale;
    }
  }

  @Override
  void write(float[] from, int at, int n, Tensor tensor, long offset, long stride) {
    if (n == 0) {
      return;
    }
    if (stride == 1 && tensor.dtype() == DType.F32) {
      MemorySegment.copy(from, at, tensor.segment(), JAVA_FLOAT_UNALIGNED, offset << 2, n);
      return;
    }
    if (stride == 1 && (tensor.dtype() == DType.F16 || tensor.dtype() == DType.BF16)) {
      for (int done = 0; done < n; done += CHUNK) {
        int chunk = Math.min(CHUNK, n - done);
        if (tensor.dtype() == DType.F16) {
          HalfConversions.toF16(from, at + done, shorts, chunk);
        } else {
          HalfConversions.toBf16(from, at + done, shorts, chunk);
        }
        MemorySegment.copy(
            shorts, 0, tensor.segment(), JAVA_SHORT_UNALIGNED, (offset + done) << 1, chunk);
      }
      return;
    }
    for (int i = 0; i < n; i++) {
      tensor.setAt(offset + i * stride, from[at + i]);
    }
  }

  @Override
  void multiply(float[] x, int at, int n, double factor) {
    float f = (float) factor;
    for (int i = at; i < at + n; i++) {
      x[i] *= f;
    }
  }

  @Override
  boolean divide(float[] x, int at, int n, double divisor) {
    float by = (float) divisor;
    for (int i = at; i < at + n; i++) {
      x[i] = x[i] / by + 0.0f;
    }
    int largest = 0; // apart from the division, which C2 turns into vector code
    for (int i = at; i < at + n; i++) {
      largest = Math.max(largest, Float.floatToRawIntBits(x[i]) & Integer.MAX_VALUE);
    }
    return largest <= Float.floatToRawIntBits(Float.MAX_VALUE);
  }

  @Override
  void clear(float[] x, int at, int n) {
    Arrays.fill(x, at, at + n, 0);
  }
}
