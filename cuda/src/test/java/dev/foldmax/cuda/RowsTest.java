package dev.foldmax.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import dev.foldmax.TopK;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/**
 * Rows at the lengths where one kernel takes over from another, which are longer than the
 * contract's.
 */
class RowsTest {
  private static final List<DType> TYPES = List.of(DType.F32, DType.F16, DType.BF16);

  private static CudaBackend backend;

  @BeforeAll
  static void open() {
    backend = Gpu.open();
  }

  @AfterAll
  static void close() {
    if (backend != null) {
      backend.close();
    }
  }

  private static Tensor random(long seed, DType type, double spread, long... shape) {
    Tensor tensor = Tensor.allocate(type, shape);
    SplittableRandom random = new SplittableRandom(seed);
    for (long i = 0; i < tensor.elements(); i++) {
      tensor.setAt(i, spread * random.nextGaussian());
    }
    return tensor;
  }

  private static double[] reference(double[] row) {
    double max = Arrays.stream(row).max().orElseThrow();
    double sum = Arrays.stream(row).map(x -> Math.exp(x - max)).sum();
    return new double[] {max, sum};
  }

  /** Within some ulp of the type, and of float32 for each unit of the exponent. */
  private static void assertRight(Tensor x, Tensor softmax, Tensor logs, Tensor sums) {
    double ulp = Math.scalb(1.0, x.dtype() == DType.F32 ? -23 : x.dtype() == DType.F16 ? -10 : -7);
    double least = x.dtype() == DType.F16 ? 0x1p-24 : Float.MIN_NORMAL;
    for (int r = 0; r < x.shape(0); r++) {
      double[] row = x.slice(0, r, r + 1).toDoubleArray();
      double[] maxAndSum = reference(row);
      double lse = maxAndSum[0] + Math.log(maxAndSum[1]);
      double[] weights = softmax.slice(0, r, r + 1).toDoubleArray();
      double[] logWeights = logs.slice(0, r, r + 1).toDoubleArray();
      int wrong = 0;
      for (int i = 0; i < row.length; i++) {
        double expected = Math.exp(row[i] - maxAndSum[0]) / maxAndSum[1];
        double exponent = (8 + maxAndSum[0] - row[i]) * 0x1p-23;
        boolean isNear =
            Math.abs(weights[i] - expected) <= (exponent + 2 * ulp) * expected + least
                && Math.abs(logWeights[i] - (row[i] - lse))
                    <= (0x1p-20 + 2 * ulp) * (1 + lse - row[i]);
        wrong += isNear ? 0 : 1;
      }
      assertThat(wrong).as("elements of row %d of %s that are wrong", r, x).isZero();
      assertThat(Math.abs(sums.at(r) - lse)).as("logSumExp").isLessThan(1e-6 * (1 + lse));
    }
  }

  @TestFactory
  Stream<DynamicTest> whereKernelsTakeOver() {
    List<DynamicTest> tests = new ArrayList<>();
    for (DType type : TYPES) {
      for (int bytes = 512; bytes <= 1 << 20; bytes *= 2) {
        addBoundary(tests, type, bytes);
      }
      for (int kilobytes : new int[] {640, 768}) {
        addBoundary(tests, type, kilobytes << 10);
      }
    }
    return tests.stream();
  }

  private static void addBoundary(List<DynamicTest> tests, DType type, int bytes) {
    int boundary = bytes / type.bytes();
    for (int n : new int[] {boundary - 1, boundary, boundary + 1}) {
      tests.add(dynamicTest("%s rows of %d".formatted(type, n), () -> assertRows(type, n)));
    }
  }

  /** So many rows that a cluster has several in turn, some of which are on their way together. */
  @TestFactory
  Stream<DynamicTest> rowsInTurnAreAsRowsAlone() {
    List<DynamicTest> tests = new ArrayList<>();
    for (DType type : List.of(DType.F32, DType.BF16)) {
      for (int kilobytes : new int[] {200, 300, 512, 1024}) {
        int n = (kilobytes << 10) / type.bytes() - 3;
        tests.add(dynamicTest("%s rows of %d".formatted(type, n), () -> assertInTurn(type, n)));
      }
    }
    return tests.stream();
  }

  private static void assertInTurn(DType type, int n) {
    int rows = 200;
    Tensor x = Tensor.allocate(type, rows, n);
    for (int r = 0; r < rows; r++) {
      for (int i = 0; i < n; i++) {
        x.setAt((long) r * n + i, (i * 31L + r * 17L) % (1009 - r) * 0x1p-6);
      }
    }
    Tensor softmax = backend.softmax(x);
    for (int r = 0; r < rows; r += 11) {
      assertThat(backend.softmax(x.slice(0, r, r + 1)).toDoubleArray())
          .as("row %d", r)
          .isEqualTo(softmax.slice(0, r, r + 1).toDoubleArray());
    }
  }

  private static void assertRows(DType type, int n) {
    Tensor x = random(n, type, 3, 3, n);
    Tensor softmax = backend.softmax(x);
    Tensor logs = backend.logSoftmax(x);
    Tensor sums = backend.logSumExp(x);
    assertRight(x, softmax, logs, sums);
    Tensor row = x.slice(0, 1, 2);
    assertThat(backend.softmax(row).toDoubleArray())
        .as("a row alone")
        .isEqualTo(softmax.slice(0, 1, 2).toDoubleArray());
    assertThat(backend.logSoftmax(row).toDoubleArray())
        .isEqualTo(logs.slice(0, 1, 2).toDoubleArray());
    assertThat(backend.logSumExp(row).at(0)).isEqualTo(sums.at(1));
    backend.softmax(x, x);
    assertThat(x.toDoubleArray()).as("in place").isEqualTo(softmax.toDoubleArray());
  }

  @TestFactory
  Stream<DynamicTest> asManyLargestAsEachKernelTakes() {
    List<DynamicTest> tests = new ArrayList<>();
    for (DType type : TYPES) {
      for (int n : new int[] {600, 5000, 40_000}) {
        for (int k : new int[] {8, 9, 32, 33, 512, 513, 4096, 4097, n}) {
          if (k <= n && k <= 5000) {
            tests.add(
                dynamicTest(
                    "%d of %s rows of %d".formatted(k, type, n),
                    () -> {
                      assertLargest(random(n, type, 3, 2, n), k);
                      assertLargest(Tensor.allocate(type, 2, n), k); // all equal
                    }));
          }
        }
      }
    }
    return tests.stream();
  }

  private static void assertLargest(Tensor x, int k) {
    TopK actual = backend.topK(x, k);
    try (Backend reference = Backend.reference()) {
      TopK expected = reference.topK(x, k);
      assertThat(actual.indices().toLongArray()).isEqualTo(expected.indices().toLongArray());
      assertThat(actual.values().toDoubleArray()).isEqualTo(expected.values().toDoubleArray());
    }
  }

  /** Among all elements, what is selected in shared memory and beside it, and wide nuclei. */
  @Test
  void drawsFromLongRows() {
    Tensor x = random(5, DType.F32, 3, 20, 50_000);
    Sampling sampling = Sampling.seeded(6);
    for (Sampling each :
        List.of(
            sampling,
            sampling.topK(4096).topP(0.9),
            sampling.topK(5000).topP(0.99),
            sampling.topP(0.5),
            sampling.temperature(50).topP(0.99))) {
      long[] actual = backend.sample(x, each).toLongArray();
      long[] expected;
      try (Backend reference = Backend.reference()) {
        expected = reference.sample(x, each).toLongArray();
      }
      int differences = 0;
      for (int r = 0; r < actual.length; r++) {
        differences += actual[r] == expected[r] ? 0 : 1;
      }
      assertThat(differences).as("draws that rounding decided: %s", each).isLessThanOrEqualTo(1);
    }
  }

  /** The end of the nucleus lies among more equal elements than are sorted. */
  @Test
  void aNucleusOfEqualElementsKeepsTheLowerIndices() {
    Tensor x = Tensor.allocate(DType.BF16, 1, 100_000).expand(50, 100_000);
    long[] drawn = backend.sample(x, Sampling.seeded(1).topP(0.0001)).toLongArray();
    assertThat(Arrays.stream(drawn).min().orElseThrow()).isNotNegative();
    assertThat(Arrays.stream(drawn).max().orElseThrow()).isBetween(1L, 9L);
  }
}
