package dev.foldmax.io;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_SHORT_UNALIGNED;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;
import java.util.stream.LongStream;
import java.util.stream.Stream;

/** Tensors and files for the tests of the readers and writers. */
final class Samples {
  private Samples() {}

  /** Shapes of every rank from 0 to 5, some of them empty. */
  static Stream<long[]> shapes() {
    return Stream.of(
        new long[] {},
        new long[] {1},
        new long[] {7},
        new long[] {0},
        new long[] {3, 5},
        new long[] {3, 0},
        new long[] {0, 0},
        new long[] {2, 3, 4},
        new long[] {2, 0, 4},
        new long[] {2, 1, 3, 5},
        new long[] {2, 3, 1, 2, 3},
        new long[] {1, 1, 1, 1, 0});
  }

  /** A row-major tensor of random bits, not-a-numbers with payloads among them. */
  static Tensor random(Random random, DType dtype, long... shape) {
    long elements = LongStream.of(shape).reduce(1, Math::multiplyExact);
    byte[] bytes = new byte[Math.toIntExact(elements * dtype.bytes())];
    random.nextBytes(bytes);
    if (dtype == DType.BOOL) {
      for (int i = 0; i < bytes.length; i++) {
        bytes[i] &= 1;
      }
    }
    return Tensor.of(MemorySegment.ofArray(bytes), dtype, shape);
  }

  /** Views of one random tensor whose elements do not lie in row-major order, or lie apart. */
  static Stream<Tensor> strided(Random random, DType dtype) {
    Tensor base = random(random, dtype, 3, 4, 5);
    return Stream.of(
        base.permute(2, 0, 1),
        base.permute(2, 1, 0),
        base.slice(1, 1, 3),
        base.slice(2, 2, 5).slice(0, 1, 3),
        base.select(2, 3),
        base.select(1, 2).select(0, 1),
        base.slice(0, 1, 2).expand(6, 4, 5),
        base.slice(2, 1, 2).expand(3, 4, 9),
        base.select(0, 1).permute(1, 0).slice(0, 2, 2),
        Tensor.strided(base.segment(), dtype, new long[] {10, 2}, new long[] {6, 3}));
  }

  /** A tensor whose memory is gone, so that reading it fails. */
  static Tensor inClosedArena() {
    try (Arena arena = Arena.ofConfined()) {
      return Tensor.of(arena.allocate(16), DType.F32, 4);
    }
  }

  /** The bits of the elements in row-major order, whatever the strides. */
  static long[] bits(Tensor tensor) {
    long[] bits = new long[Math.toIntExact(tensor.elements())];
    long[] index = new long[tensor.rank()];
    for (int n = 0; n < bits.length; n++) {
      long at = tensor.offset(index) * tensor.dtype().bytes();
      MemorySegment from = tensor.segment();
      bits[n] =
          switch (tensor.dtype().bytes()) {
            case Byte.BYTES -> from.get(JAVA_BYTE, at);
            case Short.BYTES -> from.get(JAVA_SHORT_UNALIGNED, at);
            case Integer.BYTES -> from.get(JAVA_INT_UNALIGNED, at);
            default -> from.get(JAVA_LONG_UNALIGNED, at);
          };
      for (int i = index.length - 1; i >= 0 && ++index[i] == tensor.shape(i); i--) {
        index[i] = 0;
      }
    }
    return bits;
  }

  /** A {@code .npy} file, laid out byte by byte as the format's documentation has it. */
  static byte[] npy(int major, String header, byte... data) {
    byte[] text =
        header.getBytes(major == 3 ? StandardCharsets.UTF_8 : StandardCharsets.ISO_8859_1);
    ByteBuffer file =
        ByteBuffer.allocate(12 + text.length + data.length).order(ByteOrder.LITTLE_ENDIAN);
    file.put((byte) 0x93).put("NUMPY".getBytes(StandardCharsets.US_ASCII));
    file.put((byte) major).put((byte) 0);
    if (major == 1) {
      file.putShort((short) text.length);
    } else {
      file.putInt(text.length);
    }
    file.put(text).put(data);
    return bytes(file.flip());
  }

  /** A {@code .safetensors} file of a header and data. */
  static byte[] safetensors(String header, byte... data) {
    return safetensors(header.getBytes(StandardCharsets.UTF_8), data);
  }

  static byte[] safetensors(byte[] header, byte... data) {
    ByteBuffer file =
        ByteBuffer.allocate(8 + header.length + data.length).order(ByteOrder.LITTLE_ENDIAN);
    file.putLong(header.length).put(header).put(data);
    return bytes(file.flip());
  }

  private static byte[] bytes(ByteBuffer buffer) {
    byte[] bytes = new byte[buffer.remaining()];
    buffer.get(bytes);
    return bytes;
  }

  /** Copies one of the files that {@code make_fixtures.py} made into a folder. */
  static Path fixture(Path folder, String name) throws IOException {
    Path file = folder.resolve(name);
    try (InputStream in = Samples.class.getResourceAsStream(name)) {
      Files.copy(in, file);
    }
    return file;
  }
}
