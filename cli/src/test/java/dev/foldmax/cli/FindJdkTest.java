package dev.foldmax.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

/** {@code .mvn/find-jdk.sh}, among JDKs that are a release file and little else. */
@DisabledOnOs(OS.WINDOWS)
class FindJdkTest {
  private static final Path SCRIPT = Path.of("..", ".mvn", "find-jdk.sh").toAbsolutePath();

  @TempDir private Path temporary;
  private Path jdks;

  @BeforeEach
  void inAFolderWithASpace() throws IOException {
    jdks = Files.createDirectory(temporary.resolve("some jdks"));
  }

  @Test
  void takesTheNewestUpdateOf25() throws Exception {
    Shell.fakeJdk(jdks.resolve("a"), "25.0.3");
    Shell.fakeJdk(jdks.resolve("b"), "25.0.10");
    Shell.fakeJdk(jdks.resolve("c"), "17.0.15");
    Shell.fakeJdk(jdks.resolve("d"), "27.0.1");

    Shell.Result found = find(Map.of("FOLDMAX_JDK_PATH", jdks.toString()));

    assertThat(found).isEqualTo(new Shell.Result(0, jdks.resolve("b") + "\n", ""));
  }

  @Test
  void takesALaterReleaseWhenThereIsNo25() throws Exception {
    Shell.fakeJdk(jdks.resolve("a"), "1.8.0_402");
    Shell.fakeJdk(jdks.resolve("b"), "27-ea");

    Shell.Result found = find(Map.of("FOLDMAX_JDK_PATH", jdks.toString()));

    assertThat(found).isEqualTo(new Shell.Result(0, jdks.resolve("b") + "\n", ""));
  }

  @Test
  void javaHomeComesFirstThenThePath() throws Exception {
    Path home = Shell.fakeJdk(jdks.resolve("home"), "26");
    Path path = Shell.fakeJdk(jdks.resolve("path"), "25.0.3");
    String first = path.resolve("bin") + ":" + System.getenv("PATH");

    Shell.Result byHome = find(Map.of("JAVA_HOME", home.toString(), "PATH", first));
    Path old = Shell.fakeJdk(jdks.resolve("old"), "17.0.15");
    Shell.Result byPath = find(Map.of("JAVA_HOME", old.toString(), "PATH", first));

    assertThat(byHome.out()).isEqualTo(home + "\n");
    assertThat(Path.of(byPath.out().strip()).toRealPath()).isEqualTo(path.toRealPath());
  }

  @Test
  void looksPastAnOldJavaIntoTheUsualFolders() throws Exception {
    Path old = Shell.fakeJdk(jdks.resolve("old"), "17.0.15");
    Path home = Files.createDirectories(temporary.resolve("user home"));
    Shell.fakeJdk(home.resolve(".jdks/temurin"), "25.0.99");

    Shell.Result found =
        find(
            Map.of(
                "JAVA_HOME", old.toString(),
                "PATH", old.resolve("bin") + ":" + System.getenv("PATH"),
                "HOME", home.toString()));

    assertThat(found.out()).isEqualTo(home.resolve(".jdks/temurin") + "\n");
  }

  @Test
  void warnsOfAnEarly25() throws Exception {
    Shell.fakeJdk(jdks.resolve("a"), "25.0.2");

    Shell.Result found = find(Map.of("FOLDMAX_JDK_PATH", jdks.toString()));

    assertThat(found.status()).isZero();
    assertThat(found.err()).hasLineCount(1).contains("25.0.2", "25.0.3 or later is recommended");
  }

  @Test
  void saysWhatToInstallWhenThereIsNone() throws Exception {
    Shell.fakeJdk(jdks.resolve("a"), "17.0.15");
    Files.delete(Shell.fakeJdk(jdks.resolve("without compiler"), "25.0.3").resolve("bin/javac"));

    Shell.Result found = find(Map.of("FOLDMAX_JDK_PATH", jdks.toString()));

    assertThat(found.status()).isEqualTo(2);
    assertThat(found.out()).isEmpty();
    assertThat(found.err())
        .contains("JDK, version 25.0.3 or later", "apt install", "brew", "Temurin");
  }

  private Shell.Result find(Map<String, String> environment) throws Exception {
    List<String> command =
        List.of("sh", "-euc", ". \"$1\"; echo \"$JAVA_HOME\"", "sh", SCRIPT.toString());
    return Shell.start(temporary, environment, command).result();
  }
}
