package dev.foldmax.benchmarks;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.Tensor;
import java.io.BufferedReader;
import java.io.IOException;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/**
 * The program that a fresh JVM runs to its first result, and the measurement of it: how long a
 * process takes from its start to the result, and how long the first call takes in it.
 */
public final class FirstCall {
  /** What is called, small enough for a user to expect it at once. */
  enum Work {
    /** Nothing: what the JVM itself takes. */
    NOTHING("nothing"),
    /** Causal attention, H 8, L 128, D 64. */
    ATTENTION("attention, H 8 L 128 D 64 causal"),
    /** Decoding, H 32/8, Lk 512, D 128. */
    DECODE("decode, H 32/8 Lk 512 D 128"),
    /** Softmax of 16 rows of 1024. */
    SOFTMAX("softmax, 16 x 1024");

    private final String label;

    Work(String label) {
      this.label = label;
    }

    String label() {
      return label;
    }

    private void run() {
      switch (this) {
        case NOTHING -> {}
        case ATTENTION -> attend(8, 8, 128, 128, 64);
        case DECODE -> attend(32, 8, 1, 512, 128);
        case SOFTMAX -> {
          try (Backend backend = Backend.cpu()) {
            backend.softmax(numbers(16, 1024));
          }
        }
      }
    }
  }

  /**
   * What it took, in each JVM.
   *
   * @param work what was called
   * @param startMillis from the start of the process to the result
   * @param callMillis the first call, with the making of the backend
   */
  record Times(Work work, List<Double> startMillis, List<Double> callMillis) {
    Times {
      startMillis = List.copyOf(startMillis);
      callMillis = List.copyOf(callMillis);
    }
  }

  private FirstCall() {}

  /** Does one work and prints how many nanoseconds it took. */
  public static void main(String[] args) {
    Work work = Work.valueOf(args[0]);
    long start = System.nanoTime();
    work.run();
    System.out.println(System.nanoTime() - start);
  }

  private static void attend(int heads, int keyHeads, int queries, int keys, int dim) {
    try (Backend backend = Backend.cpu()) {
      backend.attend(
          numbers(heads, queries, dim),
          numbers(keyHeads, keys, dim),
          numbers(keyHeads, keys, dim),
          Attention.causal());
    }
  }

  private static Tensor numbers(int... dimensions) {
    long[] shape = new long[dimensions.length];
    int n = 1;
    for (int i = 0; i < dimensions.length; i++) {
      shape[i] = dimensions[i];
      n *= dimensions[i];
    }
    float[] numbers = new float[n];
    for (int i = 0; i < n; i++) {
      numbers[i] = i % 7 / 7f;
    }
    return Tensor.of(numbers, shape);
  }

  /** Starts JVMs, each work in turn, as often as {@code forks} says. */
  static List<Times> measure(int forks, List<String> options) throws IOException {
    Map<Work, List<Double>> starts = new EnumMap<>(Work.class);
    Map<Work, List<Double>> calls = new EnumMap<>(Work.class);
    for (int fork = 0; fork < forks; fork++) {
      for (Work work : Work.values()) {
        long start = System.nanoTime();
        Process process = start(work, options);
        try (BufferedReader output = process.inputReader()) {
          String line = output.readLine();
          long end = System.nanoTime();
          if (line == null) {
            throw new IOException("a JVM for the first call of " + work + " printed nothing");
          }
          starts.computeIfAbsent(work, key -> new ArrayList<>()).add((end - start) / 1e6);
          calls.computeIfAbsent(work, key -> new ArrayList<>()).add(Long.parseLong(line) / 1e6);
        }
      }
    }
    List<Times> all = new ArrayList<>();
    starts.forEach(
        (work, millis) -> all.add(new Times(work, millis, calls.getOrDefault(work, List.of()))));
    return all;
  }

  private static Process start(Work work, List<String> options) throws IOException {
    return FreshJvm.of(FirstCall.class, options, work.name())
        .redirectError(ProcessBuilder.Redirect.DISCARD) // the note on the incubating module
        .start();
  }
}
