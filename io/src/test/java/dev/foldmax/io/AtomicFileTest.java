package dev.foldmax.io;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.FileSystemLoopException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class AtomicFileTest {
  private static final AtomicFile.Content NEW =
      channel -> channel.write(ByteBuffer.wrap("new".getBytes(UTF_8)));

  @TempDir Path folder;
  private Path target;

  @BeforeEach
  void nameTarget() {
    target = folder.resolve("target");
  }

  @Test
  void createsAFile() throws IOException {
    AtomicFile.write(target, NEW);
    assertThat(target).hasContent("new");
    assertThat(files()).containsExactly(target);
  }

  @Test
  void replacesAFile() throws IOException {
    Files.writeString(target, "something longer");
    AtomicFile.write(target, NEW);
    assertThat(target).hasContent("new");
    assertThat(files()).containsExactly(target);
  }

  @Test
  void targetIsUntouchedUntilTheContentIsWhole() throws IOException {
    Files.writeString(target, "old");
    AtomicFile.write(
        target,
        channel -> {
          NEW.writeTo(channel);
          assertThat(target).hasContent("old");
        });
    assertThat(target).hasContent("new");
  }

  @Test
  void keepsTheTargetAndLeavesNothingOnAnyFailure() throws IOException {
    Files.writeString(target, "old");
    List<Throwable> failures = List.of(new IllegalStateException("closed"), new OutOfMemoryError());
    for (Throwable failure : failures) {
      assertThatThrownBy(() -> writeAndFail(failure)).isSameAs(failure);
      assertThat(target).hasContent("old");
      assertThat(files()).containsExactly(target);
    }
  }

  @Test
  void aFailureToWriteNamesTheTarget() throws IOException {
    Files.writeString(target, "old");
    IOException full = new IOException("No space left on device");
    assertThatThrownBy(() -> writeAndFail(full))
        .isInstanceOf(FileSystemException.class)
        .hasMessage(target + ": No space left on device")
        .hasCause(full);
    Path temporary = folder.resolve(".foldmax-0.tmp");
    assertThatThrownBy(
            () -> writeAndFail(new FileSystemException(temporary.toString(), null, "too large")))
        .isInstanceOf(FileSystemException.class)
        .hasMessage(target + ": too large");
    assertThatThrownBy(() -> writeAndFail(new AccessDeniedException(temporary.toString())))
        .isInstanceOf(AccessDeniedException.class)
        .hasMessage(target.toString());
    assertThat(target).hasContent("old");
    assertThat(files()).containsExactly(target);
  }

  private void writeAndFail(Throwable failure) throws IOException {
    AtomicFile.write(
        target,
        channel -> {
          NEW.writeTo(channel);
          AtomicFileTest.<IOException>sneak(failure);
        });
  }

  @Test
  void stopsAtAnInterruption() throws IOException {
    Thread.currentThread().interrupt();
    assertThatThrownBy(() -> AtomicFile.write(target, NEW))
        .isInstanceOf(ClosedByInterruptException.class);
    assertThat(Thread.interrupted()).isTrue();
    assertThat(files()).isEmpty();
  }

  @Test
  void replacesTheFileBehindALink() throws IOException {
    Files.writeString(target, "old");
    Path link = Files.createSymbolicLink(folder.resolve("link"), target);
    AtomicFile.write(link, NEW);
    assertThat(link).isSymbolicLink();
    assertThat(target).hasContent("new");
  }

  @Test
  void makesTheFileThatALinkPromises() throws IOException {
    Path folderBehind = Files.createDirectory(folder.resolve("behind"));
    Path link = Files.createSymbolicLink(folder.resolve("link"), Path.of("behind", "inner"));
    Path inner = Files.createSymbolicLink(folderBehind.resolve("inner"), Path.of("file"));
    AtomicFile.write(link, NEW);
    assertThat(link).isSymbolicLink();
    assertThat(inner).isSymbolicLink();
    assertThat(folderBehind.resolve("file")).isRegularFile().hasContent("new");
  }

  @Test
  void refusesLinksThatGoRoundInCircles() throws IOException {
    Files.createSymbolicLink(target, folder.resolve("link"));
    Path link = Files.createSymbolicLink(folder.resolve("link"), target);
    assertThatThrownBy(() -> AtomicFile.write(link, NEW))
        .isInstanceOf(FileSystemLoopException.class)
        .hasMessage(link.toString());
    assertThat(link).isSymbolicLink();
  }

  @ParameterizedTest
  @ValueSource(strings = {"rw-------", "rw-rw-rw-", "r--r-----"})
  void keepsThePermissionsOfWhatItReplaces(String permissions) throws IOException {
    Files.writeString(target, "old");
    Files.setPosixFilePermissions(target, PosixFilePermissions.fromString(permissions));
    AtomicFile.write(
        target,
        channel -> {
          NEW.writeTo(channel);
          for (Path file : files()) {
            assertThat(Files.getPosixFilePermissions(file))
                .as(file.toString())
                .isEqualTo(PosixFilePermissions.fromString(permissions));
          }
        });
    assertThat(target).hasContent("new");
    assertThat(Files.getPosixFilePermissions(target))
        .isEqualTo(PosixFilePermissions.fromString(permissions));
  }

  @Test
  void whatAKilledProcessLeftIsInNobodysWay() throws IOException {
    Path left = Files.writeString(folder.resolve(".foldmax-0123456789abcdef.tmp"), "half");
    AtomicFile.write(target, NEW);
    assertThat(target).hasContent("new");
    assertThat(left).hasContent("half");
  }

  @Test
  void leavesPermissionsToTheProcess() throws IOException {
    Path plain = Files.writeString(folder.resolve("plain"), "");
    AtomicFile.write(target, NEW);
    assertThat(Files.getPosixFilePermissions(target))
        .isEqualTo(Files.getPosixFilePermissions(plain));
  }

  @Test
  void takesANameOfAnyLength() throws IOException {
    Path longest = folder.resolve("x".repeat(255));
    AtomicFile.write(longest, NEW);
    assertThat(longest).hasContent("new");
  }

  @Test
  void refusesWhatIsNoFile() {
    assertThatThrownBy(() -> AtomicFile.write(folder, NEW))
        .isInstanceOf(FileSystemException.class)
        .hasMessage(folder + ": is not a regular file");
    Path nowhere = folder.resolve("none").resolve("target");
    assertThatThrownBy(() -> AtomicFile.write(nowhere, NEW))
        .isInstanceOf(NoSuchFileException.class)
        .hasMessage(nowhere + ": its folder does not exist");
  }

  private List<Path> files() throws IOException {
    try (Stream<Path> files = Files.list(folder)) {
      return files.toList();
    }
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> void sneak(Throwable failure) throws E {
    throw (E) failure;
  }
}
