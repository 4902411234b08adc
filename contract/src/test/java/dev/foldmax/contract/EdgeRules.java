package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.foldmax.Alignment;
import dev.foldmax.Attention;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Phase;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** The edge rules of attention: what is empty, hidden, infinite or not a number. */
interface EdgeRules extends Subject {
  double MINUS_INFINITY = Double.NEGATIVE_INFINITY;

  /** What poisons a sum even at weight 0. */
  List<Double> POISONS = List.of(Double.NaN, Double.POSITIVE_INFINITY, MINUS_INFINITY);

  private void assertRight(Problem problem) {
    Accuracy.assertRight(problem, weightType(problem), run(Call.plain(problem)));
  }

  private static void assertEmptyRow(Outcome outcome, int row) {
    assertThat(outcome.row(row)).as("output of row %d", row).containsOnly(0);
    assertThat(outcome.lse[row]).as("logsumexp of row %d", row).isEqualTo(MINUS_INFINITY);
  }

  // Nothing to see

  @TestFactory
  default Stream<DynamicTest> aRowThatSeesNothingIsEmpty() {
    List<DynamicTest> tests = new ArrayList<>();
    for (int keys : new int[] {1, 10, 64, 65, 200}) {
      for (int queries : new int[] {1, 6, 20, 67}) {
        for (int hidden = 0; hidden < queries; hidden += Math.max(1, queries / 6)) {
          Phase phase = hidden % 2 == 0 ? Phase.PREFILL : Phase.DECODE;
          boolean[] open = new boolean[queries * keys];
          Arrays.fill(open, true);
          Arrays.fill(open, hidden * keys, (hidden + 1) * keys, false);
          double[] bias = new double[queries * keys];
          Arrays.fill(bias, hidden * keys, (hidden + 1) * keys, MINUS_INFINITY);
          int row = hidden;
          Problem masked = Problem.seeded(keys).lengths(queries, keys).dims(8).phase(phase);
          Problem biased = Problem.seeded(keys).lengths(queries, keys).dims(8).phase(phase);
          for (Problem problem :
              List.of(masked.booleanMask(open), biased.bias("bias of -inf", bias))) {
            tests.add(
                dynamicTest(
                    "%s, row %d hidden".formatted(problem, hidden),
                    () -> {
                      Outcome outcome = run(Call.plain(problem));
                      assertEmptyRow(outcome, row);
                      Accuracy.assertRight(problem, weightType(problem), outcome);
                    }));
          }
        }
      }
    }
    return tests.stream();
  }

  @TestFactory
  default Stream<DynamicTest> queriesBeforeTheFirstKeyAreEmpty() {
    List<DynamicTest> tests = new ArrayList<>();
    for (int[] lengths : new int[][] {{34, 1}, {2, 1}, {70, 3}, {16, 15}, {129, 64}, {300, 65}}) {
      for (Phase phase : AttentionLaws.PHASES) {
        Problem problem =
            Problem.seeded(1).lengths(lengths[0], lengths[1]).dims(8).causal().phase(phase);
        problem.constant(0, 0, 1);
        tests.add(
            dynamicTest(
                problem.toString(),
                () -> {
                  Outcome outcome = run(Call.plain(problem));
                  int empty = lengths[0] - lengths[1];
                  for (int i = 0; i < empty; i++) {
                    assertEmptyRow(outcome, i);
                  }
                  for (int i = empty; i < lengths[0]; i++) {
                    assertThat(outcome.row(i)).containsOnly(new double[] {1}, within(1e-6));
                    assertThat(outcome.lse[i]).isCloseTo(Math.log(i - empty + 1), within(1e-6));
                  }
                }));
      }
    }
    return tests.stream();
  }

  @TestFactory
  default Stream<DynamicTest> sinksCountWhereThereIsNoKey() {
    List<DynamicTest> tests = new ArrayList<>();
    for (double sink : new double[] {0, -3.5, 100, -1e30, MINUS_INFINITY}) {
      for (int[] lengths : new int[][] {{1, 0}, {20, 0}, {5, 2}}) {
        for (Phase phase : AttentionLaws.PHASES) {
          Problem problem =
              Problem.seeded(3).lengths(lengths[0], lengths[1]).causal().sinks(sink).phase(phase);
          tests.add(
              dynamicTest(
                  "sink %s, %s".formatted(sink, problem),
                  () -> {
                    Outcome outcome = run(Call.plain(problem));
                    assertThat(outcome.row(0)).containsOnly(0);
                    assertThat(outcome.lse[0]).isEqualTo((double) (float) sink);
                    Accuracy.assertRight(problem, weightType(problem), outcome);
                  }));
        }
      }
    }
    return tests.stream();
  }

  // Whole tiles hidden

  @TestFactory
  default Stream<DynamicTest> wholeLeadingTilesMayBeHidden() {
    List<DynamicTest> tests = new ArrayList<>();
    for (int length : new int[] {150, 600, 640}) {
      for (int dim : new int[] {4, 8}) {
        double[] band = new double[length * length];
        for (int i = 0; i < length; i++) {
          for (int j = 0; j < length; j++) {
            band[i * length + j] = j > i || j < i - 10 ? MINUS_INFINITY : 0;
          }
        }
        Problem problem =
            Problem.seeded(length).lengths(length, length).dims(dim).bias("band", band);
        tests.add(dynamicTest(problem.toString(), () -> assertRight(problem)));
      }
    }
    for (int[] open : new int[][] {{515, 575}, {699, 700}, {0, 1}, {63, 65}, {128, 192}}) {
      for (int queries : new int[] {1, 3, 20}) {
        for (Phase phase : AttentionLaws.PHASES) {
          double[] bias = new double[queries * 700];
          boolean[] mask = new boolean[queries * 700];
          Arrays.fill(bias, MINUS_INFINITY);
          for (int i = 0; i < queries; i++) {
            Arrays.fill(bias, i * 700 + open[0], i * 700 + open[1], 0);
            Arrays.fill(mask, i * 700 + open[0], i * 700 + open[1], true);
          }
          String text = "keys %d..%d open".formatted(open[0], open[1] - 1);
          Problem biased = Problem.seeded(2).lengths(queries, 700).dims(4).bias(text, bias);
          Problem masked = Problem.seeded(2).lengths(queries, 700).dims(4).booleanMask(mask);
          for (Problem problem : List.of(biased.phase(phase), masked.phase(phase))) {
            tests.add(dynamicTest("%s, %s".formatted(text, problem), () -> assertRight(problem)));
          }
        }
      }
    }
    return tests.stream();
  }

  // Hidden keys

  /** Ways to hide the last keys of a row from all of its queries or from some. */
  List<UnaryOperator<Problem>> HIDING =
      List.of(
          Problem::causal,
          p -> p.causal(Alignment.TOP_LEFT),
          p -> p.window(2, 0),
          p -> p.window(70, 0),
          p -> p.prefix(2),
          p -> p.booleanMask("qk", 0.5),
          p -> p.booleanMask("k", 0.5),
          Problem::stripes,
          p -> p.stripes().causal().softCap(3),
          p -> p.causal().bias("qk", DType.F32).scoreFunction());

  /**
   * A key that a query does not see changes no bit of it, whatever it holds; one that it sees makes
   * the whole row NaN, for a poisoned key, or that component, for a poisoned value.
   */
  @TestFactory
  default Stream<DynamicTest> whatIsHiddenHasNoEffectAndNanStaysInItsRows() {
    List<DynamicTest> tests = new ArrayList<>();
    int[][] lengths = {{2, 2}, {5, 40}, {20, 70}, {1, 130}};
    for (UnaryOperator<Problem> hiding : HIDING) {
      for (int[] pair : lengths) {
        for (double poison : POISONS) {
          Phase phase = AttentionLaws.PHASES.get(tests.size() % 2);
          Problem clean = poisonable(hiding, pair, phase);
          tests.add(
              dynamicTest(
                  "%s in a key or value, %s".formatted(poison, clean),
                  () -> {
                    int keys = pair[1];
                    for (int j = 0; j < keys; j += Math.max(1, keys / 5)) {
                      Problem ofKey = poisonable(hiding, pair, phase);
                      ofKey.kOfKeyHead(0, 1)[j * ofKey.dqk() + 3] = poison;
                      assertPoisoned(clean, ofKey, j, -1);
                      Problem ofValue = poisonable(hiding, pair, phase);
                      ofValue.vOfKeyHead(0, 1)[j * ofValue.dv() + 5] = poison;
                      assertPoisoned(clean, ofValue, j, 5);
                    }
                  }));
        }
      }
    }
    return tests.stream();
  }

  private static Problem poisonable(UnaryOperator<Problem> hiding, int[] lengths, Phase phase) {
    Problem problem = Problem.seeded(11).heads(4, 2).lengths(lengths[0], lengths[1]).dims(9);
    return hiding.apply(problem).phase(phase);
  }

  /** Key j of key head 1 is poisoned: its key (component -1), or a component of its value. */
  private void assertPoisoned(Problem clean, Problem poisoned, int j, int component) {
    Outcome expected = run(Call.plain(clean));
    Outcome actual = run(Call.plain(poisoned));
    Outcome oracle = Twin.exact(poisoned);
    int row = 0;
    for (int h = 0; h < clean.queryHeads(); h++) {
      for (int i = 0; i < clean.queries(0); i++, row++) {
        boolean seen = h / clean.group() == 1 && clean.sees(0, h, i, j);
        if (!seen) {
          assertThat(actual.rows(row, row + 1).differenceFrom(expected.rows(row, row + 1)))
              .as("head %d, query %d, which does not see key %d", h, i, j)
              .isEqualTo("none");
        } else if (component < 0) {
          assertLike(oracle.rows(row, row + 1), actual.rows(row, row + 1));
        } else {
          double[] components = actual.row(row);
          assertThat(Double.isFinite(components[component]))
              .as("component %d of head %d, query %d is finite", component, h, i)
              .isFalse();
          components[component] = expected.row(row)[component];
          assertThat(components).as("other components").isEqualTo(expected.row(row));
          assertThat(actual.lse[row]).isEqualTo(expected.lse[row]);
        }
      }
    }
  }

  /** NaN where the oracle is NaN; a key of -inf times the query's sign may also hide itself. */
  private static void assertLike(Outcome oracle, Outcome actual) {
    if (Double.isNaN(oracle.lse[0])) {
      assertThat(actual.out).as("the whole row").containsOnly(Double.NaN);
      assertThat(actual.lse).containsOnly(Double.NaN);
    } else {
      assertThat(actual.out).containsExactly(oracle.out, within(1e-4));
      assertThat(actual.lse[0]).isCloseTo(oracle.lse[0], within(1e-4));
    }
  }

  @TestFactory
  default Stream<DynamicTest> aBiasOfMinusInfinityHidesTheValue() {
    List<DynamicTest> tests = new ArrayList<>();
    for (int[] pair : new int[][] {{1, 3}, {2, 65}, {18, 130}}) {
      for (double poison : POISONS) {
        for (Phase phase : AttentionLaws.PHASES) {
          tests.add(
              dynamicTest(
                  "%s in a value, (%d, %d), %s".formatted(poison, pair[0], pair[1], phase),
                  () -> {
                    for (int j = 0; j < pair[1]; j += Math.max(1, pair[1] / 7)) {
                      Problem clean = hiddenByBias(pair, j, phase);
                      Problem poisoned = hiddenByBias(pair, j, phase);
                      Arrays.fill(poisoned.vOfKeyHead(0, 0), j * 9, (j + 1) * 9, poison);
                      Outcome expected = run(Call.plain(clean));
                      Outcome actual = run(Call.plain(poisoned));
                      assertThat(actual.differenceFrom(expected)).isEqualTo("none");
                    }
                  }));
        }
      }
    }
    return tests.stream();
  }

  private static Problem hiddenByBias(int[] lengths, int hidden, Phase phase) {
    double[] bias = new double[lengths[0] * lengths[1]];
    for (int i = 0; i < lengths[0]; i++) {
      bias[i * lengths[1] + hidden] = MINUS_INFINITY;
    }
    return Problem.seeded(12)
        .lengths(lengths[0], lengths[1])
        .dims(9)
        .bias("bias of -inf", bias)
        .phase(phase);
  }

  /** The smallest input of its kind: a NaN behind a mask of two by two. */
  @Test
  default void theSmallestHiddenNan() {
    for (double poison : POISONS) {
      for (boolean inKey : new boolean[] {true, false}) {
        float[] numbers = {0, 1, 2, 3, 4, 5, 6, 7};
        float[] poisoned = numbers.clone();
        poisoned[6] = (float) poison;
        Tensor clean = Tensor.of(numbers, 1, 1, 2, 4);
        Tensor dirty = Tensor.of(poisoned, 1, 1, 2, 4);
        Mask mask = Mask.of(Tensor.of(new boolean[] {true, false, true, false}, 2, 2));
        Tensor out =
            backend()
                .attend(
                    clean,
                    inKey ? dirty : clean,
                    inKey ? clean : dirty,
                    Attention.standard().mask(mask));
        assertThat(out.toFloatArray()).containsExactly(0, 1, 2, 3, 0, 1, 2, 3);
      }
    }
  }

  // Scores that are not finite

  @TestFactory
  default Stream<DynamicTest> aNanOrInfiniteScoreMakesItsRowNanAndNoOther() {
    List<DynamicTest> tests = new ArrayList<>();
    for (int[] pair : new int[][] {{1, 1}, {3, 17}, {20, 66}, {5, 200}}) {
      for (double poison : new double[] {Double.NaN, Double.POSITIVE_INFINITY}) {
        for (UnaryOperator<Problem> dialect : AttentionLaws.DIALECTS) {
          for (Phase phase : AttentionLaws.PHASES) {
            tests.add(
                dynamicTest(
                    "bias %s, (%d, %d), %s, dialect %d"
                        .formatted(
                            poison,
                            pair[0],
                            pair[1],
                            phase,
                            AttentionLaws.DIALECTS.indexOf(dialect)),
                    () -> {
                      int step = Math.max(1, pair[1] / 9);
                      for (int j = 0; j < pair[1]; j += step) {
                        poisonedBias(pair, j, poison, dialect, phase);
                      }
                    }));
          }
        }
      }
    }
    return tests.stream();
  }

  private void poisonedBias(
      int[] lengths, int j, double poison, UnaryOperator<Problem> dialect, Phase phase) {
    int queries = lengths[0];
    int keys = lengths[1];
    int row = j % queries;
    double[] bias = new double[queries * keys];
    Outcome clean =
        run(
            Call.plain(
                dialect.apply(
                    Problem.seeded(4)
                        .lengths(queries, keys)
                        .bias("bias", bias.clone())
                        .phase(phase))));
    bias[row * keys + j] = poison;
    Outcome actual =
        run(
            Call.plain(
                dialect.apply(
                    Problem.seeded(4).lengths(queries, keys).bias("bias", bias).phase(phase))));
    for (int i = 0; i < queries; i++) {
      if (i == row) {
        assertThat(actual.row(i)).as("row %d, key %d", i, j).containsOnly(Double.NaN);
        assertThat(actual.lse[i]).as("lse of row %d, key %d", i, j).isNaN();
      } else {
        assertThat(actual.rows(i, i + 1).differenceFrom(clean.rows(i, i + 1)))
            .as("row %d beside a poisoned one", i)
            .isEqualTo("none");
      }
    }
  }

  @TestFactory
  default Stream<DynamicTest> aNanInAQueryStaysInItsRow() {
    return AttentionLaws.PHASES.stream()
        .map(
            phase ->
                dynamicTest(
                    phase.toString(),
                    () -> {
                      for (int row = 0; row < 16; row++) {
                        Problem clean = Problem.seeded(5).lengths(16, 70).dims(20).phase(phase);
                        Problem poisoned = Problem.seeded(5).lengths(16, 70).dims(20).phase(phase);
                        poisoned.q(0, 0)[row * 20 + 7] = Double.NaN;
                        Outcome expected = run(Call.plain(clean));
                        Outcome actual = run(Call.plain(poisoned));
                        assertThat(actual.row(row)).containsOnly(Double.NaN);
                        assertThat(actual.lse[row]).isNaN();
                        assertThat(actual.rows(0, row).hasBitsOf(expected.rows(0, row))).isTrue();
                        assertThat(actual.rows(row + 1, 16).hasBitsOf(expected.rows(row + 1, 16)))
                            .isTrue();
                      }
                    }));
  }

  @Test
  default void aSinkThatIsNotFiniteMakesItsHeadNan() {
    for (double sink : new double[] {Double.NaN, Double.POSITIVE_INFINITY}) {
      for (Phase phase : AttentionLaws.PHASES) {
        for (int keys : new int[] {0, 5, 100}) {
          Problem problem =
              Problem.seeded(6).heads(2, 1).lengths(3, keys).sinks(sink, 1).phase(phase);
          Outcome actual = run(Call.plain(problem));
          assertThat(actual.rows(0, 3).out).containsOnly(Double.NaN);
          assertThat(actual.rows(0, 3).lse).containsOnly(Double.NaN);
          Accuracy.assertRight(problem, weightType(problem), actual);
        }
      }
    }
  }

  // Finite scores of any size

  @TestFactory
  default Stream<DynamicTest> theLowestFiniteBiasIsAnOrdinaryNumber() {
    double lowestBf16 = -DType.bf16ToFloat((short) 0x7f7f);
    List<DynamicTest> tests = new ArrayList<>();
    for (double lowest : new double[] {-Float.MAX_VALUE, lowestBf16, -65504, -1e30}) {
      for (int[] pair : new int[][] {{1, 1}, {3, 65}, {20, 130}}) {
        for (int every = 1; every <= 3; every += 2) {
          for (UnaryOperator<Problem> dialect : AttentionLaws.DIALECTS) {
            double[] bias = new double[pair[0] * pair[1]];
            for (int i = 0; i < bias.length; i++) {
              bias[i] = i % every == 0 ? (float) lowest : 0;
            }
            Phase phase = AttentionLaws.PHASES.get(tests.size() % 2);
            Problem problem =
                dialect
                    .apply(Problem.seeded(8).lengths(pair[0], pair[1]).dims(8))
                    .bias("bias %s at every key of %d".formatted(lowest, every), bias)
                    .phase(phase);
            tests.add(dynamicTest(problem.toString(), () -> assertRight(problem)));
          }
        }
      }
    }
    return tests.stream();
  }

  @TestFactory
  default Stream<DynamicTest> largeScoresNeedNoSentinel() {
    List<DynamicTest> tests = new ArrayList<>();
    for (double level : new double[] {-1e4, -5e4, -1e5, -2.45e5, 2.45e5, 524_288}) {
      for (int keys : new int[] {64, 65, 300}) {
        for (int peak : new int[] {0, 1, 63, keys - 1}) {
          for (UnaryOperator<Problem> dialect : AttentionLaws.DIALECTS) {
            Phase phase = AttentionLaws.PHASES.get(tests.size() % 2);
            Problem problem =
                dialect.apply(Problem.seeded(9).lengths(2, keys).dims(128).scale(1)).phase(phase);
            Arrays.fill(problem.q(0, 0), 1);
            Arrays.fill(problem.kOfKeyHead(0, 0), level / 128);
            Arrays.fill(
                problem.kOfKeyHead(0, 0), peak * 128, (peak + 1) * 128, (level + 1024) / 128);
            tests.add(
                dynamicTest(
                    "scores %s, key %d above, %s".formatted(level, peak, problem),
                    () -> {
                      double[] v = problem.vOfKeyHead(0, 0);
                      double[] expected = Arrays.copyOfRange(v, peak * 128, (peak + 1) * 128);
                      Outcome outcome = run(Call.plain(problem));
                      assertThat(outcome.row(0)).containsExactly(expected, within(1e-6));
                      assertThat(outcome.row(1)).containsExactly(expected, within(1e-6));
                    }));
          }
        }
      }
    }
    return tests.stream();
  }

  @TestFactory
  default Stream<DynamicTest> headDimensionZeroGivesTheMeanOfTheValues() {
    List<DynamicTest> tests = new ArrayList<>();
    for (int[] pair : new int[][] {{1, 3}, {20, 65}, {3, 0}}) {
      for (Phase phase : AttentionLaws.PHASES) {
        Problem problem = Problem.seeded(10).lengths(pair[0], pair[1]).dims(0, 8).phase(phase);
        tests.add(dynamicTest(problem.toString(), () -> assertRight(problem)));
      }
    }
    return tests.stream();
  }

  // Which keys have weight

  @TestFactory
  default Stream<DynamicTest> aWindowShowsItsKeysAndNotOneMore() {
    List<DynamicTest> tests = new ArrayList<>();
    for (int left : new int[] {0, 1, 3, 64}) {
      for (int length : new int[] {1, 8, 70, 140}) {
        for (Phase phase : AttentionLaws.PHASES) {
          Problem problem =
              Problem.seeded(1)
                  .lengths(length, length)
                  .dims(4, length)
                  .window(left, 0)
                  .phase(phase);
          identity(problem);
          tests.add(
              dynamicTest(
                  problem.toString(),
                  () -> {
                    Outcome outcome = run(Call.plain(problem));
                    for (int i = 0; i < length; i++) {
                      int first = Math.max(0, i - left);
                      assertThat(seen(outcome.row(i)))
                          .as("keys that query %d sees", i)
                          .containsExactly(range(first, i + 1));
                    }
                  }));
        }
      }
    }
    return tests.stream();
  }

  @Test
  default void aSingleQueryUnderACausalMaskSeesOneKeyOrAll() {
    for (int keys : new int[] {16, 64, 65}) {
      for (Alignment alignment : Alignment.values()) {
        Problem problem =
            Problem.seeded(1).heads(4, 1).lengths(1, keys).dims(64, keys).causal(alignment);
        identity(problem);
        Outcome outcome = run(Call.plain(problem));
        for (int h = 0; h < 4; h++) {
          assertThat(seen(outcome.row(h)))
              .containsExactly(range(0, alignment == Alignment.TOP_LEFT ? 1 : keys));
        }
      }
    }
  }

  /** Equal scores, and values that say which key they belong to. */
  private static void identity(Problem problem) {
    problem.constant(0, 0, 0);
    for (int j = 0; j < problem.dv(); j++) {
      problem.vOfKeyHead(0, 0)[j * problem.dv() + j] = 1;
    }
  }

  private static int[] seen(double[] row) {
    return IntStream.range(0, row.length).filter(j -> row[j] != 0).toArray();
  }

  private static int[] range(int from, int to) {
    return IntStream.range(from, to).toArray();
  }

  // Far away

  @Test
  default void offsetsPastTwoToThe31Work(@TempDir Path folder) throws IOException {
    int keys = 65;
    int dim = 4;
    long stride = 1L << 25;
    try (Arena arena = Arena.ofShared()) {
      Tensor[] far = new Tensor[4];
      Problem problem = Problem.seeded(13).lengths(keys, keys).dims(dim).causal();
      for (int t = 0; t < far.length; t++) {
        far[t] = sparse(folder.resolve("sparse" + t), arena, keys, dim, stride);
      }
      for (int i = 0; i < keys; i++) {
        for (int d = 0; d < dim; d++) {
          far[0].set(problem.q(0, 0)[i * dim + d], i, d);
          far[1].set(problem.kOfKeyHead(0, 0)[i * dim + d], i, d);
          far[2].set(problem.vOfKeyHead(0, 0)[i * dim + d], i, d);
        }
      }
      backend().attend(far[0], KeyValues.dense(far[1], far[2]), problem.attention(), far[3], null);
      Outcome expected = run(Call.plain(problem));
      assertThat(far[3].toDoubleArray()).isEqualTo(expected.out);
    }
  }

  private static Tensor sparse(Path path, Arena arena, int rows, int dim, long stride)
      throws IOException {
    try (FileChannel file =
        FileChannel.open(
            path,
            StandardOpenOption.CREATE_NEW,
            StandardOpenOption.SPARSE,
            StandardOpenOption.READ,
            StandardOpenOption.WRITE)) {
      long bytes = ((rows - 1) * stride + dim) * Float.BYTES;
      MemorySegment segment = file.map(FileChannel.MapMode.READ_WRITE, 0, bytes, arena);
      return Tensor.strided(segment, DType.F32, new long[] {rows, dim}, new long[] {stride, 1});
    }
  }
}
