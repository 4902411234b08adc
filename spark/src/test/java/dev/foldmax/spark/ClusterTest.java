package dev.foldmax.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.SoftmaxState;
import dev.foldmax.Tensor;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.spark.launcher.JavaModuleOptions;
import org.apache.spark.sql.Row;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A standalone cluster on the loopback interface: a master and two workers, started from Spark's
 * own jars, and a program that is submitted with Foldmax's jars beside it, as {@code spark-submit
 * --jars} does. One of its executors ends in the middle of a query, whose task is then run
 * elsewhere.
 */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ClusterTest {
  private static final int START_SECONDS = 40;

  /** Six JVMs that live for seconds: none is worth an optimising compiler. */
  private static final List<String> FRUGAL = List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC");

  private static final Pattern MASTER = Pattern.compile("spark://127\\.0\\.0\\.1:\\d+");

  @TempDir private Path folder;
  private final List<Process> processes = new ArrayList<>();

  @AfterEach
  void stopTheCluster() throws Exception {
    // Workers end their executors when they are asked to end.
    processes.reversed().forEach(Process::destroy);
    for (Process process : processes) {
      if (!process.waitFor(10, TimeUnit.SECONDS)) {
        process.descendants().forEach(ProcessHandle::destroyForcibly);
        process.destroyForcibly();
      }
    }
    try (Stream<Path> links = Files.list(folder.resolve("home/jars"))) {
      for (Path link : links.toList()) {
        Files.delete(link); // JUnit would warn of each
      }
    }
  }

  @Test
  void aMasterTwoWorkersAndALostExecutor() throws Exception {
    Path jars = sparkHome();
    start(
        "master",
        "org.apache.spark.deploy.master.Master",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--webui-port",
        "0");
    String master = await("master", MASTER);
    for (String worker : List.of("worker1", "worker2")) {
      start(
          worker,
          "org.apache.spark.deploy.worker.Worker",
          "--host",
          "127.0.0.1",
          "--port",
          "0",
          "--webui-port",
          "0",
          "--cores",
          "1",
          "--memory",
          "600m",
          "--work-dir",
          folder.resolve(worker).toString(),
          master);
    }
    Path answer = folder.resolve("answer");
    Process program =
        start(
            "program",
            "org.apache.spark.deploy.SparkSubmit",
            "--master",
            master,
            "--conf",
            "spark.driver.host=127.0.0.1",
            "--conf",
            "spark.ui.enabled=false",
            "--conf",
            "spark.executor.memory=512m",
            "--conf",
            "spark.executor.extraJavaOptions=" + String.join(" ", FRUGAL),
            "--conf",
            "spark.scheduler.minRegisteredResourcesRatio=1",
            "--conf",
            "spark.sql.shuffle.partitions=4",
            "--conf",
            "spark.sql.extensions=" + FoldmaxExtensions.class.getName(),
            "--jars",
            jar(FoldmaxExtensions.class, jars) + "," + jar(SoftmaxState.class, jars),
            "--class",
            ClusterProgram.class.getName(),
            jar(ClusterProgram.class, jars),
            answer.toString());

    assertThat(program.waitFor(150, TimeUnit.SECONDS))
        .as("ended in time: %s", log("program"))
        .isTrue();
    assertThat(program.exitValue()).as(log("program")).isZero();
    List<String> lines = Files.readAllLines(answer);
    assertThat(lines.getFirst()).isEqualTo("2"); // executors
    assertThat(Path.of(answer + ".lost")).exists();
    checkTheSame(lines);
  }

  /** The same on two threads of this JVM. */
  private static void checkTheSame(List<String> lines) {
    LocalSpark.view("t", LocalSpark.session().sql(ClusterProgram.TABLE));
    Row local = LocalSpark.row(ClusterProgram.QUERY);
    double[] actual = numbers(lines.get(1));
    double[] expected = numbers(local.json());
    assertThat(actual).hasSameSizeAs(expected).hasSizeGreaterThan(10);
    for (int i = 0; i < expected.length; i++) {
      assertThat(actual[i])
          .isCloseTo(expected[i], within(1e-9 * Math.max(1, Math.abs(expected[i]))));
    }
    DatasetAttention.Result attention =
        DatasetAttention.over(LocalSpark.session().table("t"), "k", "v")
            .reproducible("id", 256)
            .attend(Tensor.of(new float[] {1, 2, -1, 0}, 2, 2));
    // To the bit, whatever the partitions and the machines.
    assertThat(lines.get(2)).isEqualTo(Arrays.toString(attention.output().toDoubleArray()));
    assertThat(lines.get(3)).isEqualTo(Arrays.toString(attention.lse().toDoubleArray()));
  }

  /** The numbers of a row in JSON, in their order, but not those of column names. */
  private static double[] numbers(String json) {
    return Pattern.compile("(?<=[:\\[,])-?\\d[\\d.E-]*(?=[,\\]}])")
        .matcher(json)
        .results()
        .mapToDouble(match -> Double.parseDouble(match.group()))
        .toArray();
  }

  /** A folder like an installation of Spark, of the jars that this test runs with. */
  private Path sparkHome() throws IOException {
    Path jars = Files.createDirectories(folder.resolve("home/jars"));
    for (String entry : System.getProperty("java.class.path").split(File.pathSeparator, -1)) {
      Path path = Path.of(entry);
      if (entry.endsWith(".jar") && !path.getFileName().toString().startsWith("foldmax-")) {
        Files.createSymbolicLink(jars.resolve(path.getFileName()), path);
      }
    }
    return Files.createDirectories(folder.resolve("jars"));
  }

  private Process start(String name, String main, String... arguments) throws IOException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of(JavaModuleOptions.defaultModuleOptions().split(" ")));
    command.addAll(FRUGAL);
    command.addAll(List.of("-Xmx512m", "-cp", folder.resolve("home/jars") + "/*", main));
    command.addAll(List.of(arguments));
    ProcessBuilder builder =
        new ProcessBuilder(command)
            .directory(folder.toFile())
            .redirectErrorStream(true)
            .redirectOutput(folder.resolve(name + ".log").toFile());
    builder
        .environment()
        .putAll(
            Map.of(
                "SPARK_HOME",
                folder.resolve("home").toString(),
                "SPARK_SCALA_VERSION",
                "2.13",
                "SPARK_LOCAL_IP",
                "127.0.0.1",
                "SPARK_LOCAL_DIRS",
                folder.resolve("local").toString()));
    Process process = builder.start();
    processes.add(process);
    return process;
  }

  /** What a log says, once it does. */
  private String await(String name, Pattern pattern) throws Exception {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(START_SECONDS);
    while (System.nanoTime() < end) {
      Matcher matcher = pattern.matcher(log(name));
      if (matcher.find()) {
        return matcher.group();
      }
      Thread.sleep(100);
    }
    throw new AssertionError(name + " did not start: " + log(name));
  }

  private String log(String name) throws IOException {
    return Files.readString(folder.resolve(name + ".log"));
  }

  /** The jar that a class comes from, made of its folder where there is none. */
  private static String jar(Class<?> type, Path jars) throws Exception {
    Path source = Path.of(type.getProtectionDomain().getCodeSource().getLocation().toURI());
    if (Files.isRegularFile(source)) {
      return source.toString();
    }
    Path jar = jars.resolve(type.getSimpleName() + ".jar");
    Predicate<Path> program = path -> path.startsWith(source.resolve("dev"));
    try (OutputStream out = Files.newOutputStream(jar);
        JarOutputStream entries = new JarOutputStream(out);
        Stream<Path> files = Files.walk(source)) {
      for (Path file : files.filter(program.and(Files::isRegularFile)).toList()) {
        entries.putNextEntry(
            new JarEntry(source.relativize(file).toString().replace(File.separatorChar, '/')));
        Files.copy(file, entries);
        entries.closeEntry();
      }
    }
    return jar.toString();
  }
}
