package dev.foldmax.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import dev.foldmax.io.NpyFile;
import dev.foldmax.io.SafeTensors;
import java.io.File;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Files larger than the heap, in processes of their own, and what is left of them when these are
 * stopped. The inputs are sparse: zeros, of which the disk has none, but for a few elements, so
 * that results are known.
 *
 * <p>With {@code -Dfoldmax.large} the rows have 10^9 elements, which takes minutes and some 10 GB
 * of disk.
 */
@EnabledOnOs(OS.LINUX)
class LargeFilesTest {
  private static final boolean LARGE = System.getProperty("foldmax.large") != null;
  private static final long ROW = LARGE ? 1_000_000_000 : 40_000_000;
  private static final int SPECIAL = 12_345_678;

  /** Of a row with a heap of 256 MiB and the JVM's own memory. */
  private static final long MOST_KIB = 600L << 10;

  @TempDir private Path logs;
  private Path folder;
  private Path x;

  @BeforeEach
  void createFolder() throws IOException {
    // Not the folder for temporary files, which may lie in memory.
    folder = Files.createTempDirectory(Files.createDirectories(Path.of("target")), "large");
    folder = folder.toAbsolutePath();
    x = folder.resolve("x.npy");
  }

  @AfterEach
  void deleteFolder() throws IOException {
    for (Path file : files()) {
      Files.delete(file);
    }
    Files.delete(folder);
  }

  private List<Path> files() throws IOException {
    try (Stream<Path> files = Files.list(folder)) {
      return files.toList();
    }
  }

  /** Starts the command with a heap of 256 MiB. */
  private Shell.Running start(String... args) throws IOException {
    String path =
        Stream.of("jdk.module.path", "java.class.path")
            .map(System::getProperty)
            .filter(value -> value != null && !value.isEmpty())
            .reduce((one, other) -> one + File.pathSeparator + other)
            .orElseThrow();
    List<String> command =
        new ArrayList<>(
            List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--add-modules",
                "jdk.incubator.vector",
                "--enable-native-access=ALL-UNNAMED",
                "-Xmx256m",
                "-cp",
                path,
                Main.class.getName()));
    command.addAll(List.of(args));
    command.addAll(List.of("--repeat", "0", "--backend", "cpu"));
    return Shell.start(logs, Map.of(), command);
  }

  /** Runs the command to its end, and sees that its own memory stays small. */
  private void run(String... args) throws IOException, InterruptedException {
    Shell.Running running = start(args);
    long most = 0;
    while (running.process().isAlive()) {
      most = Math.max(most, anonymousKib(running.process().pid()));
      Thread.sleep(50);
    }
    Shell.Result result = running.result();
    assertThat(result.status()).as(result.err()).isZero();
    assertThat(most).as("KiB that are no file's").isBetween(1L, MOST_KIB);
  }

  private static long anonymousKib(long pid) {
    try {
      return Files.readAllLines(Path.of("/proc/" + pid + "/status")).stream()
          .filter(line -> line.startsWith("RssAnon:"))
          .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", "")))
          .sum();
    } catch (IOException e) {
      return 0; // it has just ended
    }
  }

  /** Makes a file of zeros, with some other elements. */
  private static void sparse(Path file, DType dtype, Map<Long, Double> elements, long... shape)
      throws IOException {
    String text =
        String.format(
            "{'descr': '<f%d', 'fortran_order': False, 'shape': %s, }",
            dtype.bytes(), tuple(shape));
    String padded = text + " ".repeat(Math.floorMod(-(10 + text.length() + 1), 64)) + "\n";
    byte[] characters = padded.getBytes(StandardCharsets.ISO_8859_1);
    ByteBuffer header = ByteBuffer.allocate(10 + characters.length).order(ByteOrder.LITTLE_ENDIAN);
    header.put((byte) 0x93).put("NUMPY\001\000".getBytes(StandardCharsets.ISO_8859_1));
    header.putShort((short) characters.length).put(characters).flip();
    long data = header.limit();
    long bytes = dtype.bytes();
    for (long size : shape) {
      bytes *= size;
    }
    try (FileChannel channel =
        FileChannel.open(file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
      channel.write(header);
      channel.write(ByteBuffer.allocate(1), data + bytes - 1);
      for (Map.Entry<Long, Double> element : elements.entrySet()) {
        Tensor one = Tensor.allocate(dtype, 1);
        one.setAt(0, element.getValue());
        ByteBuffer bytesOfOne = ByteBuffer.wrap(one.segment().toArray(ValueLayout.JAVA_BYTE));
        channel.write(bytesOfOne, data + element.getKey() * dtype.bytes());
      }
    }
  }

  private static String tuple(long[] shape) {
    StringBuilder text = new StringBuilder("(");
    for (long size : shape) {
      text.append(size).append(", ");
    }
    return text.append(")").toString();
  }

  @ParameterizedTest
  @EnumSource(
      value = DType.class,
      names = {"F32", "F16"})
  void aLongRow(DType dtype) throws Exception {
    Tensor special = Tensor.allocate(dtype, 1);
    special.setAt(0, Math.log((double) ROW));
    double score = special.get(0);
    sparse(x, dtype, Map.of((long) SPECIAL, score), ROW);
    Path one = folder.resolve("one.npy");
    Path two = folder.resolve("two.npy");
    Path lse = folder.resolve("lse.npy");
    Path top = folder.resolve("top.safetensors");

    // The logarithm, for 10^-9 itself is 0 in F16.
    run("softmax", x.toString(), "--log", "--out", one.toString(), "--threads", "1");
    run("softmax", x.toString(), "--log", "--out", two.toString(), "--lse", lse.toString());
    run("softmax", x.toString(), "--top-k", "2", "--out", top.toString());

    double sum = ROW - 1.0 + Math.exp(score);
    try (NpyFile file = NpyFile.open(two);
        NpyFile lseFile = NpyFile.open(lse);
        SafeTensors topFile = SafeTensors.open(top)) {
      Tensor log = file.tensor();
      assertThat(log.shape()).containsExactly(ROW);
      assertThat(lseFile.tensor().get()).isEqualTo(Math.log(sum), within(2e-6));
      double ulp = dtype == DType.F32 ? 2e-6 : 0x1p-6;
      for (long i : new long[] {0, 1, SPECIAL - 1, SPECIAL + 1, ROW / 2, ROW - 1}) {
        assertThat(log.get(i)).as("element " + i).isEqualTo(-Math.log(sum), within(ulp));
      }
      assertThat(log.get(SPECIAL)).isEqualTo(score - Math.log(sum), within(ulp));
      assertThat(topFile.tensor("indices").longAt(0)).isEqualTo(SPECIAL);
      assertThat(topFile.tensor("indices").longAt(1)).isZero();
      assertThat(topFile.tensor("probabilities").get(0))
          .isEqualTo(Math.exp(score) / sum, within(1e-6));
    }
    assertThat(Files.mismatch(one, two)).as("one thread and several").isEqualTo(-1);
  }

  @Test
  void keysAndValuesOfManyTimesTheHeap() throws Exception {
    long keys = 5L << 20; // 1.25 GiB of keys and as much of values
    Path k = folder.resolve("k.npy");
    Path v = folder.resolve("v.npy");
    Path q = folder.resolve("q.npy");
    sparse(k, DType.F32, Map.of(SPECIAL / 4 * 64L, Math.log((double) keys)), keys, 64);
    sparse(v, DType.F32, Map.of(SPECIAL / 4 * 64L + 3, 1.0, (keys - 1) * 64 + 5, 1.0), keys, 64);
    sparse(q, DType.F32, Map.of(0L, 1.0), 1, 64);
    Path one = folder.resolve("one.npy");
    Path two = folder.resolve("two.npy");
    Path lse = folder.resolve("lse.npy");
    String[] words = {"attend", "--q", q.toString(), "--k", k.toString(), "--v", v.toString()};
    List<String> line = new ArrayList<>(List.of(words));
    line.addAll(List.of("--scale", "1", "--lse", lse.toString(), "--out"));

    run(with(line, one.toString(), "--threads", "1"));
    run(with(line, two.toString(), "--threads", "2"));

    double weight = Math.exp((float) Math.log((double) keys));
    double sum = keys - 1.0 + weight;
    Tensor output = Cli.readNpy(two);
    assertThat(output.get(0, 3)).isEqualTo(weight / sum, within(2e-6));
    assertThat(output.get(0, 5)).isEqualTo(1 / sum, within(1e-12));
    assertThat(output.get(0, 4)).isZero();
    assertThat(Cli.readNpy(lse).get(0)).isEqualTo(Math.log(sum), within(2e-6));
    assertThat(Files.mismatch(one, two)).as("one thread and several").isEqualTo(-1);
  }

  private static String[] with(List<String> line, String... more) {
    return Stream.concat(line.stream(), Stream.of(more)).toArray(String[]::new);
  }

  /** Starts a job of some seconds and waits until its result has begun. */
  private Shell.Running startLongJob(Path out, long elements) throws Exception {
    sparse(x, DType.F32, Map.of(), elements);
    Files.writeString(out, "old");
    Shell.Running job = start("softmax", x.toString(), "--out", out.toString(), "--threads", "1");
    while (files().size() < 3) {
      assertThat(job.process().isAlive()).as("still at work").isTrue();
      Thread.sleep(10);
    }
    Thread.sleep(100); // well within it
    return job;
  }

  @ParameterizedTest
  @CsvSource({"INT, 130", "TERM, 143"})
  void aStoppedJobLeavesNothing(String signal, int status) throws Exception {
    Path out = folder.resolve("p.npy");
    Shell.Running job = startLongJob(out, 1 << 29);

    signal(job, signal);
    Shell.Result result = job.result();

    assertThat(result.status()).as(result.err()).isEqualTo(status);
    assertThat(result.err()).contains("foldmax softmax: interrupted");
    assertThat(out).hasContent("old");
    assertThat(files()).containsExactlyInAnyOrder(x, out);
  }

  @Test
  void aKilledJobLeavesAFileWhoseNameSaysSo() throws Exception {
    Path out = folder.resolve("p.npy");
    Shell.Running job = startLongJob(out, 1 << 29);

    signal(job, "KILL");
    job.result();

    assertThat(out).hasContent("old");
    assertThat(files()).hasSize(3);
    assertThat(files()).anyMatch(file -> file.getFileName().toString().startsWith(".foldmax-"));
  }

  private static void signal(Shell.Running job, String signal) throws Exception {
    String pid = Long.toString(job.process().pid());
    int status = new ProcessBuilder("kill", "-" + signal, pid).start().waitFor();
    assertThat(status).as("kill").isZero();
  }

  @Test
  void saysThatAFileWasCutShort() throws Exception {
    Path out = folder.resolve("p.npy");
    Shell.Running job = startLongJob(out, 1 << 29);

    try (FileChannel channel = FileChannel.open(x, StandardOpenOption.WRITE)) {
      channel.truncate(1 << 20);
    }
    Shell.Result result = job.result();

    assertThat(result.status()).as(result.err()).isEqualTo(1);
    assertThat(result.err())
        .endsWith("foldmax softmax: " + x + ": was cut short while it was read\n");
    assertThat(out).hasContent("old");
    assertThat(files()).containsExactlyInAnyOrder(x, out);
  }

  @Test
  void saysThatAFileChanged() throws Exception {
    Path out = folder.resolve("p.npy");
    Shell.Running job = startLongJob(out, 1 << 27);

    try (FileChannel channel = FileChannel.open(x, StandardOpenOption.WRITE)) {
      channel.write(ByteBuffer.wrap(new byte[] {1, 2, 3, 4}), 1 << 20);
    }
    Shell.Result result = job.result();

    assertThat(result.status()).as(result.err()).isEqualTo(1);
    assertThat(result.err()).endsWith("foldmax softmax: " + x + ": changed while it was read\n");
    assertThat(out).hasContent("old");
    assertThat(files()).containsExactlyInAnyOrder(x, out);
  }
}
