package dev.foldmax.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.benchmarks.LongAttention.Work;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What attention over 131,072 keys needs beside its tensors, in JVMs with a small heap. */
class MemoryTest {
  private static final long MOST_BYTES_OF_A_THREAD = 1 << 20;

  @ParameterizedTest
  @EnumSource
  void longAttentionFitsIntoASmallHeap(Work work) throws IOException, InterruptedException {
    Process process =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Xmx512m",
                "--add-modules",
                "jdk.incubator.vector",
                "-cp",
                System.getProperty("java.class.path"),
                LongAttention.class.getName(),
                work.name())
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    List<String> lines;
    try (BufferedReader output = process.inputReader()) {
      lines = output.readAllLines();
    }

    assertThat(process.waitFor()).isZero();
    assertThat(lines).hasSize(2);
    assertThat(Double.parseDouble(lines.get(1))).as("error").isLessThan(1e-4);
    // The lower limit: scratch was still there when the heap was measured.
    assertThat(Long.parseLong(lines.getFirst()))
        .as("scratch of a thread")
        .isBetween(1L << 10, MOST_BYTES_OF_A_THREAD);
  }
}
