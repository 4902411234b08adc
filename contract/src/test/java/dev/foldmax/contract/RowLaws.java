package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import dev.foldmax.TopK;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Softmax, its logarithm, the logsumexp and the k largest, of rows of any kind. */
interface RowLaws extends Subject {
  /** Every short length, and those around multiples of what a kernel might cut by. */
  List<Integer> LENGTHS =
      IntStream.concat(
              IntStream.rangeClosed(0, 70),
              IntStream.of(
                  127, 128, 129, 255, 256, 257, 1000, 1023, 1024, 1025, 2047, 2048, 2049, 4095,
                  4096, 4097))
          .boxed()
          .toList();

  /** Rows of seeded numbers. */
  private static double[] numbers(long seed, int count, double spread, DType type) {
    SplittableRandom random = new SplittableRandom(seed);
    double[] numbers = new double[count];
    Arrays.setAll(numbers, i -> Twin.round(spread * random.nextGaussian(), type));
    return numbers;
  }

  private static Tensor tensor(double[] numbers, DType type, Memory memory, long... shape) {
    Tensor view = memory.block(Double.NaN, type, shape).view();
    view.copyFrom(Tensor.of(numbers, shape));
    return view;
  }

  /** The softmax of a row by its definition, NaN for a row with a NaN or +inf. */
  private static double[] softmax(double[] row) {
    double max = Arrays.stream(row).max().orElse(0);
    if (Double.isNaN(max) || max == Double.POSITIVE_INFINITY) {
      return Arrays.stream(row).map(x -> Double.NaN).toArray();
    }
    if (max == Double.NEGATIVE_INFINITY) {
      return new double[row.length];
    }
    double sum = Arrays.stream(row).map(x -> Math.exp(x - max)).sum();
    return Arrays.stream(row).map(x -> Math.exp(x - max) / sum).toArray();
  }

  private static double logSumExp(double[] row) {
    double max = Arrays.stream(row).max().orElse(Double.NEGATIVE_INFINITY);
    if (Double.isNaN(max) || max == Double.POSITIVE_INFINITY) {
      return Double.NaN;
    }
    return max == Double.NEGATIVE_INFINITY
        ? max
        : max + Math.log(Arrays.stream(row).map(x -> Math.exp(x - max)).sum());
  }

  private static double[] logSoftmax(double[] row) {
    double max = Arrays.stream(row).max().orElse(0);
    if (!Double.isFinite(max)) {
      double every = max == Double.NEGATIVE_INFINITY ? max : Double.NaN;
      return Arrays.stream(row).map(x -> every).toArray();
    }
    // Apart from the maximum, beside which the logarithm of the sum could vanish.
    double log = Math.log(Arrays.stream(row).map(x -> Math.exp(x - max)).sum());
    return Arrays.stream(row).map(x -> x - max - log).toArray();
  }

  /**
   * As near as a weight in float32 can be: some ulp of the output's type, and what rounding the
   * difference to the maximum leaves of the exponent.
   */
  private static void assertWeight(
      double actual, double expected, double gap, DType out, String what) {
    double relative = out == DType.F64 ? 1e-13 : (8 + gap) * 0x1p-23;
    double most = relative * expected + 2 * Twin.ulp(expected, out) + Float.MIN_NORMAL;
    boolean near =
        Double.isNaN(expected) ? Double.isNaN(actual) : Math.abs(actual - expected) <= most;
    if (!near) {
      assertThat(actual).as(what).isEqualTo(expected);
    }
  }

  private static void assertLog(double actual, double expected, DType in, DType out, String what) {
    double precision = in == DType.F64 ? 1e-13 : 0x1p-20;
    double most = precision * (1 + Math.abs(expected)) + 2 * Twin.ulp(expected, out);
    boolean overflows = Double.isInfinite(Twin.round(expected, out));
    boolean near =
        (Double.isFinite(expected) && !overflows)
            ? Math.abs(actual - expected) <= most
            : Double.compare(actual, Twin.round(expected, out)) == 0;
    if (!near) {
      assertThat(actual).as(what).isEqualTo(expected);
    }
  }

  /** All three verbs on rows of one length. */
  private void assertRows(double[] numbers, int rows, int n, DType in, DType out, Memory memory) {
    Tensor x = tensor(numbers, in, memory, rows, n);
    Memory.Block weights = memory.block(-8192, out, rows, n);
    Memory.Block logs = memory.block(-8192, out, rows, n);
    Memory.Block sums = memory.block(-8192, out, rows);
    backend().softmax(x, weights.view());
    backend().logSoftmax(x, logs.view());
    backend().logSumExp(x, sums.view());
    DType precision = in == DType.F64 ? out : out == DType.F64 ? DType.F32 : out;
    for (int r = 0; r < rows; r++) {
      double[] row = Arrays.copyOfRange(numbers, r * n, (r + 1) * n);
      double[] softmax = softmax(row);
      double[] logSoftmax = logSoftmax(row);
      double max = Arrays.stream(row).max().orElse(0);
      for (int i = 0; i < n; i++) {
        String what = "row %d of %s, element %d".formatted(r, x, i);
        assertWeight(
            weights.view().get(r, i), softmax[i], max - row[i], precision, "softmax, " + what);
        assertLog(logs.view().get(r, i), logSoftmax[i], in, precision, "logSoftmax, " + what);
      }
      assertLog(sums.view().get(r), logSumExp(row), in, precision, "logSumExp, row " + r);
    }
    long around = weights.whole().elements() - (long) rows * n;
    assertThat(weights.count(-8192)).as("around the output").isEqualTo(around);
    assertThat(logs.count(-8192)).as("around the output").isEqualTo(around);
  }

  @TestFactory
  default Stream<DynamicTest> everyLength() {
    return LENGTHS.stream()
        .map(
            n ->
                dynamicTest(
                    "rows of " + n,
                    () -> {
                      for (Memory memory : Memory.values()) {
                        assertRows(
                            numbers(n, 3 * n, 5, DType.F32), 3, n, DType.F32, DType.F32, memory);
                      }
                    }));
  }

  @TestFactory
  default Stream<DynamicTest> everyPairOfTypes() {
    List<DynamicTest> tests = new ArrayList<>();
    for (DType in : MergeLaws.FLOATS) {
      for (DType out : MergeLaws.FLOATS) {
        for (int n : new int[] {1, 7, 64, 100, 1030}) {
          tests.add(
              dynamicTest(
                  "%s to %s, rows of %d".formatted(in, out, n),
                  () -> {
                    for (Memory memory : new Memory[] {Memory.HEAP, Memory.TRANSPOSED}) {
                      assertRows(numbers(n, 3 * n, 4, in), 3, n, in, out, memory);
                    }
                  }));
        }
      }
    }
    return tests.stream();
  }

  @TestFactory
  default Stream<DynamicTest> everyMagnitude() {
    return Stream.of(1e-30, 1e-3, 1.0, 30.0, 1e3, 1e6, 1e30, 3e38)
        .map(
            spread ->
                dynamicTest(
                    "spread " + spread,
                    () -> {
                      double[] numbers = numbers(1, 5 * 333, 1, DType.F32);
                      for (int i = 0; i < numbers.length; i++) {
                        numbers[i] = (float) Math.clamp(numbers[i] * spread, -3.4e38, 3.4e38);
                      }
                      assertRows(numbers, 5, 333, DType.F32, DType.F32, Memory.HEAP);
                    }));
  }

  /** Rows that begin at one height and go on at another, and rows of log-probabilities. */
  @TestFactory
  default Stream<DynamicTest> everyStep() {
    List<DynamicTest> tests = new ArrayList<>();
    for (double low : new double[] {-17, -33, -47, -80, -1e4}) {
      for (int n : new int[] {32, 333, 5000, 70_000 / thrift()}) {
        tests.add(
            dynamicTest(
                "from %s, rows of %d".formatted(low, n),
                () -> {
                  double[] numbers = numbers(n, 2 * n, 1, DType.F32);
                  for (int i = 0; i < numbers.length; i++) {
                    boolean isLow = i % n < 16 || i % n > n / 2;
                    numbers[i] = (float) (numbers[i] / 4 + (isLow ? low : 1));
                  }
                  assertRows(numbers, 2, n, DType.F32, DType.F32, Memory.HEAP);
                  for (int r = 0; r < 2; r++) {
                    double lse = logSumExp(Arrays.copyOfRange(numbers, r * n, (r + 1) * n));
                    for (int i = r * n; i < (r + 1) * n; i++) {
                      numbers[i] = (float) (numbers[i] - lse);
                    }
                  }
                  assertRows(numbers, 2, n, DType.F32, DType.F32, Memory.HEAP);
                }));
      }
    }
    return tests.stream();
  }

  /** Within 1 ulp for the exponential: weights gathered over a large set, in ulp of each. */
  @Test
  default void accuracyOverASeededSet() {
    double squares = 0;
    double naiveSquares = 0;
    double largest = 0;
    double naiveLargest = 0;
    int rows = 40;
    int n = 500;
    double[] numbers = numbers(99, rows * n, 4, DType.F32);
    double[] actual =
        backend().softmax(tensor(numbers, DType.F32, Memory.HEAP, rows, n)).toDoubleArray();
    for (int r = 0; r < rows; r++) {
      double[] row = Arrays.copyOfRange(numbers, r * n, (r + 1) * n);
      double[] oracle = softmax(row);
      double[] naive = naiveSoftmax(row);
      for (int i = 0; i < n; i++) {
        assertThat(oracle[i]).isFinite();
        double ulp = Math.ulp((float) oracle[i]);
        double error = Math.abs(actual[r * n + i] - oracle[i]) / ulp;
        double naiveError = Math.abs(naive[i] - oracle[i]) / ulp;
        squares += error * error;
        naiveSquares += naiveError * naiveError;
        largest = Math.max(largest, error);
        naiveLargest = Math.max(naiveLargest, naiveError);
      }
    }
    double count = (double) rows * n;
    assertThat(Math.sqrt(squares / count))
        .as("RMS error in ulp")
        .isLessThanOrEqualTo(1.25 * Math.sqrt(naiveSquares / count) + 1);
    assertThat(largest).as("largest error in ulp").isLessThanOrEqualTo(2 * naiveLargest + 4);
  }

  private static double[] naiveSoftmax(double[] row) {
    float max = (float) Arrays.stream(row).max().orElse(0);
    float sum = 0;
    float[] weights = new float[row.length];
    for (int i = 0; i < row.length; i++) {
      weights[i] = (float) Math.exp((float) row[i] - max);
      sum += weights[i];
    }
    double[] naive = new double[row.length];
    for (int i = 0; i < row.length; i++) {
      naive[i] = weights[i] / sum;
    }
    return naive;
  }

  /** A maximum, -inf, +inf or NaN at each place of a short row: every lane of every vector. */
  @TestFactory
  default Stream<DynamicTest> everyPlaceOfWhatIsSpecial() {
    List<DynamicTest> tests = new ArrayList<>();
    double[] specials = {
      50, Double.NEGATIVE_INFINITY, Double.POSITIVE_INFINITY, Double.NaN, -Float.MAX_VALUE
    };
    for (int n : new int[] {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 130}) {
      for (double special : specials) {
        for (DType type : MergeLaws.FLOATS) {
          tests.add(
              dynamicTest(
                  "%s anywhere in %s rows of %d".formatted(special, type, n),
                  () -> {
                    // One row for each place, so that a neighbour would show what spreads.
                    double[] numbers = numbers(n, n * n, 2, type);
                    for (int i = 0; i < n; i++) {
                      numbers[i * n + i] = Twin.round(special, type);
                    }
                    assertRows(numbers, n, n, type, type, Memory.HEAP);
                    assertTopK(numbers, n, n, Math.min(n, 5), type, Memory.HEAP);
                  }));
        }
      }
    }
    return tests.stream();
  }

  @Test
  default void rowsOfMinusInfinityAreEmpty() {
    for (int n : new int[] {0, 1, 5, 16, 64, 1000}) {
      Tensor x = Memory.HEAP.block(Double.NEGATIVE_INFINITY, DType.F32, 3, n).view();
      assertThat(backend().softmax(x).toDoubleArray()).isEqualTo(new double[3 * n]);
      assertThat(backend().logSoftmax(x).toDoubleArray()).isEqualTo(x.toDoubleArray());
      assertThat(backend().logSumExp(x).toDoubleArray()).containsOnly(Double.NEGATIVE_INFINITY);
    }
  }

  /** A float32 sum of ones stops at 2^24 if they are added one by one. */
  @Test
  default void manyEqualWeights() {
    int n = (1 << 24) + 3;
    Tensor x = Tensor.allocate(DType.F32, n);
    Tensor out = Tensor.allocate(DType.F32, n);
    backend().softmax(x, out);
    float each = 1f / n;
    int wrong = 0;
    for (long i = 0; i < n; i++) {
      wrong += Math.abs(out.at(i) - 1.0 / n) <= 2 * Math.ulp(each) ? 0 : 1;
    }
    assertThat(wrong).as("weights that are not 1 / n").isZero();
    assertThat(backend().logSumExp(x).get()).isCloseTo(Math.log(n), within(4e-6));
  }

  /** The naive form is exact there: each exponential is 1. */
  @Test
  default void equalWeightsAreNearlyExact() {
    double squares = 0;
    int count = 0;
    for (int n : new int[] {3, 100, 333, 1000, 4096, 5000, 32_768, 32_769, 40_000, 65_537}) {
      int rows = n > 5000 ? 16 / thrift() : 48;
      double[] numbers = numbers(n, rows, 10, DType.F32);
      for (int r = 0; r < Math.min(rows, 11); r++) {
        numbers[r] = r - 5;
      }
      Tensor x = tensor(numbers, DType.F32, Memory.HEAP, rows, 1).expand(rows, n);
      Tensor weights = backend().softmax(x);
      double ulp = Math.ulp((float) (1.0 / n));
      for (int r = 0; r < rows; r++) {
        for (int i : new int[] {0, n / 2, n - 1}) {
          double error = Math.abs(weights.get(r, i) - 1.0 / n) / ulp;
          assertThat(error)
              .as("ulp of weight %d of %d equal to %s", i, n, numbers[r])
              .isLessThanOrEqualTo(2 * 0.5 + 4);
          squares += error * error;
          count++;
        }
      }
    }
    assertThat(Math.sqrt(squares / count)).as("RMS error in ulp").isLessThanOrEqualTo(1.5);
  }

  /** Where float32 has no number near the largest element. */
  @Test
  default void largeNumbersInFloat64() {
    for (double large : new double[] {1e9, 1e12, -1e12, 1e15}) {
      for (int n : new int[] {50, 40_000}) {
        double[] numbers = new double[n];
        Arrays.setAll(numbers, i -> large + 0.5 * (i % 7) + 0.25);
        double[] weights =
            backend().softmax(tensor(numbers, DType.F64, Memory.HEAP, n)).toDoubleArray();
        double[] expected = softmax(numbers);
        for (int i = 0; i < n; i++) {
          assertWeight(weights[i], expected[i], 3, DType.F64, "weight " + i + " at " + large);
        }
      }
    }
  }

  /** A weight that is a normal number is not lost, wherever its element and the largest stand. */
  @TestFactory
  default Stream<DynamicTest> smallWeights() {
    List<DynamicTest> tests = new ArrayList<>();
    for (DType type : new DType[] {DType.F32, DType.F64}) {
      double least = type == DType.F64 ? Double.MIN_NORMAL : Float.MIN_NORMAL;
      double depth = type == DType.F64 ? 707 : 86;
      for (double high : new double[] {17, 1, -0.1, -20, 300}) {
        for (int n : new int[] {2, 5, 18, 33, 130, 2050, 32_775}) {
          tests.add(
              dynamicTest(
                  "%s rows of %d below %s".formatted(type, n, high),
                  () -> {
                    int rows = Math.min(n, n > 1000 ? 8 : 40);
                    double[] numbers = new double[rows * n];
                    for (int r = 0; r < rows; r++) {
                      Arrays.fill(numbers, r * n, (r + 1) * n, high - 15);
                      // Each place from the end on, before it the largest and between them a hole.
                      int small = n - 1 - r;
                      numbers[r * n + small] = Twin.round(high - depth + Math.log(n), type);
                      numbers[r * n + (small + n - 1) % n] = high;
                      if (n > 2) {
                        numbers[r * n + (small + n - 2) % n] = Double.NEGATIVE_INFINITY;
                      }
                    }
                    Tensor x = tensor(numbers, type, Memory.HEAP, rows, n);
                    Tensor weights = backend().softmax(x);
                    for (int r = 0; r < rows; r++) {
                      double[] row = Arrays.copyOfRange(numbers, r * n, (r + 1) * n);
                      int small = n - 1 - r;
                      double expected = softmax(row)[small];
                      assertThat(expected).isGreaterThan(least);
                      assertThat(weights.get(r, small) / expected)
                          .as("weight %d of %d", small, n)
                          .isCloseTo(1, within(type == DType.F64 ? 1e-12 : 2e-5));
                    }
                  }));
        }
      }
    }
    return tests.stream();
  }

  @TestFactory
  default Stream<DynamicTest> inPlace() {
    List<DynamicTest> tests = new ArrayList<>();
    for (DType type : MergeLaws.FLOATS) {
      for (Memory memory : Memory.values()) {
        tests.add(
            dynamicTest(
                "%s in %s".formatted(type, memory),
                () -> {
                  for (int n : new int[] {1, 17, 64, 300, 3000}) {
                    double[] numbers = numbers(n, 4 * n, 3, type);
                    Tensor x = tensor(numbers, type, memory, 4, n);
                    double[] softmax = backend().softmax(x).toDoubleArray();
                    double[] logSoftmax = backend().logSoftmax(x).toDoubleArray();
                    backend().softmax(x, x);
                    assertThat(x.toDoubleArray()).isEqualTo(softmax);
                    Tensor y = tensor(numbers, type, memory, 4, n);
                    backend().logSoftmax(y, y);
                    assertThat(y.toDoubleArray()).isEqualTo(logSoftmax);
                  }
                }));
      }
    }
    return tests.stream();
  }

  /** The same view as the output but that it cannot be written, with what the fast way gives up. */
  @Test
  default void inPlaceFromAReadOnlyView() {
    for (DType type : MergeLaws.FLOATS) {
      for (int special = 0; special < 3; special++) {
        double[] numbers = numbers(special, 4 * 300, 3, type);
        numbers[17] = -100;
        numbers[299] = special == 0 ? 60 : special == 1 ? Double.NEGATIVE_INFINITY : Double.NaN;
        Tensor x = tensor(numbers, type, Memory.HEAP, 4, 300);
        double[] softmax = backend().softmax(x).toDoubleArray();
        backend().softmax(Tensor.of(x.segment().asReadOnly(), type, 4, 300), x);
        assertThat(x.toDoubleArray()).isEqualTo(softmax);
      }
    }
  }

  /** Bits of a row: alone, among others, contiguous or not, whatever the threads. */
  @TestFactory
  default Stream<DynamicTest> rowsAreInvariant() {
    List<DynamicTest> tests = new ArrayList<>();
    for (DType type : MergeLaws.FLOATS) {
      for (int n : new int[] {1, 13, 64, 100, 1000, 5000, 70_000}) {
        tests.add(dynamicTest("%s rows of %d".formatted(type, n), () -> rowsAreInvariant(type, n)));
      }
    }
    return tests.stream();
  }

  private void rowsAreInvariant(DType type, int n) {
    int rows = 7;
    double[] numbers = numbers(n, rows * n, 3, type);
    Tensor x = tensor(numbers, type, Memory.HEAP, rows, n);
    List<double[]> expected = rowResults(backend(), x);
    for (Memory memory : Memory.values()) {
      assertSame(
          rowResults(backend(), tensor(numbers, type, memory, rows, n)),
          expected,
          memory.toString());
    }
    for (int threads = 1; threads <= 3; threads++) {
      try (Backend other = open(threads)) {
        assertSame(rowResults(other, x), expected, threads + " threads");
      }
    }
    try (ExecutorService executor = Executors.newFixedThreadPool(2);
        Backend other = open(executor, 3)) {
      assertSame(rowResults(other, x), expected, "an executor");
    }
    for (int r = 0; r < rows; r++) {
      List<double[]> alone = rowResults(backend(), x.slice(0, r, r + 1));
      for (int verb = 0; verb < alone.size(); verb++) {
        int each = alone.get(verb).length;
        assertThat(alone.get(verb))
            .as("row %d alone, verb %d", r, verb)
            .isEqualTo(Arrays.copyOfRange(expected.get(verb), r * each, (r + 1) * each));
      }
    }
    Tensor cube = x.reshape(1, rows, n).expand(3, rows, n);
    double[] copies = backend().softmax(cube).toDoubleArray();
    assertThat(Arrays.copyOfRange(copies, rows * n, 2 * rows * n)).isEqualTo(expected.get(0));
  }

  private static List<double[]> rowResults(Backend backend, Tensor x) {
    int k = (int) Math.min(x.shape(-1), 6);
    TopK top = backend.topK(x, k);
    return List.of(
        backend.softmax(x).toDoubleArray(),
        backend.logSoftmax(x).toDoubleArray(),
        backend.logSumExp(x).toDoubleArray(),
        top.values().toDoubleArray(),
        top.indices().toDoubleArray(),
        top.probabilities().toDoubleArray());
  }

  private static void assertSame(List<double[]> actual, List<double[]> expected, String what) {
    for (int verb = 0; verb < expected.size(); verb++) {
      assertThat(Arrays.mismatch(actual.get(verb), expected.get(verb)))
          .as("%s, verb %d: the first difference", what, verb)
          .isEqualTo(-1);
    }
  }

  // The k largest

  @TestFactory
  default Stream<DynamicTest> theLargestOfEveryLength() {
    return LENGTHS.stream()
        .map(
            n ->
                dynamicTest(
                    "rows of " + n,
                    () -> {
                      for (int k : new int[] {0, 1, 2, 5, 8, 9, 16, 17, 40, 64, 100, n - 1, n}) {
                        if (k >= 0 && k <= n) {
                          // Few distinct numbers: ties everywhere.
                          double[] ties = numbers(n, 3 * n, 1, DType.F32);
                          for (int i = 0; i < ties.length; i++) {
                            ties[i] = Math.rint(2 * ties[i]) + (i % 7 == 0 ? -0.0 : 0.0);
                          }
                          double[] distinct = numbers(n + 1, 3 * n, 5, DType.F32);
                          Memory memory = k % 2 == 0 ? Memory.HEAP : Memory.TRANSPOSED;
                          assertTopK(ties, 3, n, k, DType.F32, memory);
                          assertTopK(distinct, 3, n, k, DType.F32, memory);
                        }
                      }
                    }));
  }

  @TestFactory
  default Stream<DynamicTest> theLargestOfEveryType() {
    List<DynamicTest> tests = new ArrayList<>();
    for (DType type : MergeLaws.FLOATS) {
      for (Memory memory : Memory.values()) {
        tests.add(
            dynamicTest(
                "%s in %s".formatted(type, memory),
                () -> {
                  for (int n : new int[] {10, 300}) {
                    assertTopK(numbers(n, 4 * n, 0.01, type), 4, n, 7, type, memory);
                  }
                }));
      }
    }
    return tests.stream();
  }

  /** Rising, falling and constant rows, where an insertion would happen at each step or never. */
  @Test
  default void theLargestOfOrderedRows() {
    int n = 3000;
    double[] numbers = new double[3 * n];
    for (int i = 0; i < n; i++) {
      numbers[i] = i;
      numbers[n + i] = -i;
    }
    for (int k : new int[] {1, 10, 100, n}) {
      assertTopK(numbers, 3, n, k, DType.F32, Memory.HEAP);
    }
  }

  private void assertTopK(double[] numbers, int rows, int n, int k, DType type, Memory memory) {
    Tensor x = tensor(numbers, type, memory, rows, n);
    Tensor values = memory.block(-3, type, rows, k).view();
    Tensor shares = memory.block(-3, type == DType.F64 ? type : DType.F32, rows, k).view();
    Tensor indices = memory.block(-3, DType.I32, rows, k).view();
    Tensor alone = Tensor.allocate(DType.I64, rows, k);
    backend().topK(x, values, indices, shares);
    backend().topK(x, values, alone, null);
    for (int r = 0; r < rows; r++) {
      double[] row = Arrays.copyOfRange(numbers, r * n, (r + 1) * n);
      double[] softmax = softmax(row);
      double max = Arrays.stream(row).max().orElse(0);
      int[] order = descending(row);
      for (int i = 0; i < k; i++) {
        String what = "row %d of %s, number %d of %d".formatted(r, x, i, k);
        assertThat((int) indices.get(r, i)).as("index, %s", what).isEqualTo(order[i]);
        assertThat((int) alone.get(r, i)).as("index alone, %s", what).isEqualTo(order[i]);
        assertThat(values.get(r, i)).as("value, %s", what).isEqualTo(Double.valueOf(row[order[i]]));
        assertWeight(
            shares.get(r, i),
            softmax[order[i]],
            max - row[order[i]],
            shares.dtype(),
            "share, " + what);
      }
    }
  }

  /** NaN before all, then the largest first, ties and zeros of either sign by index. */
  private static int[] descending(double[] row) {
    List<Integer> order = new ArrayList<>(IntStream.range(0, row.length).boxed().toList());
    order.sort(
        (a, b) -> {
          double x = row[a];
          double y = row[b];
          if (Double.isNaN(x) || Double.isNaN(y)) {
            return Boolean.compare(Double.isNaN(y), Double.isNaN(x));
          }
          return x == y ? 0 : x > y ? -1 : 1;
        });
    return order.stream().mapToInt(Integer::intValue).toArray();
  }
}
