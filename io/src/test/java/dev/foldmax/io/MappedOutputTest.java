package dev.foldmax.io;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import dev.foldmax.io.SafeTensors.Description;
import java.io.IOException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Files whose tensors are computed in place. */
class MappedOutputTest {
  @TempDir private Path folder;
  private Path path;

  @BeforeEach
  void namePath() {
    path = folder.resolve("a.npy");
  }

  @Test
  void anArrayHasTheBytesOfOneWrittenAtOnce() throws IOException {
    Tensor numbers = numbers(DType.F32, 3, 5);
    try (MappedOutput file = NpyFile.create(path, DType.F32, 3, 5)) {
      file.tensor().copyFrom(numbers);
      file.commit();
    }
    Path other = folder.resolve("b.npy");
    NpyFile.write(other, numbers);
    assertThat(path).hasSameBinaryContentAs(other);
  }

  @Test
  void tensorsHaveTheBytesOfThoseWrittenAtOnce() throws IOException {
    Map<String, Tensor> tensors =
        Map.of(
            "half", numbers(DType.BF16, 7),
            "index", numbers(DType.I64, 2, 2),
            "none", numbers(DType.F32, 3, 0),
            "scalar", numbers(DType.F64));
    Map<String, String> metadata = Map.of("of", "test");
    Map<String, Description> descriptions =
        Map.of(
            "half", Description.of(DType.BF16, 7),
            "index", Description.of(DType.I64, 2, 2),
            "none", Description.of(DType.F32, 3, 0),
            "scalar", Description.of(DType.F64));
    try (MappedOutput file = SafeTensors.create(path, descriptions, metadata)) {
      tensors.forEach((name, tensor) -> file.tensor(name).copyFrom(tensor));
      file.commit();
      assertThat(file.tensor("index").longAt(3)).as("after the commit").isEqualTo(4);
      assertThatThrownBy(() -> file.tensor("other")).hasMessageContaining("no tensor \"other\"");
      assertThatThrownBy(file::tensor).isInstanceOf(IllegalStateException.class);
    }
    Path other = folder.resolve("b.safetensors");
    SafeTensors.write(other, tensors, metadata);
    assertThat(path).hasSameBinaryContentAs(other);
  }

  @Test
  void nothingIsThereUntilTheCommit() throws IOException {
    Files.writeString(path, "old");
    try (MappedOutput file = NpyFile.create(path, DType.F64, 4)) {
      file.tensor().setAt(1, 2);
      assertThat(path).hasContent("old");
      assertThat(files()).hasSize(2);
    }
    assertThat(path).hasContent("old");
    assertThat(files()).containsExactly(path);
  }

  @Test
  void aFileThatWasDiscardedIsNotCommitted() throws IOException {
    try (MappedOutput file = NpyFile.create(path, DType.F64, 4)) {
      file.discard();
      assertThat(files()).isEmpty();
      file.tensor().setAt(1, 2); // by a thread that does not know yet
      assertThatThrownBy(file::commit)
          .isInstanceOf(IllegalStateException.class)
          .hasMessage(path + ": was discarded, and is not committed");
    }
    assertThat(files()).isEmpty();
  }

  @Test
  void aFileIsCommittedOnce() throws IOException {
    try (MappedOutput file = NpyFile.create(path, DType.F64, 4)) {
      file.commit();
      assertThatThrownBy(file::commit)
          .isInstanceOf(IllegalStateException.class)
          .hasMessage(path + ": was committed before");
    }
    assertThat(files()).containsExactly(path);
  }

  @Test
  void saysThatItsTemporaryFileWasRemoved() throws IOException {
    try (MappedOutput file = NpyFile.create(path, DType.F64, 4)) {
      Files.delete(files().getFirst());
      assertThatThrownBy(file::commit)
          .isInstanceOf(FileSystemException.class)
          .hasMessage(path + ": its temporary file was removed");
      assertThatThrownBy(file::commit)
          .isInstanceOf(IllegalStateException.class)
          .hasMessage(path + ": was closed by a failure, and is not committed");
    }
    assertThat(files()).isEmpty();
  }

  @Test
  void anInterruptedThreadCommitsNothing() throws IOException {
    try (MappedOutput file = NpyFile.create(path, DType.F64, 4)) {
      Thread.currentThread().interrupt();
      assertThatThrownBy(file::commit).isInstanceOf(ClosedByInterruptException.class);
      assertThat(Thread.interrupted()).isTrue();
    }
    assertThat(files()).isEmpty();
  }

  @Test
  void closesTwice() throws IOException {
    MappedOutput file = NpyFile.create(path, DType.F64, 4);
    file.commit();
    file.close();
    file.close();
    assertThat(files()).containsExactly(path);
  }

  @Test
  void saysThatTheDiskIsTooSmall() throws IOException {
    long elements = 1L << 50;
    assertThatThrownBy(() -> NpyFile.create(path, DType.F64, elements))
        .isInstanceOf(FileSystemException.class)
        .hasMessageStartingWith(path + ": ")
        .hasMessageMatching(".*(No space left on device: it takes|more than a file may have).*");
    assertThat(files()).isEmpty();
  }

  /** It is not filled to find that out, so that what was free is still. */
  @Test
  void comparesWithWhatIsFreeBeforeItReserves() throws IOException {
    long total = Files.getFileStore(folder).getTotalSpace();
    long free = Files.getFileStore(folder).getUsableSpace();
    assertThatThrownBy(() -> NpyFile.create(path, DType.I8, total))
        .isInstanceOf(FileSystemException.class)
        .message()
        .startsWith(path + ": No space left on device: it takes " + (total + 128) + " bytes, ")
        .satisfies(
            message -> {
              String said = message.replaceFirst(".* (\\d+) were free$", "$1");
              assertThat(Long.parseLong(said)).isBetween(free / 2, total);
            });
    assertThat(files()).isEmpty();
  }

  @Test
  void refusesShapesThatNoTensorHas() throws IOException {
    assertThatThrownBy(() -> NpyFile.create(path, DType.F64, 3, -1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("shape: [3, -1] has a negative size");
    assertThatThrownBy(() -> NpyFile.create(path, DType.F64, 0, -1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("shape: [0, -1] has a negative size");
    for (long[] shape : new long[][] {{1L << 31, 1L << 31}, {0, 1L << 62}, {1L << 62}}) {
      assertThatThrownBy(() -> NpyFile.create(path, DType.F64, shape))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage(
              "shape: " + Arrays.toString(shape) + " of F64 has more bytes than 64 bits can count");
    }
    assertThatThrownBy(() -> NpyFile.create(path, DType.I8, Long.MAX_VALUE))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith("shape: [9223372036854775807] makes a file of more bytes");
    assertThatThrownBy(() -> Description.of(DType.F64, 3, -1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("shape: [3, -1] has a negative size");
    assertThatThrownBy(() -> Description.of(DType.F64, 1L << 62))
        .isInstanceOf(ArithmeticException.class)
        .hasMessageContaining("shape: [4611686018427387904] of F64");
    Description half = Description.of(DType.I8, 1L << 62);
    assertThatThrownBy(() -> SafeTensors.create(path, Map.of("a", half, "b", half), Map.of()))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("up to one of shape [4611686018427387904]");
    assertThat(files()).isEmpty();
  }

  @Test
  void refusesWhatNumPyLacks() {
    assertThatThrownBy(() -> NpyFile.create(path, DType.BF16, 4))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("BF16");
  }

  private List<Path> files() throws IOException {
    try (Stream<Path> files = Files.list(folder)) {
      return files.toList();
    }
  }

  private static Tensor numbers(DType dtype, long... shape) {
    Tensor tensor = Tensor.allocate(dtype, shape);
    for (long i = 0; i < tensor.elements(); i++) {
      if (dtype.isFloating()) {
        tensor.setAt(i, i + 1.0);
      } else {
        tensor.setLongAt(i, i + 1);
      }
    }
    return tensor;
  }
}
