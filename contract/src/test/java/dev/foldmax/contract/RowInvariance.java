package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.foldmax.Alignment;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Phase;
import dev.foldmax.Rescale;
import dev.foldmax.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** A row's bits depend on its own query, keys and values and the definition, on nothing else. */
interface RowInvariance extends Subject {
  private void assertSame(Outcome actual, Outcome expected, String what) {
    assertThat(actual.differenceFrom(expected)).as(what).isEqualTo("none");
  }

  /** Problems of each phase and type, with and without a mask. */
  private List<Problem> problems() {
    List<Problem> problems = new ArrayList<>();
    for (DType[] types : AttentionLaws.TYPES) {
      for (Phase phase : AttentionLaws.PHASES) {
        Problem problem =
            Problem.seeded(problems.size())
                .types(types[0], types[1], types[2])
                .heads(4, 2)
                .lengths(3, 12, 150)
                .dims(20, 24)
                .phase(phase);
        problems.add(problems.size() % 4 < 2 ? problem : problem.causal().softCap(10));
      }
    }
    return problems;
  }

  // Threads

  @TestFactory
  default Stream<DynamicTest> anyNumberOfThreads() {
    List<Problem> problems = new ArrayList<>(problems());
    for (Phase phase : AttentionLaws.PHASES) {
      problems.add(Problem.seeded(31).heads(2, 1).lengths(1, 4097).dims(16).phase(phase));
      problems.add(Problem.seeded(32).heads(2, 1).lengths(130, 700).dims(16).phase(phase));
      problems.add(
          Problem.seeded(33)
              .ragged(new int[] {1, 40, 3, 0}, new int[] {1500, 70, 0, 9})
              .dims(16)
              .causal()
              .phase(phase));
    }
    return problems.stream()
        .map(problem -> dynamicTest(problem.toString(), () -> anyNumberOfThreads(problem)));
  }

  private void anyNumberOfThreads(Problem problem) {
    Call call = Call.plain(problem);
    Outcome expected;
    try (Backend one = open(1)) {
      expected = run(one, call);
    }
    for (int threads = 2; threads <= 3; threads++) {
      try (Backend several = open(threads)) {
        for (int repeat = 0; repeat < 3; repeat++) {
          assertSame(run(several, call), expected, threads + " threads");
        }
      }
    }
    try (ExecutorService executor = Executors.newFixedThreadPool(2);
        Backend borrowed = open(executor, 3)) {
      assertSame(run(borrowed, call), expected, "an executor");
    }
  }

  // Company

  @TestFactory
  default Stream<DynamicTest> aSequenceAloneOrInABatch() {
    return problems().stream()
        .map(
            problem ->
                dynamicTest(
                    problem.toString(),
                    () -> {
                      Outcome together = run(Call.plain(problem));
                      int rows = problem.rows() / problem.batch();
                      for (int b = 0; b < problem.batch(); b++) {
                        assertSame(
                            run(Call.plain(problem.sequence(b))),
                            together.rows(b * rows, (b + 1) * rows),
                            "sequence " + b);
                      }
                    }));
  }

  /**
   * A query head may have another family of kernels for decoding where it has a key head for itself
   * than where it shares one; see {@link Phase}.
   */
  @TestFactory
  default Stream<DynamicTest> aHeadAloneOrBesideOthers() {
    return problems().stream()
        .map(problem -> problem.sequence(0))
        .map(problem -> dynamicTest(problem.toString(), () -> aHeadAloneOrBesideOthers(problem)));
  }

  private void aHeadAloneOrBesideOthers(Problem problem) {
    Outcome together = run(Call.plain(problem));
    int rows = problem.queries(0);
    for (int h = 0; h < problem.queryHeads(); h++) {
      if (problem.isFloat64() || problem.attention().phase() == Phase.PREFILL) {
        assertSame(
            run(Call.plain(problem.head(h))), together.rows(h * rows, (h + 1) * rows), "head " + h);
      }
    }
    int group = problem.group();
    for (int kh = 0; kh < problem.keyHeads(); kh++) {
      assertSame(
          run(Call.plain(problem.keyHead(kh))),
          together.rows(kh * group * rows, (kh + 1) * group * rows),
          "key head " + kh);
    }
  }

  @TestFactory
  default Stream<DynamicTest> aQueryAloneOrBesideOthersOrInAnotherOrder() {
    List<DynamicTest> tests = new ArrayList<>();
    for (DType[] types : AttentionLaws.TYPES) {
      for (Phase phase : AttentionLaws.PHASES) {
        for (int queries : new int[] {16, 70}) {
          Problem problem =
              Problem.seeded(queries)
                  .types(types[0], types[1], types[2])
                  .lengths(queries, 200)
                  .dims(33)
                  .phase(phase);
          tests.add(dynamicTest(problem.toString(), () -> aloneOrBesideOthers(problem)));
        }
      }
    }
    return tests.stream();
  }

  private void aloneOrBesideOthers(Problem problem) {
    int queries = problem.queries(0);
    Outcome together = run(Call.plain(problem));
    for (int i = 0; i < queries; i++) {
      assertSame(
          run(Call.plain(problem.queryOrder(i))), together.rows(i, i + 1), "query " + i + " alone");
    }
    List<Integer> order = new ArrayList<>(IntStream.range(0, queries).boxed().toList());
    Collections.shuffle(order, new Random(queries));
    int[] shuffled = order.stream().mapToInt(Integer::intValue).toArray();
    Outcome reordered = run(Call.plain(problem.queryOrder(shuffled)));
    for (int i = 0; i < queries; i++) {
      assertSame(
          reordered.rows(i, i + 1),
          together.rows(shuffled[i], shuffled[i] + 1),
          "query " + shuffled[i] + " at place " + i);
    }
  }

  /** A prompt in one call, in chunks, and in single tokens, as caches fill up. */
  @TestFactory
  default Stream<DynamicTest> aPromptInChunks() {
    int length = 1500 / (thrift() * thrift());
    List<DynamicTest> tests = new ArrayList<>();
    for (int variant = 0; variant < 6; variant++) {
      DType[] types = AttentionLaws.TYPES.get(variant);
      Problem problem =
          Problem.seeded(variant)
              .types(types[0], types[1], types[2])
              .heads(2, 1)
              .lengths(length, length)
              .dims(16)
              .phase(Phase.PREFILL);
      problem =
          switch (variant % 3) {
            case 0 -> problem.causal();
            case 1 -> problem.window(100, 0);
            default -> problem.causal().rescale(Rescale.LAZY).softCap(20);
          };
      Problem whole = problem;
      for (double[] cuts : new double[][] {{0.683}, {0.165, 0.848}, {0.001, 0.5, 0.501, 0.999}}) {
        tests.add(
            dynamicTest(
                "%s, %d chunks".formatted(whole, cuts.length + 1), () -> chunks(whole, cuts)));
      }
    }
    return tests.stream();
  }

  private void chunks(Problem whole, double[] cuts) {
    int length = whole.queries(0);
    Outcome expected = run(Call.plain(whole));
    try (Backend one = open(1)) {
      for (int n = 0; n <= cuts.length; n++) {
        int from = n == 0 ? 0 : (int) (cuts[n - 1] * length) + 1;
        int to = n == cuts.length ? length : (int) (cuts[n] * length) + 1;
        Problem chunk = whole.part(from, to, to);
        Call call = Call.plain(chunk);
        for (Backend backend : List.of(one, backend())) {
          Outcome actual = run(backend, call);
          for (int h = 0; h < 2; h++) {
            assertSame(
                actual.rows(h * (to - from), (h + 1) * (to - from)),
                expected.rows(h * length + from, h * length + to),
                "queries %d..%d of head %d".formatted(from, to, h));
          }
        }
      }
    }
  }

  // Places

  @TestFactory
  default Stream<DynamicTest> anyLayoutAndMemory() {
    List<DynamicTest> tests = new ArrayList<>();
    for (Problem problem : problems()) {
      for (Layout layout : Layout.values()) {
        Memory memory = List.of(Memory.values()).get(tests.size() % Memory.values().length);
        tests.add(
            dynamicTest(
                "%s, %s in %s".formatted(problem, layout, memory),
                () -> {
                  Outcome expected = run(Call.plain(problem));
                  assertSame(run(Call.of(problem, layout, memory)), expected, "laid out");
                  assertSame(run(Call.packed(problem, layout, memory)), expected, "packed");
                }));
      }
      for (Memory memory : Memory.values()) {
        tests.add(
            dynamicTest(
                "%s, DENSE in %s".formatted(problem, memory),
                () ->
                    assertSame(
                        run(Call.of(problem, Layout.DENSE, memory)),
                        run(Call.plain(problem)),
                        "laid out")));
      }
    }
    return tests.stream();
  }

  @Test
  default void pagesAnywhere() {
    for (Layout layout : new Layout[] {Layout.PAGED_1, Layout.PAGED_3, Layout.PAGED_16}) {
      for (Phase phase : AttentionLaws.PHASES) {
        Problem problem = Problem.seeded(1).lengths(2, 5, 200).dims(8).causal().phase(phase);
        Outcome expected = run(Call.plain(problem));
        for (int placement = 0; placement < 5; placement++) {
          assertSame(run(Call.placed(problem, layout, placement)), expected, layout.toString());
        }
      }
    }
  }

  /** The same positions in rings of other capacities, and so wrapped elsewhere. */
  @Test
  default void ringsWrappedElsewhere() {
    for (Phase phase : AttentionLaws.PHASES) {
      for (int first = 0; first < 40; first++) {
        Problem problem =
            Problem.seeded(1).lengths(2, 5, 90).firstKey(first).dims(8).causal().phase(phase);
        assertSame(
            run(Call.of(problem, Layout.RING_FULL, Memory.HEAP)),
            run(Call.of(problem, Layout.RING, Memory.HEAP)),
            "first key " + first);
      }
    }
  }

  /** Keys, values and queries that repeat by stride 0 are as good as copies. */
  @Test
  default void broadcastInputs() {
    for (Phase phase : AttentionLaws.PHASES) {
      Problem problem = Problem.seeded(2).lengths(20, 70).dims(12).phase(phase);
      Call one = Call.plain(problem);
      Outcome expected = run(one);
      Tensor q = one.q().expand(3, 4, 20, 12);
      KeyValues kv =
          KeyValues.dense(
              one.keyValues().keys().expand(3, 4, 70, 12),
              one.keyValues().values().expand(3, 4, 70, 12));
      double[] out = backend().attend(q, kv, problem.attention()).toDoubleArray();
      for (int copy = 0; copy < 12; copy++) {
        double[] part = Arrays.copyOfRange(out, copy * 240, (copy + 1) * 240);
        assertThat(part).as("copy %d", copy).isEqualTo(expected.out);
      }
      Tensor oneKey = one.keyValues().keys().slice(2, 0, 1);
      Tensor oneValue = one.keyValues().values().slice(2, 0, 1);
      Tensor mean =
          backend()
              .attend(
                  one.q(),
                  oneKey.expand(1, 1, 70, 12),
                  oneValue.expand(1, 1, 70, 12),
                  problem.attention());
      Tensor copied =
          backend()
              .attend(
                  one.q(),
                  oneKey.expand(1, 1, 70, 12).copy(),
                  oneValue.expand(1, 1, 70, 12).copy(),
                  problem.attention());
      assertThat(mean.toFloatArray()).isEqualTo(copied.toFloatArray());
    }
  }

  /** How a mask is expressed changes no bit of a row whose first visible key is the first. */
  @Test
  default void anyExpressionOfTheSameMask() {
    for (Phase phase : AttentionLaws.PHASES) {
      for (int[] pair : new int[][] {{16, 16}, {70, 70}, {5, 130}}) {
        Problem causal = masked(pair, phase).causal();
        boolean[] open = new boolean[pair[0] * pair[1]];
        for (int i = 0; i < pair[0]; i++) {
          for (int j = 0; j < pair[1]; j++) {
            open[i * pair[1] + j] = j <= i + pair[1] - pair[0];
          }
        }
        Outcome expected = run(Call.plain(causal));
        assertSame(
            run(Call.plain(masked(pair, phase).booleanMask(open))), expected, "boolean mask");
        assertSame(
            run(Call.plain(masked(pair, phase).window(Mask.UNBOUNDED, 0))), expected, "window");
        assertSame(
            run(Call.plain(masked(pair, phase).causal().window(1000, 1000))), expected, "both");
        assertSame(run(Call.plain(masked(pair, phase).prefix(0))), expected, "prefix 0");
        if (pair[0] == pair[1]) {
          assertSame(
              run(Call.plain(masked(pair, phase).causal(Alignment.TOP_LEFT))),
              expected,
              "top-left");
        }
      }
    }
  }

  private static Problem masked(int[] lengths, Phase phase) {
    return Problem.seeded(3).lengths(lengths[0], lengths[1]).dims(17).phase(phase);
  }

  // Time

  /** The first run, interpreted, and later ones, compiled, give the same bits. */
  @TestFactory
  default Stream<DynamicTest> runsNumberOneAndTenThousand() {
    int runs = 10_000 / (thrift() * thrift());
    return AttentionLaws.PHASES.stream()
        .flatMap(
            phase ->
                Stream.of(
                    Problem.seeded(1).lengths(2, 9).dims(10).causal().phase(phase),
                    Problem.seeded(2)
                        .lengths(3, 20)
                        .dims(16)
                        .type(DType.F16)
                        .softCap(4)
                        .phase(phase)))
        .map(
            problem ->
                dynamicTest(
                    "%s, %d runs".formatted(problem, runs),
                    () -> {
                      Call call = Call.plain(problem);
                      Outcome first = run(call);
                      for (int n = 1; n < runs; n++) {
                        backend()
                            .attend(
                                call.q(),
                                call.keyValues(),
                                problem.attention(),
                                call.out(),
                                call.lse());
                        assertSame(call.read(call.out(), call.lse()), first, "run " + n);
                      }
                    }));
  }
}
