package dev.foldmax.cli;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.Tensor;
import dev.foldmax.io.SafeTensors;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

/** {@code ./foldmax} itself, in a copy of the source tree in a folder with a space in its name. */
@DisabledOnOs(OS.WINDOWS)
class LauncherTest {
  private static final String BUILDING = "foldmax: building it";

  @TempDir private Path temporary;
  private Path tree;
  private Path elsewhere;
  private Map<String, String> environment;

  @BeforeEach
  void copyTheTree() throws IOException {
    tree = temporary.resolve("a tree");
    elsewhere = Files.createDirectory(temporary.resolve("elsewhere"));
    copySources(Path.of("..").toRealPath(), tree);

    Path old = Shell.fakeJdk(temporary.resolve("old jdk"), "17.0.15");
    environment =
        Map.of(
            "JAVA_HOME",
            old.toString(),
            "PATH",
            old.resolve("bin") + ":" + System.getenv("PATH"),
            "FOLDMAX_JDK_PATH",
            System.getProperty("java.home"),
            // Filled already with what a build needs: this test is part of one.
            "MAVEN_ARGS",
            "-Dmaven.repo.local=" + System.getProperty("foldmax.test.repository"));
  }

  @Test
  void buildsOnceAndAgainWhenSourcesChange() throws Exception {
    // A first start, twice at once.
    Shell.Running one = start("--version");
    Shell.Running two = start("--version");
    Shell.Result first = one.result();
    Shell.Result second = two.result();
    assertThat(List.of(first, second)).allSatisfy(LauncherTest::printedTheVersion);
    assertThat((first.err() + second.err()).split(BUILDING, -1)).as("builds").hasSize(1 + 1);

    // A job, on the module path and with native access as only the launcher sets them up.
    Tensor rows = Tensor.of(new float[] {1, 2, 3, 4, 5, 6}, 3, 2);
    Path sample = elsewhere.resolve("a sample.safetensors");
    SafeTensors.write(sample, Map.of("q", rows, "k", rows, "v", rows), Map.of());
    Shell.Result job =
        start("attend", "a sample.safetensors", "--check", "--out", "o.npy").result();
    assertThat(job.status()).as(job.err()).isZero();
    assertThat(job.out()).contains("F32 (3, 2)", "all 3 rows", "passed");
    assertThat(elsewhere.resolve("o.npy")).isNotEmptyFile();

    // A later start, through links, from another folder.
    Path link = Files.createSymbolicLink(elsewhere.resolve("link"), tree.resolve("foldmax"));
    Path relative = Files.createSymbolicLink(elsewhere.resolve("fm"), link.getFileName());
    Shell.Result later =
        Shell.start(elsewhere, environment, List.of(relative.toString(), "--version")).result();
    printedTheVersion(later);
    assertThat(later.err()).doesNotContain(BUILDING);

    // An output that takes nothing.
    if (Files.exists(Path.of("/dev/full"))) {
      Path launcher = tree.resolve("foldmax");
      List<String> full = List.of("sh", "-c", "exec \"$0\" info > /dev/full", launcher.toString());
      Shell.Result lost = Shell.start(elsewhere, environment, full).result();
      assertThat(lost.status()).isEqualTo(1);
      assertThat(lost.err()).endsWith("foldmax info: standard output: cannot be written\n");
    }

    // A source that does not compile.
    Path broken = tree.resolve("cli/src/main/java/dev/foldmax/cli/Broken.java");
    Files.writeString(broken, "class Broken {");
    Shell.Result failed = start("--version").result();
    assertThat(failed.status()).isEqualTo(1);
    assertThat(failed.out()).isEmpty();
    assertThat(failed.err()).contains(BUILDING, "Broken.java", "the build failed");
    try (Stream<Path> left = Files.list(tree.resolve(".foldmax-build"))) {
      assertThat(left.map(file -> file.getFileName().toString().replaceAll("[.0-9]+$", "")))
          .containsExactlyInAnyOrder("current", "app");
    }

    // And its removal.
    Files.delete(broken);
    Shell.Result repaired = start("--version").result();
    printedTheVersion(repaired);
    assertThat(repaired.err()).contains(BUILDING);
  }

  @Test
  void saysWhatToInstallWithoutAJdk() throws Exception {
    Map<String, String> noJdk = Map.of("FOLDMAX_JDK_PATH", elsewhere.toString());
    for (String program : List.of("foldmax", "mvnw")) {
      List<String> command = List.of(tree.resolve(program).toString(), "--version");
      Shell.Result result = Shell.start(elsewhere, noJdk, command).result();
      assertThat(result.status()).isEqualTo(2);
      assertThat(result.out()).isEmpty();
      assertThat(result.err()).startsWith("Foldmax needs a JDK, version 25.0.3 or later");
    }
    assertThat(tree.resolve(".foldmax-build")).doesNotExist();
  }

  private Shell.Running start(String... arguments) throws IOException {
    List<String> command =
        Stream.concat(Stream.of(tree.resolve("foldmax").toString()), Stream.of(arguments)).toList();
    return Shell.start(elsewhere, environment, command);
  }

  private static void printedTheVersion(Shell.Result result) {
    assertThat(result.status()).as(result.err()).isZero();
    assertThat(result.out())
        .isEqualTo("foldmax " + System.getProperty("foldmax.test.version") + "\n");
  }

  /** Copies the scripts, the poms and the main sources of every module. */
  private static void copySources(Path from, Path to) throws IOException {
    Set<String> skipped = Set.of("target", ".git", ".foldmax-build", "test", "shared", "docs");
    Files.walkFileTree(
        from,
        new SimpleFileVisitor<>() {
          @Override
          public FileVisitResult preVisitDirectory(Path folder, BasicFileAttributes attributes) {
            return skipped.contains(folder.getFileName().toString())
                ? FileVisitResult.SKIP_SUBTREE
                : FileVisitResult.CONTINUE;
          }

          @Override
          public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) {
            Path relative = from.relativize(file);
            String path = relative.toString();
            boolean wanted =
                path.equals("foldmax")
                    || path.equals("mvnw")
                    || path.startsWith(".mvn")
                    || path.endsWith("pom.xml")
                    || path.contains("src/main/");
            if (wanted) {
              copy(file, to.resolve(relative));
            }
            return FileVisitResult.CONTINUE;
          }
        });
  }

  private static void copy(Path from, Path to) {
    try {
      Files.createDirectories(to.getParent());
      Files.copy(from, to, StandardCopyOption.COPY_ATTRIBUTES);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
