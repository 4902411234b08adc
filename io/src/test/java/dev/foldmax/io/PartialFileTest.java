package dev.foldmax.io;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.foldmax.Attention;
import dev.foldmax.AttentionPartial;
import dev.foldmax.Backend;
import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Partials in files. */
class PartialFileTest {
  private final Tensor q = Tensor.of(new float[] {1, 2, -1, 0.5f}, 2, 1, 2);
  private final Tensor k = Tensor.of(new float[] {1, 0, 0, 1, 1, 1, -1, 2}, 1, 4, 2);
  private final Tensor v = Tensor.of(new float[] {1, 2, 3, 4}, 1, 4, 1);
  private final Attention attention =
      Attention.causal().sinks(Tensor.of(new float[] {0.5f, -1}, 2));

  @TempDir private Path folder;
  private Path file;
  private byte[] bytes = {};

  @BeforeEach
  void writeThePartial() throws IOException {
    file = folder.resolve("a.safetensors");
    PartialFile.write(file, partial(1, 3));
    bytes = Files.readAllBytes(file);
  }

  private AttentionPartial partial(long begin, long end) {
    try (Backend reference = Backend.reference()) {
      return reference.attendPartial(
          Arena.ofAuto(), q, KeyValues.dense(k, v), attention, begin, end);
    }
  }

  @Test
  void whatWasWrittenIsRead() throws IOException {
    Tensor out = Tensor.of(new float[2], 2, 1, 1);
    try (PartialFile read = PartialFile.open(file);
        Backend reference = Backend.reference()) {
      assertThat(read.partial().pieces()).isEqualTo(partial(1, 3).pieces());
      assertThat(read.partial().definition()).isEqualTo(partial(1, 3).definition());
      reference.finish(List.of(partial(3, 4), read.partial(), partial(0, 1)), out, null);
      assertThat(out.toFloatArray())
          .containsExactly(reference.attend(q, k, v, attention).toFloatArray());
    }
  }

  /** The same partial gives the same bytes, so that files can be compared. */
  @Test
  void theSameBytes() throws IOException {
    Path again = folder.resolve("b.safetensors");
    PartialFile.write(again, partial(1, 3));
    assertThat(again).hasBinaryContent(bytes);
  }

  /** Even where it reads the same: bits 0x29 make a tab of a space. */
  @Test
  void everyAlteredByteIsRefused() throws IOException {
    for (int i = 0; i < bytes.length; i++) {
      for (int bits : new int[] {1, 0x29, 0x80, 0xff}) {
        byte[] altered = bytes.clone();
        altered[i] ^= (byte) bits;
        assertRefused(altered, "byte " + i + " of " + bytes.length + ", bits " + bits);
      }
    }
  }

  @Test
  void everyTruncationIsRefused() throws IOException {
    for (int length = 0; length < bytes.length; length += 1 + length / 40) {
      assertRefused(Arrays.copyOf(bytes, length), "the first " + length + " bytes");
    }
    assertRefused(Arrays.copyOf(bytes, bytes.length + 1), "a byte more");
  }

  private void assertRefused(byte[] altered, String what) throws IOException {
    Path other = folder.resolve("altered.safetensors");
    Files.write(other, altered);
    assertThatThrownBy(() -> PartialFile.open(other).close())
        .as(what)
        .isInstanceOf(FormatException.class)
        .hasMessageStartingWith(other.toString());
  }

  @Test
  void otherFilesAreNoPartials() throws IOException {
    SafeTensors.write(file, Map.of("q", q), Map.of("format", "pt"));
    assertThatThrownBy(() -> PartialFile.open(file).close())
        .isInstanceOf(FormatException.class)
        .hasMessageContainingAll(file.toString(), "not a partial");
  }
}
