package dev.foldmax.cli;

import static dev.foldmax.cli.Cli.npy;
import static dev.foldmax.cli.Cli.random;
import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The commands of docs/partials.md, run in their order. */
class PartialsPageTest {
  private static final Path ROOT = Path.of("..");
  private static final String PROGRAM = "./foldmax ";

  @TempDir private Path folder;

  /** What the page makes with NumPy. */
  private void writeTheTensors() throws IOException {
    npy(folder.resolve("q.npy"), random(1, DType.F32, 8, 4, 64));
    for (String name : List.of("k", "v")) {
      Tensor all = random(name.charAt(0), DType.F32, 2, 6144, 64);
      npy(folder.resolve(name + ".npy"), all);
      npy(folder.resolve(name + "2.npy"), all.slice(1, 3072, 6144));
    }
  }

  @Test
  void theCommandsRunAndTheFilesAreTheSame() throws IOException {
    writeTheTensors();
    String page = Files.readString(ROOT.resolve("docs/partials.md")).replace("\\\n", "");
    List<String> commands =
        page.lines().map(String::strip).filter(line -> line.startsWith(PROGRAM)).toList();
    assertThat(commands).hasSize(10);
    for (String command : commands) {
      String words = command.substring(PROGRAM.length()).replace("/tmp/", folder + "/");
      Object[] args = words.replace("examples/", ROOT + "/examples/").strip().split(" +");
      Cli.run(args).succeeded();
    }
    assertThat(page).contains("cmp /tmp/one.safetensors /tmp/merged.safetensors");
    assertThat(folder.resolve("merged.safetensors"))
        .hasSameBinaryContentAs(folder.resolve("one.safetensors"));
  }
}
