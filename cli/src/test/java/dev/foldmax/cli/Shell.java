package dev.foldmax.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Runs programs for tests, in an environment that a test chooses. */
final class Shell {
  private Shell() {}

  /** What a program left: its exit status and what it wrote. */
  record Result(int status, String out, String err) {}

  /** A program that runs. */
  record Running(Process process, Path out, Path err) {
    /** Waits for its end, at most two minutes. */
    Result result() throws IOException, InterruptedException {
      try {
        assertThat(process.waitFor(2, TimeUnit.MINUTES)).as("ended in time").isTrue();
      } finally {
        process.destroyForcibly();
      }
      return new Result(process.exitValue(), Files.readString(out), Files.readString(err));
    }
  }

  /** Starts a program in a folder, with additions to this process's environment. */
  static Running start(Path folder, Map<String, String> environment, List<String> command)
      throws IOException {
    Path out = Files.createTempFile(folder, "out", ".txt");
    Path err = Files.createTempFile(folder, "err", ".txt");
    ProcessBuilder builder =
        new ProcessBuilder(command)
            .directory(folder.toFile())
            .redirectInput(ProcessBuilder.Redirect.from(Path.of("/dev/null").toFile()))
            .redirectOutput(out.toFile())
            .redirectError(err.toFile());
    // Options that a developer or a build server sets would change what the program prints.
    List.of("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "FOLDMAX_JAVA_OPTS", "FOLDMAX_JDK_PATH")
        .forEach(builder.environment()::remove);
    builder.environment().putAll(environment);
    return new Running(builder.start(), out, err);
  }

  /** Writes what the finder takes for a JDK: a release file, a compiler and a java that fails. */
  static Path fakeJdk(Path folder, String version) throws IOException {
    Path bin = Files.createDirectories(folder.resolve("bin"));
    Files.writeString(
        folder.resolve("release"), "IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"" + version + "\"\n");
    for (String program : List.of("java", "javac")) {
      Path file = bin.resolve(program);
      Files.writeString(file, "#!/bin/sh\necho 'a fake JDK was started' >&2\nexit 99\n");
      assertThat(file.toFile().setExecutable(true)).isTrue();
    }
    return folder;
  }
}
