package dev.foldmax.contract;

import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.foldmax.Alignment;
import dev.foldmax.Attention;
import dev.foldmax.DType;
import dev.foldmax.Mask;
import dev.foldmax.Phase;
import dev.foldmax.Rescale;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Attention is right: for every shape, type, layout, memory and definition, and as accurate. */
interface AttentionLaws extends Subject {
  /** Sizes around every tile that a kernel might cut by. */
  List<Integer> AROUND_TILES =
      List.of(
          1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 95, 96, 97, 127, 128,
          129, 191, 192, 193, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025);

  List<Phase> PHASES = List.of(Phase.PREFILL, Phase.DECODE);

  /** The float types with what they are stored and computed as: queries, keys, output. */
  List<DType[]> TYPES =
      List.of(
          new DType[] {DType.F32, DType.F32, DType.F32},
          new DType[] {DType.F16, DType.F16, DType.F16},
          new DType[] {DType.BF16, DType.BF16, DType.BF16},
          new DType[] {DType.F64, DType.F64, DType.F64},
          new DType[] {DType.F32, DType.F16, DType.F32},
          new DType[] {DType.F32, DType.I8, DType.F32},
          new DType[] {DType.BF16, DType.I8, DType.BF16},
          new DType[] {DType.F16, DType.F32, DType.F64},
          new DType[] {DType.F32, DType.F64, DType.F16});

  private DynamicTest right(Problem problem, Layout layout, Memory memory) {
    return dynamicTest(
        "%s, %s in %s".formatted(problem, layout, memory),
        () ->
            Accuracy.assertRight(
                problem, weightType(problem), run(Call.of(problem, layout, memory))));
  }

  private DynamicTest right(Problem problem) {
    return dynamicTest(
        problem.toString(),
        () -> Accuracy.assertRight(problem, weightType(problem), run(Call.plain(problem))));
  }

  // Shapes

  @TestFactory
  default Stream<DynamicTest> everyHeadDimension() {
    List<DynamicTest> tests = new ArrayList<>();
    int[] dims = {
      1, 2, 3, 4, 8, 15, 16, 17, 32, 33, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256
    };
    for (int dim : dims) {
      for (Phase phase : PHASES) {
        tests.add(right(Problem.seeded(dim).dims(dim).lengths(5, 37).heads(2, 1).phase(phase)));
      }
    }
    for (int[] pair : new int[][] {{192, 128}, {1, 64}, {64, 1}, {17, 33}, {3, 256}}) {
      for (Phase phase : PHASES) {
        tests.add(
            right(
                Problem.seeded(7).dims(pair[0], pair[1]).lengths(18, 67).heads(2, 2).phase(phase)));
      }
    }
    return tests.stream();
  }

  @TestFactory
  default Stream<DynamicTest> everyNumberOfKeys() {
    List<DynamicTest> tests = new ArrayList<>();
    for (int keys : AROUND_TILES) {
      tests.add(right(Problem.seeded(keys).dims(8).lengths(1, keys).heads(4, 2)));
      tests.add(
          right(Problem.seeded(keys).dims(8).lengths(17, keys).causal().phase(Phase.PREFILL)));
      tests.add(right(Problem.seeded(keys).dims(20).lengths(3, keys).type(DType.F16).softCap(3)));
    }
    tests.add(right(Problem.seeded(4097).dims(16).lengths(1, 4097).heads(2, 1)));
    tests.add(right(Problem.seeded(4097).dims(16).lengths(20, 4097)));
    tests.add(right(Problem.seeded(9000).dims(4).lengths(2, 9000).causal()));
    return tests.stream();
  }

  @TestFactory
  default Stream<DynamicTest> everyNumberOfQueries() {
    List<DynamicTest> tests = new ArrayList<>();
    for (int queries : AROUND_TILES) {
      tests.add(right(Problem.seeded(queries).dims(8).lengths(queries, 33)));
      tests.add(right(Problem.seeded(queries).dims(2).lengths(queries, queries).causal()));
    }
    for (int queries = 1; queries <= 20; queries++) {
      for (Phase phase : PHASES) {
        tests.add(
            right(Problem.seeded(queries).dims(12).lengths(queries, 70).heads(6, 2).phase(phase)));
      }
    }
    return tests.stream();
  }

  @TestFactory
  default Stream<DynamicTest> awkwardPairsOfLengths() {
    int[][] pairs = {
      {1, 147},
      {113, 203},
      {128, 217},
      {108, 256},
      {256, 512},
      {512, 256},
      {1023, 1024},
      {1024, 1023},
      {3, 799},
      {799, 3},
      {0, 5},
      {5, 0},
      {0, 0}
    };
    List<DynamicTest> tests = new ArrayList<>();
    for (int[] pair : pairs) {
      tests.add(right(Problem.seeded(pair[0]).dims(32).lengths(pair[0], pair[1])));
      tests.add(right(Problem.seeded(pair[1]).dims(64).lengths(pair[0], pair[1]).causal()));
    }
    return tests.stream();
  }

  @TestFactory
  default Stream<DynamicTest> groupedHeads() {
    List<DynamicTest> tests = new ArrayList<>();
    int[][] heads = {
      {1, 1}, {2, 1}, {3, 1}, {4, 2}, {8, 1}, {9, 3}, {12, 4}, {16, 2}, {17, 1}, {32, 8}
    };
    for (int[] pair : heads) {
      for (Phase phase : PHASES) {
        tests.add(
            right(
                Problem.seeded(pair[0])
                    .heads(pair[0], pair[1])
                    .lengths(2, 7, 35)
                    .dims(16)
                    .causal()
                    .phase(phase)));
      }
    }
    return tests.stream();
  }

  // Types

  @TestFactory
  default Stream<DynamicTest> everyCombinationOfTypes() {
    List<DynamicTest> tests = new ArrayList<>();
    DType[] floats = {DType.F32, DType.F16, DType.BF16, DType.F64};
    for (DType ofQueries : floats) {
      for (DType ofKeys : new DType[] {DType.F32, DType.F16, DType.BF16, DType.F64, DType.I8}) {
        for (DType ofOutput : floats) {
          for (Phase phase : PHASES) {
            tests.add(
                right(
                    Problem.seeded(tests.size())
                        .types(ofQueries, ofKeys, ofOutput)
                        .heads(2, 1)
                        .lengths(5, 69)
                        .dims(24)
                        .phase(phase)));
          }
        }
      }
    }
    return tests.stream();
  }

  // Layouts and memory

  @TestFactory
  default Stream<DynamicTest> everyLayoutInEveryMemory() {
    List<DynamicTest> tests = new ArrayList<>();
    for (Layout layout : Layout.values()) {
      for (Memory memory : Memory.values()) {
        for (Phase phase : PHASES) {
          DType[] types = TYPES.get(tests.size() % TYPES.size());
          Problem problem =
              Problem.seeded(tests.size())
                  .types(types[0], types[1], types[2])
                  .heads(4, 2)
                  .lengths(2, 6, 41)
                  .dims(20, 12)
                  .causal()
                  .phase(phase);
          tests.add(right(problem, layout, memory));
        }
      }
    }
    return tests.stream();
  }

  @TestFactory
  default Stream<DynamicTest> sequencesOfDifferentLengths() {
    int[][][] lengths = {
      {{0, 1, 0, 1}, {0, 3, 0, 5}},
      {{1, 1, 1}, {0, 1, 65}},
      {{5, 5, 5}, {5, 64, 131}},
      {{3, 0, 40, 1}, {17, 9, 3, 0}},
      {{1, 18, 2}, {129, 18, 2}},
      {{}, {}}
    };
    List<DynamicTest> tests = new ArrayList<>();
    for (int[][] pair : lengths) {
      for (Layout layout : Layout.values()) {
        int[] heads = tests.size() % 2 == 0 ? new int[] {9, 3} : new int[] {2, 2};
        Problem problem =
            Problem.seeded(tests.size())
                .heads(heads[0], heads[1])
                .ragged(pair[0], pair[1])
                .dims(tests.size() % 3 == 0 ? 64 : 10)
                .causal();
        boolean emptyRing = layout == Layout.RING_FULL && pair[1].length == 0;
        if (layout.holds(problem) && !emptyRing) {
          tests.add(right(problem, layout, Memory.HEAP));
          tests.add(
              dynamicTest(
                  "%s, %s, packed queries".formatted(problem, layout),
                  () ->
                      Accuracy.assertRight(
                          problem,
                          weightType(problem),
                          run(Call.packed(problem, layout, Memory.SLICED)))));
        }
      }
    }
    return tests.stream();
  }

  @TestFactory
  default Stream<DynamicTest> ringsWrappedAtEveryOffset() {
    List<DynamicTest> tests = new ArrayList<>();
    for (int first = 0; first < 24; first++) {
      for (Layout layout : new Layout[] {Layout.RING, Layout.RING_FULL}) {
        UnaryOperator<Problem> definition = FEATURES.get(tests.size() % FEATURES.size());
        Problem problem =
            Problem.seeded(first).heads(2, 1).lengths(2, 3, 19).firstKey(first).dims(8);
        tests.add(right(definition.apply(problem), layout, Memory.HEAP));
      }
    }
    for (int first : new int[] {63, 64, 65, 1000, 1 << 20}) {
      tests.add(
          right(
              Problem.seeded(first).lengths(20, 150).firstKey(first).dims(8).window(64, 0),
              Layout.RING_FULL,
              Memory.NATIVE));
    }
    return tests.stream();
  }

  // Definitions

  /** Everything that a definition may hold. */
  List<UnaryOperator<Problem>> FEATURES =
      List.of(
          p -> p,
          Problem::causal,
          p -> p.causal(Alignment.TOP_LEFT),
          p -> p.window(0, 0),
          p -> p.window(3, 0),
          p -> p.window(64, 2),
          p -> p.window(1, Mask.UNBOUNDED),
          p -> p.window(Mask.UNBOUNDED, 1),
          p -> p.window(5, 5, Alignment.TOP_LEFT),
          p -> p.prefix(0),
          p -> p.prefix(7),
          p -> p.prefix(1000),
          p -> p.booleanMask("qk", 0.5),
          p -> p.booleanMask("bhqk", 0.8),
          p -> p.booleanMask("k", 0.5),
          p -> p.booleanMask("q", 0.5),
          p -> p.booleanMask("bk", 0.7),
          p -> p.booleanMask("hk", 0.02),
          Problem::stripes,
          p -> p.causal().stripes(),
          p -> p.window(20, 0).booleanMask("qk", 0.5).stripes(),
          p -> p.causal().prefix(3),
          p -> p.softCap(0.5),
          p -> p.softCap(30).causal(),
          p -> p.scale(0),
          p -> p.scale(-0.7),
          p -> p.scale(3),
          p -> p.bias("bhqk", DType.F32),
          p -> p.bias("qk", DType.F16),
          p -> p.bias("q", DType.F32),
          p -> p.bias("k", DType.BF16),
          p -> p.bias("bk", DType.F32).causal(),
          p -> p.bias("h", DType.F64),
          p -> p.bias("bhk", DType.F32).softCap(2),
          p -> p.alibi(false, Alignment.BOTTOM_RIGHT).causal(),
          p -> p.alibi(false, Alignment.TOP_LEFT),
          p -> p.alibi(true, Alignment.BOTTOM_RIGHT),
          Problem::sinks,
          p -> p.sinks().window(2, 0),
          Problem::scoreFunction,
          p -> p.scoreFunction().causal().sinks(),
          p -> p.rescale(Rescale.ALWAYS).causal(),
          p -> p.rescale(Rescale.ON_NEW_MAX).sinks(),
          p -> p.rescale(Rescale.LAZY).bias("qk", DType.F32),
          p -> p.lazy(0),
          p -> p.lazy(20).softCap(4),
          p ->
              p.softCap(5)
                  .bias("hqk", DType.F32)
                  .alibi(false, Alignment.BOTTOM_RIGHT)
                  .scoreFunction()
                  .sinks()
                  .causal()
                  .booleanMask("bk", 0.9));

  @TestFactory
  default Stream<DynamicTest> everyDefinition() {
    int[][] lengths = {{1, 65}, {17, 129}, {40, 33}, {3, 300}};
    List<DynamicTest> tests = new ArrayList<>();
    for (UnaryOperator<Problem> feature : FEATURES) {
      for (int[] pair : lengths) {
        Phase phase = PHASES.get(tests.size() % 2);
        DType[] types = TYPES.get(tests.size() % TYPES.size());
        Problem problem =
            Problem.seeded(tests.size())
                .types(types[0], types[1], types[2])
                .heads(4, 2)
                .lengths(2, pair[0], pair[1])
                .dims(16);
        tests.add(right(feature.apply(problem).phase(phase)));
        tests.add(
            right(
                feature.apply(
                    Problem.seeded(tests.size()).heads(2, 2).lengths(pair[0], pair[1]).dims(40))));
      }
    }
    return tests.stream();
  }

  /** Any definition in any layout, memory and type: seeded. */
  @TestFactory
  default Stream<DynamicTest> anyCombination() {
    List<DynamicTest> tests = new ArrayList<>();
    for (int seed = 0; seed < 300 / thrift(); seed++) {
      SplittableRandom random = new SplittableRandom(seed);
      int batch = 1 + random.nextInt(3);
      int[] queries = new int[batch];
      int[] keys = new int[batch];
      int sameQueries = 1 + random.nextInt(random.nextBoolean() ? 4 : 70);
      boolean ragged = random.nextBoolean();
      for (int b = 0; b < batch; b++) {
        queries[b] = ragged ? random.nextInt(30) : sameQueries;
        keys[b] = ragged || b == 0 ? random.nextInt(random.nextInt(4) == 0 ? 300 : 60) : keys[0];
      }
      int keyHeads = 1 + random.nextInt(3);
      DType[] types = TYPES.get(random.nextInt(TYPES.size()));
      Layout layout = pick(random, Layout.values());
      Problem problem =
          Problem.seeded(seed)
              .types(types[0], types[1], types[2])
              .heads(keyHeads * (1 + random.nextInt(4)), keyHeads)
              .ragged(queries, keys)
              .dims(1 + random.nextInt(40), 1 + random.nextInt(40))
              .magnitude(Math.scalb(1.0, random.nextInt(5) - 2));
      if (layout.isRing()) {
        problem.firstKey(random.nextInt(200));
      }
      problem = FEATURES.get(random.nextInt(FEATURES.size())).apply(problem);
      if (random.nextBoolean()) {
        problem.phase(PHASES.get(random.nextInt(2)));
      }
      if (random.nextBoolean()) {
        problem.rescale(pick(random, Rescale.values()));
      }
      boolean emptyRing = layout == Layout.RING_FULL && problem.keysAtMost() == 0;
      if (layout.holds(problem) && !emptyRing) {
        tests.add(right(problem, layout, pick(random, Memory.values())));
      }
    }
    return tests.stream();
  }

  private static <T> T pick(SplittableRandom random, T[] all) {
    return all[random.nextInt(all.length)];
  }

  // Accuracy

  @TestFactory
  default Stream<DynamicTest> accuracyOverSeededSets() {
    List<DynamicTest> tests = new ArrayList<>();
    for (DType[] types : TYPES) {
      if (types[0] == DType.F64 || types[1] == DType.F64) {
        continue; // the oracle is no better than float64 itself
      }
      for (double magnitude : new double[] {0.1, 1, 4}) {
        for (Phase phase : PHASES) {
          tests.add(
              dynamicTest(
                  "%s %s %s, magnitude %s, %s"
                      .formatted(types[0], types[1], types[2], magnitude, phase),
                  () -> accuracy(types, magnitude, phase)));
        }
      }
    }
    return tests.stream();
  }

  private void accuracy(DType[] types, double magnitude, Phase phase) {
    Accuracy set = new Accuracy();
    int seed = 0;
    for (int[] shape : new int[][] {{24, 100, 64}, {8, 500, 64}, {40, 61, 96}, {12, 350, 33}}) {
      Problem problem =
          Problem.seeded(seed++)
              .types(types[0], types[1], types[2])
              .magnitude(magnitude)
              .heads(4, 2)
              .lengths(shape[0], shape[1])
              .dims(shape[2])
              .phase(phase);
      set.add(problem, weightType(problem), run(Call.plain(problem)));
      Problem causal =
          Problem.seeded(seed++)
              .types(types[0], types[1], types[2])
              .magnitude(magnitude)
              .lengths(shape[0], shape[1])
              .dims(shape[2])
              .causal()
              .phase(phase);
      set.add(causal, weightType(causal), run(Call.plain(causal)));
    }
    set.assertLaw();
  }

  @TestFactory
  default Stream<DynamicTest> accuracyOfLongRows() {
    return PHASES.stream()
        .map(
            phase ->
                dynamicTest(
                    phase.toString(),
                    () -> {
                      Accuracy set = new Accuracy();
                      for (int seed = 0; seed < 3; seed++) {
                        Problem problem =
                            Problem.seeded(seed).heads(8, 2).lengths(8, 3000).dims(64).phase(phase);
                        set.add(problem, weightType(problem), run(Call.plain(problem)));
                      }
                      set.assertLaw();
                    }));
  }

  /** The dialects, and the backend's own choice. */
  List<UnaryOperator<Problem>> DIALECTS =
      List.of(
          p -> p,
          p -> p.rescale(Rescale.ALWAYS),
          p -> p.rescale(Rescale.ON_NEW_MAX),
          p -> p.lazy(Attention.DEFAULT_TAU));

  /** Scores that agree in all dialects: rising by a little less, and a little more, than tau. */
  @TestFactory
  default Stream<DynamicTest> theDialectsAgreeOnRisingScores() {
    List<DynamicTest> tests = new ArrayList<>();
    for (DType type : new DType[] {DType.F32, DType.F16, DType.BF16}) {
      for (double step : new double[] {7.9, 8.1}) {
        for (int tile : new int[] {1, 16, 64, 100}) {
          for (Phase phase : PHASES) {
            for (UnaryOperator<Problem> dialect : DIALECTS) {
              int keys = 41 * tile;
              double[] bias = new double[keys];
              for (int j = 0; j < keys; j++) {
                int n = j / tile;
                bias[j] = (float) ((n < 40 ? n * step : 40 * step - 200) * Math.log(2));
              }
              Problem problem =
                  Problem.seeded(tile).type(type).lengths(1, keys).dims(8).bias("rising", bias);
              tests.add(right(dialect.apply(problem).phase(phase)));
            }
          }
        }
      }
    }
    return tests.stream();
  }
}
