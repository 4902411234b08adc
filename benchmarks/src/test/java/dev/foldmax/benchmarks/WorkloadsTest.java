package dev.foldmax.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What is timed is right: each case of the tables, made smaller, by each contender that is present
 * beside the reference.
 */
class WorkloadsTest {
  private static final int THREADS = 2;

  @TestFactory
  Stream<DynamicTest> attention() {
    Set<AttentionCase> cases =
        Stream.of(Catalogue.prefill(), Catalogue.decode(), Catalogue.scores())
            .flatMap(List::stream)
            .map(WorkloadsTest::smaller)
            .collect(Collectors.toCollection(LinkedHashSet::new));
    return cases.stream()
        .map(
            shape ->
                dynamicTest(
                    shape.label(), () -> assertRight(shape, toleranceOf(shape.queryType()))));
  }

  /** With lengths that no tile or vector divides. */
  private static AttentionCase smaller(AttentionCase shape) {
    int group = shape.heads() / shape.keyHeads();
    boolean window = shape.variant() == Variant.WINDOW;
    int keys = window ? AttentionCase.WINDOW + 77 : Math.min(shape.keys(), 203);
    int queries = shape.queries() == shape.keys() ? keys : Math.min(shape.queries(), 32);
    return shape.heads(2 * group, 2).lengths(queries, keys);
  }

  /** Outputs are averages of numbers of variance 1, the widest of a single one. */
  private static double toleranceOf(DType dtype) {
    return switch (dtype) {
      case F64 -> 1e-13;
      case F32 -> 3e-6;
      case F16 -> 0x1p-10; // half a unit in the last place of numbers below 2
      case BF16 -> 0x1p-7;
      case I8, BOOL, I32, I64 -> throw new IllegalArgumentException("dtype: " + dtype);
    };
  }

  @TestFactory
  Stream<DynamicTest> rows() {
    Set<RowCase> cases = new LinkedHashSet<>();
    for (RowCase shape : Catalogue.rows()) {
      cases.add(new RowCase(37, 1003, shape.dtype(), shape.verb()));
    }
    return cases.stream()
        .map(shape -> dynamicTest(shape.label(), () -> assertRight(shape, toleranceOf(shape))));
  }

  private static double toleranceOf(RowCase shape) {
    if (shape.verb() == RowVerb.SOFTMAX) { // probabilities below 1/32
      return switch (shape.dtype()) {
        case BF16 -> 0x1.01p-14;
        case F16 -> 0x1.01p-17;
        default -> 1e-6;
      };
    }
    return switch (shape.dtype()) { // logarithms below 32 in size
      case BF16 -> 0x1.01p-4;
      case F16 -> 0x1.01p-7;
      default -> 1e-5;
    };
  }

  @TestFactory
  Stream<DynamicTest> merge() {
    MergeCase shape = new MergeCase(5, 67, 41);
    return Stream.of(dynamicTest(shape.label(), () -> assertRight(shape, 1e-6)));
  }

  private static void assertRight(Case shape, double tolerance) {
    Inputs inputs = Inputs.of(shape);
    List<Tensor> exact = inputs.reference();
    for (Contender contender : PeerLibraries.here().contenders()) {
      // The naive version draws by other random numbers.
      boolean draws = shape instanceof RowCase rows && rows.verb() == RowVerb.SAMPLE;
      if (!contender.supports(shape) || (draws && contender == Contender.NAIVE)) {
        continue;
      }
      try (Computation computation = contender.prepare(inputs, THREADS)) {
        computation.run();
        List<Tensor> outputs = computation.run(); // the second: what a first one left is no harm
        assertThat(outputs).as(contender.label()).isNotEmpty();
        // What comes out of native code in 16 bits may have been rounded to them before.
        double most = contender.isNative() ? 2 * tolerance : tolerance;
        for (int i = 0; i < outputs.size(); i++) {
          assertClose(contender, outputs.get(i), exact.get(i), most);
        }
      }
    }
  }

  private static void assertClose(
      Contender contender, Tensor actual, Tensor exact, double tolerance) {
    double[] numbers = actual.toDoubleArray();
    double[] expected = exact.toDoubleArray();
    assertThat(numbers).as(contender.label()).hasSameSizeAs(expected);
    double largest = 0;
    for (int i = 0; i < numbers.length; i++) {
      assertThat(expected[i]).isFinite();
      double error = Math.abs(numbers[i] - expected[i]);
      largest = Double.isNaN(error) ? error : Math.max(largest, error);
    }
    assertThat(largest)
        .as("largest error of %s", contender.label())
        .isLessThanOrEqualTo(exact.dtype().isIndex() ? 0 : tolerance);
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
}
