package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.foldmax.Alignment;
import dev.foldmax.Attention;
import dev.foldmax.AttentionPartial;
import dev.foldmax.AttentionPartial.Fold;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Phase;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.SplittableRandom;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

/**
 * Partials over parts of the keys finish to the attention over all of them: cut at cells with every
 * bit of it, cut elsewhere as accurately.
 */
interface PartialLaws extends Subject {
  /** The cell of the kernels that have one; a backend may have none. */
  int CELL = 1536;

  // Making and finishing

  private void assumeServed() {
    if (!backend().servesPartials()) {
      Call call = Call.plain(Problem.seeded(1).lengths(1, 8).dims(4));
      Tensor out = call.out();
      assertThatThrownBy(() -> partial(backend(), call, 0, 8))
          .isInstanceOf(UnsupportedOperationException.class)
          .hasMessageContaining(backend().name())
          .hasMessageContaining("partials");
      assertThatThrownBy(() -> backend().finish(List.of(), out, null))
          .isInstanceOf(UnsupportedOperationException.class);
      Assumptions.abort(backend().name() + " serves no partials");
    }
  }

  private static AttentionPartial partial(Backend backend, Call call, long begin, long end) {
    return backend.attendPartial(
        Arena.ofAuto(), call.q(), call.keyValues(), call.problem().attention(), begin, end);
  }

  /** The same where a machine holds nothing but these keys. */
  private static AttentionPartial partialOfSlice(Backend backend, Call call, long begin, long end) {
    KeyValues kv = call.keyValues();
    KeyValues held =
        KeyValues.slice(
            kv.keys().slice(2, begin, end).copy(),
            kv.values().slice(2, begin, end).copy(),
            begin,
            kv.totalKeys());
    if (kv.keyScales() != null || kv.valueScales() != null) {
      held = held.scales(part(kv.keyScales(), begin, end), part(kv.valueScales(), begin, end));
    }
    return backend.attendPartial(
        Arena.ofAuto(), call.q(), held, call.problem().attention(), begin, end);
  }

  private static @Nullable Tensor part(@Nullable Tensor scales, long begin, long end) {
    return scales == null ? null : scales.slice(2, begin, end);
  }

  private static Outcome finish(Backend backend, Call call, List<AttentionPartial> partials) {
    Tensor out = Tensor.allocate(call.problem().outType(), call.out().shape());
    Tensor lse = Tensor.allocate(call.lse().dtype(), call.lse().shape());
    backend.finish(partials, out, lse);
    return call.read(out, lse);
  }

  /** Where to cut keys: 0, the total, and multiples of the unit between them. */
  private static long[] cuts(long total, int parts, long unit, SplittableRandom random) {
    long[] all = new long[parts + 1];
    all[parts] = total;
    for (int i = 1; i < parts; i++) {
      all[i] = random.nextLong(Math.ceilDiv(total, unit)) * unit;
    }
    return Arrays.stream(all).sorted().distinct().toArray();
  }

  // Laws

  /** A definition for each number, for a problem whose lengths are known. */
  private static Problem define(Problem problem, int n) {
    return switch (n % 9) {
      case 0 -> problem;
      case 1 -> problem.causal();
      case 2 -> problem.window(2500, 0).sinks();
      case 3 -> problem.softCap(5).causal();
      case 4 -> problem.alibi(n % 2 == 0, Alignment.BOTTOM_RIGHT).causal();
      case 5 -> problem.bias("hqk", DType.F32).booleanMask("qk", 0.4);
      case 6 -> problem.sinks().lazy(4).scale(-0.7);
      case 7 -> problem.prefix(1700).scoreFunction();
      default -> problem.stripes().sinks().alibi(false, Alignment.TOP_LEFT);
    };
  }

  private List<Problem> problems(int most) {
    List<Problem> problems = new ArrayList<>();
    int[] keys = {6000, 4 * CELL, 1536, 9300, 700, 3100, 8 * CELL};
    for (DType[] types : AttentionLaws.TYPES) {
      for (Phase phase : AttentionLaws.PHASES) {
        for (int group = 1; group <= 2; group++) {
          int n = problems.size();
          int queries = phase == Phase.DECODE ? 1 + n % 3 : 20 + n;
          Problem problem =
              Problem.seeded(n)
                  .types(types[0], types[1], types[2])
                  .heads(2, 3 - group)
                  .lengths(1 + n % 2, queries, Math.min(most, keys[n % keys.length]))
                  .dims(8 + n % 5, 12 - n % 3)
                  .phase(phase);
          problems.add(define(problem, n));
        }
      }
    }
    return problems;
  }

  @TestFactory
  default Stream<DynamicTest> cutAtCellsTheyHaveTheBitsOfOneCall() {
    assumeServed();
    return problems(Integer.MAX_VALUE).stream()
        .map(problem -> dynamicTest(problem.toString(), () -> cutAtCells(problem)));
  }

  private void cutAtCells(Problem problem) {
    Call call = Call.plain(problem);
    long cell = partial(backend(), call, 0, 1).fold().cellKeys();
    Assumptions.assumeTrue(cell > 0, "a backend without cells promises no bits");
    assertThat(cell).isEqualTo(CELL);
    Outcome expected = run(call);
    SplittableRandom random = new SplittableRandom(problem.seed());
    try (Backend one = open(1);
        Backend three = open(3)) {
      List<Backend> backends = List.of(one, backend(), three);
      for (int parts : new int[] {1 + (int) problem.seed() % 5, 5}) {
        long[] cuts = cuts(problem.keys(0), parts, CELL, random);
        List<AttentionPartial> partials = new ArrayList<>();
        for (int i = 1; i < cuts.length; i++) {
          Backend backend = backends.get((i + parts) % 3);
          partials.add(
              i % 2 == 0
                  ? partial(backend, call, cuts[i - 1], cuts[i])
                  : partialOfSlice(backend, call, cuts[i - 1], cuts[i]));
        }
        Collections.shuffle(partials, new Random(parts));
        assertThat(finish(backends.get(parts % 3), call, partials).differenceFrom(expected))
            .as("%s of %d", Arrays.toString(cuts), problem.keys(0))
            .isEqualTo("none");
      }
    }
  }

  @TestFactory
  default Stream<DynamicTest> cutAnywhereTheyAreAsAccurateAsOneCall() {
    assumeServed();
    return problems(CELL + 500 / thrift()).stream()
        .map(problem -> dynamicTest(problem.toString(), () -> cutAnywhere(problem)));
  }

  private void cutAnywhere(Problem problem) {
    Assumptions.assumeTrue(problem.work() <= mostWork(), "too many multiply-adds");
    Call call = Call.plain(problem);
    SplittableRandom random = new SplittableRandom(problem.seed());
    long[] cuts = cuts(problem.keys(0), 5, 1, random);
    List<AttentionPartial> partials = new ArrayList<>();
    for (int i = 1; i < cuts.length; i++) {
      partials.add(
          i % 2 == 0
              ? partial(backend(), call, cuts[i - 1], cuts[i])
              : partialOfSlice(backend(), call, cuts[i - 1], cuts[i]));
    }
    Collections.shuffle(partials, new Random(7));
    Outcome merged = finish(backend(), call, partials);
    Accuracy.assertRight(problem, weightType(problem), merged);
  }

  /** Keys that no query sees, before and after those that some see, leave empty states. */
  @Test
  default void partsThatNoQuerySees() {
    assumeServed();
    SplittableRandom random = new SplittableRandom(11);
    for (int n = 0; n < 240; n++) {
      boolean small = n % 3 != 0;
      int queries = n % 4 == 0 ? 1 + random.nextInt(30) : 1 + random.nextInt(3);
      int keys = queries + random.nextInt(small ? 90 : CELL + 500);
      Problem problem =
          Problem.seeded(n)
              .type(AttentionLaws.TYPES.get(n % AttentionLaws.TYPES.size())[0])
              .heads(2, 1 + n % 2)
              .lengths(1, queries, keys)
              .dims(3)
              .phase(n % 2 == 0 ? Phase.DECODE : Phase.PREFILL);
      Problem masked =
          switch (n / 2 % 4) {
            case 0 -> problem.causal(Alignment.TOP_LEFT);
            case 1 -> problem.window(random.nextInt(20), 0);
            case 2 -> problem.window(3, random.nextInt(5), Alignment.TOP_LEFT).sinks();
            default -> problem.causal().window(1 + random.nextInt(keys), 0);
          };
      Call call = Call.plain(masked);
      long[] cuts = cuts(keys, 2 + random.nextInt(5), 1, random);
      List<AttentionPartial> partials = new ArrayList<>();
      for (int i = 1; i < cuts.length; i++) {
        partials.add(partial(backend(), call, cuts[i - 1], cuts[i]));
      }
      Outcome merged = finish(backend(), call, partials);
      Accuracy.assertRight(masked, weightType(masked), merged);
    }
  }

  @Test
  default void aPartThatNoQuerySeesIsEmpty() {
    assumeServed();
    for (DType type : List.of(DType.F32, DType.F64)) {
      for (Phase phase : AttentionLaws.PHASES) {
        Problem problem = Problem.seeded(1).type(type).dims(1).phase(phase);
        assertEmpty(problem.lengths(1, 1, 5).causal(Alignment.TOP_LEFT), 2, 3);
        Problem window = Problem.seeded(1).type(type).dims(1).phase(phase);
        assertEmpty(window.lengths(1, 1, 10_000).causal().window(4096, 0), 0, 5880);
      }
    }
  }

  private void assertEmpty(Problem problem, long begin, long end) {
    AttentionPartial partial = partial(backend(), Call.plain(problem), begin, end);
    for (long i = 0; i < partial.maxima().elements(); i++) {
      assertThat(partial.maxima().at(i)).isEqualTo(Double.NEGATIVE_INFINITY);
      assertThat(partial.sums().at(i)).isZero();
    }
    assertThat(partial.keyEnd()).isEqualTo(end);
  }

  /** Not finite in one part, be its weight beside the others 0: so it is in the whole. */
  @Test
  default void notFiniteThoughItsWeightUnderflows() {
    assumeServed();
    double nan = Double.NaN;
    double inf = Double.POSITIVE_INFINITY;
    for (DType type : List.of(DType.F32, DType.F64)) {
      for (Phase phase : AttentionLaws.PHASES) {
        Problem problem = Problem.seeded(1).type(type).dims(1).lengths(1, 1, 4).phase(phase);
        assertNotFinite(problem, new double[] {nan, 1000, 1000, 1000}, new double[4], true);
        assertNotFinite(problem, new double[] {1000, 1000, 1000, nan}, new double[4], true);
        assertNotFinite(problem, new double[] {inf, 1e4, 1e4, 1e4}, new double[4], true);
        double[] keys = {-5000, -5000, 5000, 5000};
        for (double bad : new double[] {nan, inf, -inf}) {
          assertNotFinite(problem, keys, new double[] {bad, 1, 1, 1}, false);
          assertNotFinite(problem, keys, new double[] {1, 1, 1, bad}, false);
        }
      }
    }
  }

  private void assertNotFinite(Problem problem, double[] keys, double[] values, boolean lseToo) {
    Call call = Call.plain(problem.scale(1));
    call.q().fill(1);
    for (int j = 0; j < keys.length; j++) {
      call.keyValues().keys().set(keys[j], 0, 0, j, 0);
      call.keyValues().values().set(values[j], 0, 0, j, 0);
    }
    Outcome single = run(call);
    for (long cut = 1; cut < keys.length; cut++) {
      Outcome merged =
          finish(
              backend(),
              call,
              List.of(
                  partial(backend(), call, 0, cut), partial(backend(), call, cut, keys.length)));
      for (Outcome outcome : List.of(single, merged)) {
        assertThat(outcome.row(0)[0]).matches(x -> !Double.isFinite(x), "not finite");
        assertThat(Double.isNaN(outcome.lse[0])).isEqualTo(lseToo);
      }
    }
  }

  /** Without queries, or without sequences, there are no states, and nothing is written. */
  @Test
  default void nothingToAttendFor() {
    assumeServed();
    for (DType type : List.of(DType.F32, DType.F64)) {
      for (long[] sizes : new long[][] {{1, 0}, {2, 0}, {0, 3}, {0, 0}}) {
        Tensor q = Tensor.allocate(type, sizes[0], 2, sizes[1], 4);
        Tensor keys = Tensor.allocate(type, sizes[0], 1, 9, 4);
        Tensor out = Tensor.allocate(type, q.shape());
        backend().attend(q, KeyValues.dense(keys, keys), Attention.standard(), out, null);
        assertNothing(q, KeyValues.dense(keys, keys), out);
        assertNothing(q, KeyValues.slice(keys, keys, 0, 9), out);
      }
    }
  }

  private void assertNothing(Tensor q, KeyValues keyValues, Tensor out) {
    List<AttentionPartial> partials = new ArrayList<>();
    for (long[] range : new long[][] {{0, 4}, {4, 9}}) {
      AttentionPartial partial =
          backend()
              .attendPartial(
                  Arena.ofAuto(), q, keyValues, Attention.standard(), range[0], range[1]);
      assertThat(partial.maxima().elements()).isZero();
      partials.add(AttentionPartial.of(partial.metadata(), partial.tensors()));
    }
    backend().finish(partials, out, null);
  }

  /** Positions may be any: the last there are, too. */
  @Test
  default void theLastPositionsThereAre() {
    assumeServed();
    long total = Long.MAX_VALUE;
    Tensor q = Tensor.of(new float[] {1}, 1, 1, 1, 1);
    Tensor keys = Tensor.of(new float[] {1, 1, 1, 1, 1}, 1, 1, 5, 1);
    KeyValues held = KeyValues.slice(keys, keys, total - 5, total);
    Tensor out = Tensor.allocate(DType.F32, 1, 1, 1, 1);
    for (Attention attention : List.of(Attention.standard(), Attention.causal())) {
      AttentionPartial partial =
          backend().attendPartial(Arena.ofAuto(), q, held, attention, total - 5, total);
      backend().finishPart(List.of(partial), out, null);
      assertThat(out.toFloatArray()).containsExactly(1);
    }
    assertThatThrownBy(
            () ->
                backend()
                    .attendPartial(Arena.ofAuto(), q, held, Attention.standard(), 0, total - 1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("0.." + (total - 1));
  }

  /** Whatever the keys lie in, and however many each sequence has. */
  @TestFactory
  default Stream<DynamicTest> anyLayout() {
    assumeServed();
    List<DynamicTest> tests = new ArrayList<>();
    for (Phase phase : AttentionLaws.PHASES) {
      for (Layout layout : Layout.values()) {
        Problem problem =
            layout == Layout.DENSE
                ? Problem.seeded(3).lengths(2, 2, 3700)
                : Problem.seeded(3).ragged(new int[] {3, 20, 1}, new int[] {3700, 40, 1600});
        problem = problem.heads(2, 1).dims(6).causal().sinks().phase(phase);
        Problem whole = layout.isRing() ? problem.firstKey(1000) : problem;
        tests.add(dynamicTest("%s, %s".formatted(whole, layout), () -> anyLayout(whole, layout)));
      }
    }
    return tests.stream();
  }

  private void anyLayout(Problem problem, Layout layout) {
    Assumptions.assumeTrue(problem.work() <= mostWork(), "too many multiply-adds");
    Call call = Call.packed(problem, layout, Memory.HEAP);
    long end = call.keyValues().totalKeys();
    List<AttentionPartial> partials =
        List.of(
            partial(backend(), call, CELL, 2 * CELL),
            partial(backend(), call, 2 * CELL, end),
            partial(backend(), call, 0, CELL));
    Outcome merged = finish(backend(), call, partials);
    if (partials.getFirst().fold().cellKeys() > 0) {
      assertThat(merged.differenceFrom(run(call))).isEqualTo("none");
    }
    Accuracy.assertRight(problem, weightType(problem), merged);
  }

  /** A value that is hidden stays hidden, and one that is visible spoils its own rows alone. */
  @Test
  default void nanWhereItIsHidden() {
    assumeServed();
    for (Phase phase : AttentionLaws.PHASES) {
      int keys = 2 * CELL + 10;
      Problem problem = Problem.seeded(5).heads(2, 1).lengths(4, keys).dims(4).causal();
      Call call = Call.plain(problem.phase(phase));
      call.keyValues().values().set(Double.NaN, 0, 0, keys - 3, 2);
      call.keyValues().keys().set(Double.NaN, 0, 0, keys - 1, 0);
      Outcome expected = run(call);
      Outcome merged =
          finish(
              backend(),
              call,
              List.of(partial(backend(), call, CELL, keys), partial(backend(), call, 0, CELL)));
      if (partial(backend(), call, 0, CELL).fold().cellKeys() > 0) {
        assertThat(merged.differenceFrom(expected)).isEqualTo("none");
      }
      for (int row = 0; row < 8; row++) {
        double[] out = merged.row(row);
        assertThat(Double.isNaN(out[2])).isEqualTo(row % 4 >= 1);
        assertThat(Double.isNaN(out[0])).isEqualTo(row % 4 == 3);
      }
    }
  }

  /**
   * Keys outside of the range are not touched: the file in which they lie is mapped, and then cut
   * off, so that the JVM would say so.
   */
  @Test
  @EnabledOnOs(OS.LINUX)
  default void keysOutsideAreNotRead(@TempDir Path folder) throws IOException {
    assumeServed();
    long held = 256;
    long rows = 1 << 14;
    int dim = 16;
    Path file = folder.resolve("keys");
    try (FileChannel channel =
            FileChannel.open(
                file,
                StandardOpenOption.CREATE,
                StandardOpenOption.READ,
                StandardOpenOption.WRITE);
        Arena arena = Arena.ofShared()) {
      Tensor keys =
          Tensor.of(
              channel.map(FileChannel.MapMode.READ_WRITE, 0, rows * dim * Float.BYTES, arena),
              DType.F32,
              rows,
              dim);
      keys.slice(0, 0, held).fill(0.5);
      channel.truncate(held * dim * Float.BYTES);
      KeyValues kv = KeyValues.dense(keys, keys);
      Tensor q = Tensor.of(new float[2 * dim], 2, dim);
      Tensor out = Tensor.allocate(DType.F32, 2, dim);
      AttentionPartial partial =
          backend().attendPartial(arena, q, kv, Attention.standard(), 0, held);
      backend().finishPart(List.of(partial), out, null);
      assertThat(out.toFloatArray()).containsOnly(0.5f);
      assertThatThrownBy(
              () -> backend().attendPartial(arena, q, kv, Attention.standard(), held, rows))
          .isInstanceOf(InternalError.class);
    }
  }

  /** Finished parts are merged as those of other systems are; one of them has the sinks. */
  @TestFactory
  default Stream<DynamicTest> finishedPartsMerge() {
    assumeServed();
    return problems(CELL + 500 / thrift()).stream()
        .limit(16)
        .map(problem -> dynamicTest(problem.toString(), () -> finishedPartsMerge(problem)));
  }

  private void finishedPartsMerge(Problem problem) {
    Assumptions.assumeTrue(problem.work() <= mostWork(), "too many multiply-adds");
    Call call = Call.plain(problem);
    long keys = problem.keys(0);
    long[] cuts = {0, keys / 5, keys / 2, keys};
    List<Tensor> outputs = new ArrayList<>();
    List<Tensor> lses = new ArrayList<>();
    for (int i = 1; i < cuts.length; i++) {
      Tensor out = Tensor.allocate(problem.outType(), call.out().shape());
      Tensor lse = Tensor.allocate(call.lse().dtype(), call.lse().shape());
      backend().finishPart(List.of(partial(backend(), call, cuts[i - 1], cuts[i])), out, lse);
      outputs.add(out);
      lses.add(lse);
    }
    Tensor out = Tensor.allocate(problem.outType(), call.out().shape());
    Tensor lse = Tensor.allocate(call.lse().dtype(), call.lse().shape());
    backend().merge(outputs, lses, out, lse);
    Accuracy.assertRight(problem, weightType(problem), call.read(out, lse));
  }

  // Refusals

  private static Problem small() {
    return Problem.seeded(9).heads(2, 1).lengths(3, 40).dims(8).causal().sinks();
  }

  private void assertRefused(List<AttentionPartial> partials, String... words) {
    Call call = Call.plain(small());
    assertThatThrownBy(() -> finish(backend(), call, partials))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContainingAll(words);
  }

  @Test
  default void everyKeyOnce() {
    assumeServed();
    Call call = Call.plain(small());
    AttentionPartial a = partial(backend(), call, 0, 10);
    AttentionPartial b = partial(backend(), call, 10, 25);
    AttentionPartial c = partial(backend(), call, 25, 40);
    assertRefused(List.of(a, c), "10..25", "in no part");
    assertRefused(List.of(b, c), "0..10", "in no part");
    assertRefused(List.of(b, a), "25..40", "in no part");
    assertRefused(List.of(a, b, c, b), "partials[3]", "10..25", "partials[1]");
    assertRefused(
        List.of(a, partial(backend(), call, 8, 25), c), "partials[1]", "8..25", "partials[0]");
    assertRefused(List.of(), "at least one");
    assertThat(finish(backend(), call, List.of(c, a, b)).lse).doesNotContain(Double.NaN);
  }

  @Test
  default void oneAttention() {
    assumeServed();
    Call call = Call.plain(small());
    AttentionPartial a = partial(backend(), call, 0, 10);
    Attention own = call.problem().attention();
    Map<String, Attention> others = new LinkedHashMap<>();
    others.put("scale", own.scale(2));
    others.put("mask", own.mask(Mask.none()));
    others.put("softCap", own.softCap(3));
    others.put("bias", own.bias(Tensor.allocate(DType.F32, 40)));
    others.put("alibi", own.alibi(Tensor.allocate(DType.F32, 2)));
    others.put("sinks", own.sinks(null));
    others.put("rescale", own.lazyRescale(3));
    others.put("phase", own.phase(Phase.PREFILL));
    others.put("scoreFunction", own.scoreFunction(tile -> {}));
    others.forEach(
        (what, other) ->
            assertRefused(
                List.of(
                    a,
                    backend()
                        .attendPartial(Arena.ofAuto(), call.q(), call.keyValues(), other, 10, 40)),
                "partials[1]",
                "partials[0]",
                what));
    Tensor q = call.q().copy();
    q.set(9, 0, 0, 0, 0);
    assertRefused(
        List.of(a, backend().attendPartial(Arena.ofAuto(), q, call.keyValues(), own, 10, 40)),
        "partials[1]",
        "q is");
    Call longer = Call.plain(small().lengths(3, 41));
    assertRefused(List.of(a, partial(backend(), longer, 10, 41)), "41 keys");
  }

  /** States of another version of the backend are refused, though all partials agree. */
  @Test
  default void foldsOfOthers() {
    assumeServed();
    Call call = Call.plain(small());
    AttentionPartial whole = partial(backend(), call, 0, 40);
    Fold own = whole.fold();
    long cell = own.cellKeys();
    assertForeign(
        whole,
        new Fold("other", own.family(), own.version(), cell, own.vectorBits(), own.unit()),
        "backend other");
    for (String family : List.of("float16 Z", own.family() + " and float16 Z")) {
      assertForeign(
          whole,
          new Fold(own.backend(), family, own.version(), cell, own.vectorBits(), own.unit()),
          "family of kernels '" + family + "'");
    }
    for (int version : new int[] {own.version() - 1, own.version() + 1}) {
      assertForeign(
          whole,
          new Fold(own.backend(), own.family(), version, cell, own.vectorBits(), own.unit()),
          "version is " + version);
    }
    for (long other : new long[] {0, 2 * CELL, 64}) {
      if (other != cell) {
        assertForeign(
            whole,
            new Fold(
                own.backend(), own.family(), own.version(), other, own.vectorBits(), own.unit()),
            "keys of a cell is " + other);
      }
    }
    backend().finish(List.of(whole), call.out(), null);
  }

  private void assertForeign(AttentionPartial partial, Fold fold, String words) {
    AttentionPartial foreign =
        new AttentionPartial(
            partial.definition(),
            fold,
            partial.totalKeys(),
            partial.pieces(),
            partial.maxima(),
            partial.sums(),
            partial.outputs(),
            partial.sinks());
    assertRefused(List.of(foreign), words, backend().name());
  }

  @Test
  default void keysThatAreHeld() {
    assumeServed();
    Call call = Call.plain(small());
    for (long[] range : new long[][] {{-1, 4}, {5, 5}, {7, 6}, {0, 41}, {40, 50}}) {
      assertThatThrownBy(() -> partial(backend(), call, range[0], range[1]))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContainingAll("keys", "0..40", range[0] + ".." + range[1]);
    }
    KeyValues kv = call.keyValues();
    KeyValues slice =
        KeyValues.slice(kv.keys().slice(2, 10, 20), kv.values().slice(2, 10, 20), 10, 40);
    Attention attention = call.problem().attention();
    assertThatThrownBy(
            () -> backend().attendPartial(Arena.ofAuto(), call.q(), slice, attention, 9, 20))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContainingAll("10..20", "9..20");
    assertThatThrownBy(() -> backend().attend(call.q(), slice, attention, call.out(), null))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContainingAll("all 40", "10..20");
  }

  @Test
  default void aClosedBackendRefusesPartials() {
    assumeServed();
    Call call = Call.plain(small());
    AttentionPartial whole = partial(backend(), call, 0, 40);
    Backend closed = open(2);
    closed.close();
    assertThatThrownBy(() -> partial(closed, call, 0, 40))
        .isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(() -> finish(closed, call, List.of(whole)))
        .isInstanceOf(IllegalStateException.class);
  }

  @Test
  default void resultsOfTheRightShape() {
    assumeServed();
    Call call = Call.plain(small());
    List<AttentionPartial> partials = List.of(partial(backend(), call, 0, 40));
    Tensor out = Tensor.allocate(DType.F32, 1, 2, 3, 8);
    Tensor lse = Tensor.allocate(DType.F32, 1, 2, 3);
    backend().finish(partials, out, lse);
    assertThatThrownBy(() -> backend().finish(partials, lse, null))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContainingAll("out", "[1, 2, 3, 8]", "F32(1, 2, 3)");
    assertThatThrownBy(() -> backend().finish(partials, out, out))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContainingAll("lse", "[1, 2, 3]");
    Tensor states = partials.getFirst().outputs();
    assertThatThrownBy(() -> backend().finish(partials, states.select(0, 0), lse))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContainingAll("out", "weighted");
  }

  // Transport

  @Test
  default void aPartialThatWasSentIsTheSame() {
    assumeServed();
    Call call = Call.plain(small());
    AttentionPartial a = partial(backend(), call, 0, 10);
    AttentionPartial b = partial(backend(), call, 10, 40);
    AttentionPartial sent = AttentionPartial.of(b.metadata(), b.tensors());
    assertThat(sent.definition()).isEqualTo(b.definition());
    assertThat(sent.fold()).isEqualTo(b.fold());
    assertThat(sent.pieces()).isEqualTo(b.pieces());
    assertThat(
            finish(backend(), call, List.of(sent, a))
                .differenceFrom(finish(backend(), call, List.of(a, b))))
        .isEqualTo("none");
  }

  @Test
  default void whatWasAlteredIsRefused() {
    assumeServed();
    AttentionPartial partial = partial(backend(), Call.plain(small()), 10, 40);
    Map<String, String> metadata = partial.metadata();
    for (String name : metadata.keySet()) {
      Map<String, String> altered = new HashMap<>(metadata);
      altered.merge(name, "1", String::concat);
      assertAltered(altered, partial.tensors());
      altered.remove(name);
      assertAltered(altered, partial.tensors());
    }
    partial
        .tensors()
        .forEach(
            (name, tensor) -> {
              LongStream.of(0, tensor.elements() - 1)
                  .forEach(
                      i -> {
                        Map<String, Tensor> altered = new HashMap<>(partial.tensors());
                        Tensor copy = tensor.copy();
                        copy.setAt(i, copy.at(i) == 1 ? 2 : 1);
                        altered.put(name, copy);
                        assertAltered(metadata, altered);
                      });
              Map<String, Tensor> without = new HashMap<>(partial.tensors());
              without.remove(name);
              assertAltered(metadata, without);
            });
  }

  private static void assertAltered(Map<String, String> metadata, Map<String, Tensor> tensors) {
    assertThatThrownBy(() -> AttentionPartial.of(metadata, tensors))
        .isInstanceOf(IllegalArgumentException.class);
  }
}
