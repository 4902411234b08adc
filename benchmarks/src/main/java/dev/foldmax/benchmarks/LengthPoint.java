package dev.foldmax.benchmarks;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * Causal attention of one head at one length by one contender, in a process of its own: how long a
 * warm call takes, and how much memory the process came to hold beyond what it held with the inputs
 * alone.
 */
public final class LengthPoint {
  static final int DIM = 64;

  /** Warm calls are repeated for so long, and at least so often. */
  private static final double SECONDS = 4;

  private static final int LEAST_CALLS = 3;

  /** A call that takes longer is not repeated. */
  private static final double LONG_SECONDS = 20;

  private LengthPoint() {}

  /** Prints seconds and bytes of a contender at a length, with a number of threads. */
  public static void main(String[] args) throws Exception {
    Contender contender = Contender.valueOf(args[0]);
    int length = Integer.parseInt(args[1]);
    int threads = Integer.parseInt(args[2]);
    AttentionCase shape = AttentionCase.square(1, length, DIM).variant(Variant.CAUSAL);
    Inputs inputs = Inputs.of(shape);
    long before = memory("VmRSS");
    try (Computation computation = contender.prepare(inputs, threads)) {
      double seconds = seconds(computation);
      System.out.println(seconds + " " + Math.max(0, memory("VmHWM") - before));
    }
  }

  private static double seconds(Computation computation) {
    List<Double> times = new ArrayList<>();
    double all = 0;
    while (times.isEmpty() || all < SECONDS || times.size() < LEAST_CALLS) {
      long start = System.nanoTime();
      computation.run();
      double seconds = (System.nanoTime() - start) * 1e-9;
      times.add(seconds);
      all += seconds;
      if (seconds > LONG_SECONDS) {
        break;
      }
    }
    List<Double> warm = new ArrayList<>(times.subList(times.size() / 2, times.size()));
    Collections.sort(warm);
    return warm.get(warm.size() / 2);
  }

  /** Bytes by the name that Linux gives them: resident now, or at most so far. */
  private static long memory(String name) throws IOException {
    return Files.readAllLines(Path.of("/proc/self/status")).stream()
        .filter(line -> line.startsWith(name + ":"))
        .mapToLong(line -> 1024 * Long.parseLong(line.replaceAll("\\D", "")))
        .findFirst()
        .orElseThrow(() -> new IOException("/proc/self/status: no " + name));
  }
}
