package dev.foldmax.contract;

import com.sun.management.ThreadMXBean;
import dev.foldmax.Backend;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * A program that measures what verbs allocate once they are compiled, one line a verb: its number,
 * the bytes of the backend's threads in all calls, and those of the calling thread in one. In a JVM
 * of its own: vectors stay in registers only where C2 inlines all that touches them, and what ten
 * thousand other tests have taught the profiles of shared methods is not what an application's
 * warm-up would.
 */
final class AllocationProbe {
  /** How long a verb may take to be compiled before it must allocate nothing. */
  private static final long MOST_SECONDS_OF_WARM_UP = 10;

  private static final int CALLS = 20;

  private AllocationProbe() {}

  /** What a verb allocated. */
  record Bytes(long ofHelpers, long ofCallerInACall) {}

  /** Measures the verbs with the given numbers; all without any. */
  public static void main(String[] numbers) {
    List<String> wanted = List.of(numbers);
    int number = 0;
    for (Consumer<Backend> verb : CallLaws.verbs().values()) {
      if (wanted.isEmpty() || wanted.contains(Integer.toString(number))) {
        Bytes bytes = measure(verb);
        System.out.println(number + " " + bytes.ofHelpers() + " " + bytes.ofCallerInACall());
      }
      number++;
    }
  }

  private static Bytes measure(Consumer<Backend> verb) {
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    List<Thread> others = CallLaws.helpers();
    try (Backend backend = Backend.cpu(3)) {
      List<Thread> own = CallLaws.helpers();
      own.removeAll(others);
      long end = System.nanoTime() + MOST_SECONDS_OF_WARM_UP * 1_000_000_000L;
      while (true) {
        long helpersBefore = bytesOf(own, threads);
        long callerBefore = threads.getCurrentThreadAllocatedBytes();
        for (int call = 0; call < CALLS; call++) {
          verb.accept(backend);
        }
        Bytes bytes =
            new Bytes(
                bytesOf(own, threads) - helpersBefore,
                (threads.getCurrentThreadAllocatedBytes() - callerBefore) / CALLS);
        if (isFine(bytes) || System.nanoTime() > end) {
          return bytes;
        }
      }
    }
  }

  private static boolean isFine(Bytes bytes) {
    return bytes.ofHelpers() == 0
        && bytes.ofCallerInACall() <= CpuAllocationTest.MOST_BYTES_OF_A_CALL;
  }

  private static long bytesOf(List<Thread> own, ThreadMXBean threads) {
    return own.stream().mapToLong(t -> threads.getThreadAllocatedBytes(t.threadId())).sum();
  }

  /**
   * What the verbs allocate, in the order of {@link CallLaws#verbs}. On a busy machine C2 now and
   * then compiles a loop from a poor profile and boxes its vectors for good, in one JVM and not in
   * the next; so verbs that allocated are measured again in a second and a third.
   */
  static List<Bytes> inFreshJvms() {
    Map<Integer, Bytes> results = new LinkedHashMap<>(run(List.of()));
    for (int again = 0; again < 2; again++) {
      List<String> failed = new ArrayList<>();
      results.forEach(
          (number, bytes) -> {
            if (!isFine(bytes)) {
              failed.add(Integer.toString(number));
            }
          });
      if (!failed.isEmpty()) {
        results.putAll(run(failed));
      }
    }
    return List.copyOf(results.values());
  }

  private static Map<Integer, Bytes> run(List<String> numbers) {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of("--add-modules", "jdk.incubator.vector"));
    command.addAll(List.of("-cp", System.getProperty("java.class.path")));
    command.add(AllocationProbe.class.getName());
    command.addAll(numbers);
    Map<Integer, Bytes> results = new LinkedHashMap<>();
    try {
      Process process =
          new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
      try (BufferedReader lines =
          new BufferedReader(
              new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
        lines
            .lines()
            .map(line -> line.split(" "))
            .forEach(
                words ->
                    results.put(
                        Integer.valueOf(words[0]),
                        new Bytes(Long.parseLong(words[1]), Long.parseLong(words[2]))));
      }
      if (process.waitFor() != 0) {
        throw new IllegalStateException("the probe ended with " + process.exitValue());
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(e);
    }
    return results;
  }
}
