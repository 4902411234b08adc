package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Draws follow the filtered distribution, and are the reference's draws but for rounding. */
interface SamplingLaws extends Subject {
  List<UnaryOperator<Sampling>> FILTERS =
      List.of(
          s -> s,
          s -> s.temperature(0.5),
          s -> s.temperature(3),
          s -> s.topK(1),
          s -> s.topK(5),
          s -> s.topK(1000),
          s -> s.topP(0.5),
          s -> s.topP(0.95),
          s -> s.minP(0.1),
          s -> s.minP(1),
          s -> s.topK(8).topP(0.7),
          s -> s.topK(8).minP(0.2),
          s -> s.topP(0.8).minP(0.05),
          s -> s.temperature(0.7).topK(12).topP(0.9).minP(0.02));

  private static String text(Sampling s) {
    return "temperature %s, top-k %d, top-p %s, min-p %s"
        .formatted(s.temperature(), s.topK(), s.topP(), s.minP());
  }

  /** A row with what a draw looks at: scaled logits, the order, and which are kept. */
  final class Row {
    private final double[] scaled;
    private final int[] order;

    Row(double[] logits, Sampling sampling) {
      double max = Arrays.stream(logits).max().orElseThrow();
      scaled = Arrays.stream(logits).map(x -> (x - max) / sampling.temperature()).toArray();
      order =
          IntStream.range(0, logits.length)
              .boxed()
              .sorted((a, b) -> Double.compare(logits[b] + 0.0, logits[a] + 0.0))
              .mapToInt(Integer::intValue)
              .toArray();
    }

    /** What is kept with thresholds moved by a part, up (stricter) or down (laxer). */
    boolean[] kept(Sampling sampling, double stricter) {
      boolean[] kept = new boolean[scaled.length];
      int most =
          sampling.topK() == 0 ? scaled.length : (int) Math.min(scaled.length, sampling.topK());
      double sum = 0;
      for (int i = 0; i < most; i++) {
        sum += Math.exp(scaled[order[i]]);
      }
      double reached = 0;
      for (int i = 0; i < most; i++) {
        double weight = Math.exp(scaled[order[i]]);
        boolean inNucleus =
            i == 0 || sampling.topP() == 1 || reached < sampling.topP() * sum * (1 - stricter);
        boolean large = i == 0 || weight >= sampling.minP() * (1 + stricter);
        kept[order[i]] = inNucleus && large && weight > 0;
        reached += weight;
      }
      return kept;
    }

    /** The Gumbel key of an index. */
    double key(int index, long stream) {
      return scaled[index] - Math.log(-Math.log1p(-Sampling.uniform(stream, index)));
    }
  }

  // The distribution

  @TestFactory
  default Stream<DynamicTest> drawsFollowTheDistribution() {
    double[] logits = new double[24];
    SplittableRandom random = new SplittableRandom(5);
    Arrays.setAll(logits, i -> (float) (1.5 * random.nextGaussian()));
    logits[7] = Double.NEGATIVE_INFINITY;
    return FILTERS.stream()
        .map(filter -> filter.apply(Sampling.seeded(77)))
        .map(sampling -> dynamicTest(text(sampling), () -> assertDistribution(logits, sampling)));
  }

  private void assertDistribution(double[] logits, Sampling sampling) {
    int draws = 20_000;
    Tensor rows = Tensor.of(logits, logits.length).to(DType.F32).expand(draws, logits.length);
    int[] counts = new int[logits.length];
    for (long index : backend().sample(rows, sampling).toLongArray()) {
      counts[(int) index]++;
    }
    Row row = new Row(logits, sampling);
    boolean[] kept = row.kept(sampling, 0);
    double sum = 0;
    for (int i = 0; i < logits.length; i++) {
      sum += kept[i] ? Math.exp(row.scaled[i]) : 0;
    }
    double chiSquare = 0;
    int classes = 0;
    double restExpected = 0;
    int restCount = 0;
    for (int i = 0; i < logits.length; i++) {
      double expected = kept[i] ? draws * Math.exp(row.scaled[i]) / sum : 0;
      if (!kept[i]) {
        assertThat(counts[i]).as("draws of index %d, which is filtered out", i).isZero();
      } else if (expected < 8) {
        restExpected += expected;
        restCount += counts[i];
      } else {
        chiSquare += (counts[i] - expected) * (counts[i] - expected) / expected;
        classes++;
      }
    }
    if (restExpected > 8) {
      chiSquare += (restCount - restExpected) * (restCount - restExpected) / restExpected;
      classes++;
    }
    // Mean n, deviation sqrt(2n): five of these away is less than one in 10^5.
    double freedom = Math.max(1, classes - 1);
    assertThat(chiSquare).as("chi-square").isLessThan(freedom + 5 * Math.sqrt(2 * freedom) + 5);
  }

  // The draws

  @TestFactory
  default Stream<DynamicTest> drawsAreTheReferences() {
    List<DynamicTest> tests = new ArrayList<>();
    for (UnaryOperator<Sampling> filter : FILTERS) {
      for (int n : new int[] {1, 2, 17, 64, 100, 1000, 4100}) {
        Sampling sampling = filter.apply(Sampling.seeded(n));
        for (DType type : n == 100 ? MergeLaws.FLOATS : List.of(DType.F32)) {
          tests.add(
              dynamicTest(
                  "%s, %s rows of %d".formatted(text(sampling), type, n),
                  () -> assertReferences(sampling, n, type)));
        }
      }
    }
    for (double temperature : new double[] {1e-30, 1e-6, 0.01, 100, 1e6, 1e30}) {
      Sampling sampling = Sampling.seeded(3).temperature(temperature);
      tests.add(
          dynamicTest(
              "temperature " + temperature, () -> assertReferences(sampling, 300, DType.F32)));
      tests.add(
          dynamicTest(
              "temperature %s, top-p".formatted(temperature),
              () -> assertReferences(sampling.topP(0.9), 300, DType.F32)));
    }
    return tests.stream();
  }

  private void assertReferences(Sampling sampling, int n, DType type) {
    int rows = Math.clamp(20_000 / n, 20, 400);
    SplittableRandom random = new SplittableRandom(n);
    double[] logits = new double[rows * n];
    Arrays.setAll(
        logits,
        i ->
            random.nextInt(30) == 0
                ? Double.NEGATIVE_INFINITY
                : Twin.round(3 * random.nextGaussian(), type));
    for (int r = 0; r < rows; r++) {
      logits[r * n] = 1; // some logit is above -inf
    }
    Tensor x = Tensor.of(logits, rows, n).to(type);
    long[] actual = backend().sample(x, sampling).toLongArray();
    long[] expected;
    try (Backend reference = Backend.reference()) {
      expected = reference.sample(x, sampling).toLongArray();
    }
    int differences = 0;
    for (int r = 0; r < rows; r++) {
      if (actual[r] != expected[r]) {
        differences++;
        assertClose(Arrays.copyOfRange(logits, r * n, (r + 1) * n), sampling, r, actual[r]);
      }
    }
    assertThat(differences).as("rows of %d that differ", rows).isLessThanOrEqualTo(1 + rows / 50);
  }

  /** Another draw than the reference's is right only if rounding could have decided for it. */
  private static void assertClose(double[] logits, Sampling sampling, int r, long winner) {
    double slack = 1e-4;
    Row row = new Row(logits, sampling);
    long stream = Sampling.stream(sampling.seed(), sampling.firstRow() + r);
    boolean[] strict = row.kept(sampling, slack);
    boolean[] lax = row.kept(sampling, -slack);
    assertThat(winner).as("row %d", r).isBetween(0L, logits.length - 1L);
    assertThat(lax[(int) winner]).as("row %d: index %d may be drawn", r, winner).isTrue();
    double key = row.key((int) winner, stream);
    for (int i = 0; i < logits.length; i++) {
      if (strict[i]) {
        double error = slack * (1 + Math.abs(row.scaled[i]) + Math.abs(row.scaled[(int) winner]));
        assertThat(row.key(i, stream) - key)
            .as("row %d: the key of %d above that of %d, which was drawn", r, i, winner)
            .isLessThan(error);
      }
    }
  }

  @Test
  default void temperatureZeroTakesTheLargest() {
    Sampling greedy = Sampling.seeded(1).temperature(0);
    for (int n : new int[] {1, 2, 9, 64, 65, 1000, 3001}) {
      for (int at = 0; at < n; at += Math.max(1, n / 13)) {
        float[] logits = new float[n];
        logits[at] = 1;
        logits[n - 1] = at == n - 1 ? 1 : logits[n - 1];
        assertThat(backend().sample(Tensor.of(logits, n), greedy).longAt(0)).isEqualTo(at);
        if (at + 1 < n) {
          logits[n - 1] = 1; // a tie goes to the lower index
          assertThat(backend().sample(Tensor.of(logits, n), greedy).longAt(0)).isEqualTo(at);
        }
      }
    }
  }

  @Test
  default void aRowWithoutADistributionGivesMinusOne() {
    List<Sampling> samplings = new ArrayList<>();
    FILTERS.forEach(filter -> samplings.add(filter.apply(Sampling.seeded(1))));
    samplings.add(Sampling.seeded(1).temperature(0));
    for (Sampling sampling : samplings) {
      for (int n : new int[] {1, 9, 64, 100}) {
        for (double poison : new double[] {Double.NaN, Double.POSITIVE_INFINITY}) {
          Tensor x = Tensor.allocate(DType.F32, n + 1, n);
          for (int r = 0; r < n; r++) {
            x.set(poison, r, r);
          }
          long[] drawn = backend().sample(x, sampling).toLongArray();
          assertThat(Arrays.copyOf(drawn, n)).as("%s, %s", sampling, poison).containsOnly(-1);
          assertThat(drawn[n]).as("%s, the row below", sampling).isBetween(0L, n - 1L);
        }
        Tensor none = Memory.HEAP.block(Double.NEGATIVE_INFINITY, DType.F32, 2, n).view();
        assertThat(backend().sample(none, sampling).toLongArray()).containsOnly(-1);
      }
      assertThat(backend().sample(Tensor.allocate(DType.F32, 2, 0), sampling).toLongArray())
          .containsOnly(-1);
    }
  }

  @Test
  default void aSingleFiniteLogitIsAlwaysDrawn() {
    for (UnaryOperator<Sampling> filter : FILTERS) {
      for (int at = 0; at < 40; at++) {
        float[] logits = new float[40];
        Arrays.fill(logits, Float.NEGATIVE_INFINITY);
        logits[at] = -1e30f;
        assertThat(
                backend()
                    .sample(Tensor.of(logits, 40), filter.apply(Sampling.seeded(at)))
                    .longAt(0))
            .isEqualTo(at);
      }
    }
  }

  /** Ties are kept lower index first, by top-k and top-p alike. */
  @Test
  default void tiesKeepTheLowerIndices() {
    Tensor x = Tensor.allocate(DType.F32, 20).expand(500, 20);
    long[] ofTopK = backend().sample(x, Sampling.seeded(1).topK(3)).toLongArray();
    assertThat(ofTopK).containsOnly(0, 1, 2);
    long[] ofTopP = backend().sample(x, Sampling.seeded(1).topP(0.22)).toLongArray();
    assertThat(ofTopP).containsOnly(0, 1, 2, 3, 4);
    long[] ofBoth = backend().sample(x, Sampling.seeded(1).topK(10).topP(0.35)).toLongArray();
    assertThat(ofBoth).containsOnly(0, 1, 2, 3);
  }

  // Invariance

  /** Rows drawn one by one, numbered on, are the rows of one call; in any memory and threads. */
  @TestFactory
  default Stream<DynamicTest> drawsDependOnTheirRowAlone() {
    return FILTERS.stream()
        .map(filter -> filter.apply(Sampling.seeded(9)))
        .map(
            sampling ->
                dynamicTest(
                    text(sampling),
                    () -> {
                      for (int n : new int[] {5, 130, 2100}) {
                        drawsDependOnTheirRowAlone(sampling, n);
                      }
                    }));
  }

  private void drawsDependOnTheirRowAlone(Sampling sampling, int n) {
    int rows = 30;
    SplittableRandom random = new SplittableRandom(n);
    double[] logits = new double[rows * n];
    Arrays.setAll(logits, i -> (float) (2 * random.nextGaussian()));
    Tensor x = Tensor.of(logits, rows, n).to(DType.F32);
    long[] expected = backend().sample(x, sampling).toLongArray();
    for (int r = 0; r < rows; r++) {
      Tensor row = x.slice(0, r, r + 1);
      assertThat(backend().sample(row, sampling.firstRow(r)).longAt(0))
          .as("row %d alone", r)
          .isEqualTo(expected[r]);
    }
    for (Memory memory : Memory.values()) {
      Tensor elsewhere = memory.block(Double.NaN, DType.F32, rows, n).view();
      elsewhere.copyFrom(x);
      Tensor indices = memory.block(-5, DType.I32, rows).view();
      backend().sample(elsewhere, sampling, indices);
      assertThat(indices.toLongArray()).as("in %s", memory).isEqualTo(expected);
    }
    for (int threads = 1; threads <= 3; threads++) {
      try (Backend other = open(threads)) {
        assertThat(other.sample(x, sampling).toLongArray())
            .as("%d threads", threads)
            .isEqualTo(expected);
      }
    }
    Tensor cube = x.reshape(5, 6, n);
    assertThat(backend().sample(cube, sampling).toLongArray()).isEqualTo(expected);
  }
}
