package dev.foldmax.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What is timed is right: each case of the tables, made smaller, beside the reference. */
class WorkloadsTest {
  private static final int THREADS = 2;

  static Set<AttentionCase> attentions() {
    return Stream.of(Catalogue.prefill(), Catalogue.decode(), Catalogue.scores())
        .flatMap(List::stream)
        .map(WorkloadsTest::smaller)
        .collect(Collectors.toCollection(LinkedHashSet::new));
  }

  /** With lengths that no tile or vector divides. */
  private static AttentionCase smaller(AttentionCase shape) {
    int group = shape.heads() / shape.keyHeads();
    boolean window = shape.variant() == Variant.WINDOW;
    int keys = window ? AttentionCase.WINDOW + 77 : Math.min(shape.keys(), 203);
    int queries = shape.queries() == shape.keys() ? keys : Math.min(shape.queries(), 32);
    return new AttentionCase(
        2 * group, 2, queries, keys, shape.dim(), shape.storage(), shape.variant());
  }

  @ParameterizedTest
  @MethodSource("attentions")
  void attention(AttentionCase shape) {
    try (AttentionWorkload workload = new AttentionWorkload(shape, THREADS)) {
      double tolerance = shape.storage() == Storage.F64 ? 1e-13 : 3e-6;
      Tensor exact = workload.reference();

      assertClose(workload.foldmax(), exact, tolerance);
      assertClose(workload.naive(), exact, tolerance);
    }
  }

  static Set<RowCase> rows() {
    Set<RowCase> cases = new LinkedHashSet<>();
    for (RowCase shape : Catalogue.rows()) {
      cases.add(new RowCase(37, 1003, shape.dtype(), shape.verb()));
    }
    return cases;
  }

  @ParameterizedTest
  @MethodSource("rows")
  void rows(RowCase shape) {
    try (RowWorkload workload = new RowWorkload(shape, THREADS)) {
      List<Tensor> exact = workload.reference();

      assertRows(workload.foldmax(), exact);
      if (shape.verb() != RowVerb.SAMPLE) { // the naive version draws by other random numbers
        assertRows(workload.naive(), exact);
      }
    }
  }

  private static void assertRows(List<Tensor> actual, List<Tensor> exact) {
    for (int i = 0; i < exact.size(); i++) {
      if (exact.get(i).dtype().isIndex()) {
        assertThat(actual.get(i).toLongArray()).isEqualTo(exact.get(i).toLongArray());
      } else {
        // The narrow ones are probabilities below 1/32: half a unit in the last place is 2^-14.
        boolean narrow = actual.get(i).dtype() == DType.BF16;
        assertClose(actual.get(i), exact.get(i), narrow ? 0x1.01p-14 : 1e-5);
      }
    }
  }

  /** Ten thousand draws from one row fall as its probabilities say. */
  @ParameterizedTest
  @ValueSource(ints = {1, 2})
  void naiveDrawsFollowTheDistribution(int threads) {
    int rows = 10_000;
    float[] weights = {1, 2, 3, 4};
    float[] logits = new float[rows * weights.length];
    for (int i = 0; i < logits.length; i++) {
      logits[i] = (float) Math.log(weights[i % weights.length]);
    }
    long[] drawn = new long[rows];
    try (NaivePool pool = new NaivePool(threads)) {
      new NaiveRows(rows, weights.length, 1, pool).sample(new StoredRows.Floats(logits), 7, drawn);
    }
    int[] counts = new int[weights.length];
    for (long index : drawn) {
      counts[(int) index]++;
    }
    List<Integer> expected = new ArrayList<>();
    for (float weight : weights) {
      expected.add((int) (rows * weight / 10));
    }
    for (int i = 0; i < counts.length; i++) {
      assertThat(counts[i]).isBetween(expected.get(i) - 200, expected.get(i) + 200);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2})
  void merge(int threads) {
    try (MergeWorkload workload = new MergeWorkload(5, 67, 41, threads)) {
      Tensor exact = workload.reference();

      assertClose(workload.foldmax(), exact, 1e-6);
      assertClose(workload.naive(), exact, 1e-6);
    }
  }

  private static void assertClose(Tensor actual, Tensor exact, double tolerance) {
    double[] numbers = actual.toDoubleArray();
    double[] expected = exact.toDoubleArray();
    assertThat(numbers).hasSameSizeAs(expected);
    double largest = 0;
    for (int i = 0; i < numbers.length; i++) {
      assertThat(expected[i]).isFinite();
      largest = Math.max(largest, Math.abs(numbers[i] - expected[i]));
    }
    assertThat(largest).isLessThanOrEqualTo(tolerance);
  }
}
