package dev.foldmax.io;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Both readers on damaged files: each is read to something that agrees with its own header, or
 * refused in one line, and neither allocates more than a file of a kilobyte can ask for.
 */
class FuzzTest {
  private static final int FILES = 3000;

  /** Opening allocates some 20 kB; the first of a kind loads classes, too. Lies ask for more. */
  private static final long MAX_ALLOCATED = 32 << 20;

  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  @TempDir Path folder;

  /** Opens a file, checks what it reads, and closes it. */
  @FunctionalInterface
  private interface Reader {
    void read(Path path) throws IOException;
  }

  @ParameterizedTest
  @ValueSource(longs = {1, 2})
  void safeTensorsIsReadConsistentlyOrRefused(long seed) throws IOException {
    byte[] good = Files.readAllBytes(Samples.fixture(folder, "all-types.safetensors"));
    int headerEnd = good.length - 124;
    Mutations mutations = new Mutations(new Random(seed), headerEnd, 0, Long.BYTES);
    fuzz(good, mutations, FuzzTest::readSafeTensors);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "c-f2.npy",
        "c-f4-big-endian.npy",
        "fortran-f8.npy",
        "version-2.npy",
        "version-3.npy"
      })
  void npyIsReadConsistentlyOrRefused(String name) throws IOException {
    byte[] good = Files.readAllBytes(Samples.fixture(folder, name));
    int lengthBytes = name.startsWith("version") ? Integer.BYTES : Short.BYTES;
    // Numbers and names end long before the padding does.
    Mutations mutations = new Mutations(new Random(name.hashCode()), 80, 8, lengthBytes);
    fuzz(good, mutations, path -> readNpy(path, good.length));
  }

  private void fuzz(byte[] good, Mutations mutations, Reader reader) throws IOException {
    Path path = folder.resolve("mutated");
    int read = 0;
    int refused = 0;
    for (int i = 0; i < FILES; i++) {
      byte[] mutated = mutations.mutate(good);
      Files.write(path, mutated);
      long before = THREADS.getCurrentThreadAllocatedBytes();
      try {
        reader.read(path);
        read++;
      } catch (FormatException e) {
        refused++;
        assertThat(e.getMessage()).startsWith(path + ": ").hasSizeLessThan(1100);
        assertThat(e.getMessage().chars()).noneMatch(Character::isISOControl);
      } catch (RuntimeException | Error e) {
        Path kept = Files.write(Path.of("target", "fuzz-failure"), mutated);
        throw new AssertionError("file " + i + ", kept as " + kept.toAbsolutePath(), e);
      }
      assertThat(THREADS.getCurrentThreadAllocatedBytes() - before).isLessThan(MAX_ALLOCATED);
      // To write over it would wait for the disk.
      Files.delete(path);
    }
    // Enough of both, or the mutations test little.
    assertThat(read).isGreaterThan(FILES / 20);
    assertThat(refused).isGreaterThan(FILES / 3);
  }

  private static void readSafeTensors(Path path) throws IOException {
    try (SafeTensors file = SafeTensors.open(path)) {
      List<SafeTensors.Entry> entries = new ArrayList<>(file.entries());
      entries.sort(
          Comparator.comparingLong(SafeTensors.Entry::begin)
              .thenComparingLong(SafeTensors.Entry::end));
      long end = 0;
      for (SafeTensors.Entry entry : entries) {
        assertThat(entry.begin()).isEqualTo(end);
        end = entry.end();
        if (entry.type().isPresent()) {
          Tensor tensor = file.tensor(entry.name());
          assertThat(tensor.shape()).containsExactly(entry.shape().toArray(Long[]::new));
          assertThat(tensor.elements() * tensor.dtype().bytes())
              .isEqualTo(entry.end() - entry.begin());
          assertThat(Samples.bits(tensor)).hasSize((int) tensor.elements());
        }
      }
      assertThat(end).isLessThan(Files.size(path));
      assertThat(file.metadata()).doesNotContainValue(null);
    }
  }

  private static void readNpy(Path path, int goodLength) throws IOException {
    try (NpyFile file = NpyFile.open(path)) {
      Tensor tensor = file.tensor();
      assertThat(tensor.elements() * tensor.dtype().bytes()).isLessThan(goodLength * 2L);
      assertThat(Samples.bits(tensor)).hasSize((int) tensor.elements());
    }
  }
}
