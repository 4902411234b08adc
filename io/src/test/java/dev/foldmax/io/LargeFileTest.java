package dev.foldmax.io;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Sizes beyond 32 bits, in sparse files, and memory that does not grow with them. */
class LargeFileTest {
  private static final long ROWS = (1L << 30) + 5;

  private Path path;

  @BeforeEach
  void createFile() throws IOException {
    // Not the folder for temporary files, which may lie in memory.
    path = Files.createTempFile(Files.createDirectories(Path.of("target")), "large", null);
  }

  @AfterEach
  void deleteFile() throws IOException {
    Files.delete(path);
  }

  @Test
  void npyBeyond4GiB() throws IOException {
    String header =
        String.format("{'descr': '<f8', 'fortran_order': False, 'shape': (%d, 3), }\n", ROWS);
    createSparse(Samples.npy(1, header), ROWS * 3 * Double.BYTES, (byte) 0x40);
    try (NpyFile file = NpyFile.open(path)) {
      assertThat(file.tensor().shape()).containsExactly(ROWS, 3);
      assertThat(file.tensor().get(ROWS - 1, 2)).isEqualTo(2);
      assertThat(file.tensor().get(ROWS - 1, 1)).isZero();
    }
  }

  @Test
  void fortranOrderBeyond4GiB() throws IOException {
    String header =
        String.format("{'descr': '<f4', 'fortran_order': True, 'shape': (3, %d), }\n", ROWS);
    createSparse(Samples.npy(1, header), ROWS * 3 * Float.BYTES, (byte) 0x40);
    try (NpyFile file = NpyFile.open(path)) {
      assertThat(file.tensor().shape()).containsExactly(3, ROWS);
      assertThat(file.tensor().get(2, ROWS - 1)).isEqualTo(2);
      assertThat(file.tensor().get(1, ROWS - 1)).isZero();
    }
  }

  @Test
  void safeTensorsBeyond4GiB() throws IOException {
    long first = ROWS * 3 * Float.BYTES;
    long second = first + ROWS * Short.BYTES;
    String header =
        String.format(
            "{\"b\":{\"dtype\":\"F16\",\"shape\":[%1$d],\"data_offsets\":[%2$d,%3$d]},"
                + "\"a\":{\"dtype\":\"F32\",\"shape\":[%1$d,3],\"data_offsets\":[0,%2$d]}}",
            ROWS, first, second);
    createSparse(Samples.safetensors(header), second, (byte) 0x40);
    try (SafeTensors file = SafeTensors.open(path)) {
      assertThat(file.tensor("b").get(ROWS - 1)).isEqualTo(2);
      assertThat(file.tensor("a").get(ROWS - 1, 2)).isZero();
    }
  }

  @Test
  void writingTakesABufferAlone() throws IOException {
    // 96 MB of elements from 3 MB of memory: one row is repeated.
    Tensor wide = Tensor.allocate(DType.F32, 1, 750_000).expand(32, 750_000);
    Tensor narrow = Tensor.allocate(DType.BF16, 1, 5).expand(100_000, 5);
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    long before = threads.getCurrentThreadAllocatedBytes();

    SafeTensors.write(path, Map.of("wide", wide, "narrow", narrow), Map.of());
    NpyFile.write(path, wide);

    assertThat(threads.getCurrentThreadAllocatedBytes() - before).isLessThan(4 << 20);
    assertThat(Files.size(path)).isEqualTo(128 + 32L * 750_000 * Float.BYTES);
  }

  /** Writes a header, then data that is all zeros but for its last byte. */
  private void createSparse(byte[] header, long dataBytes, byte last) throws IOException {
    try (FileChannel channel = FileChannel.open(path, StandardOpenOption.WRITE)) {
      channel.write(ByteBuffer.wrap(header));
      channel.write(ByteBuffer.wrap(new byte[] {last}), header.length + dataBytes - 1);
    }
  }
}
