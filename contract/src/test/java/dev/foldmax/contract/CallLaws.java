package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Phase;
import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** What every call keeps: threads, interruption, closing, and words for wrong arguments. */
interface CallLaws extends Subject {
  private static Tensor f32(long... shape) {
    Tensor tensor = Tensor.allocate(DType.F32, shape);
    for (long i = 0; i < tensor.elements(); i++) {
      tensor.setAt(i, ((i * 7919) % 101) / 50.0 - 1);
    }
    return tensor;
  }

  /** Every verb, on tensors that it could have been given by a user's inner loop. */
  static Map<String, Consumer<Backend>> verbs() {
    Map<String, Consumer<Backend>> verbs = new LinkedHashMap<>();
    Tensor x = f32(24, 2000);
    Tensor rows = Tensor.allocate(DType.F32, 24, 2000);
    Tensor sums = Tensor.allocate(DType.F32, 24);
    Tensor indices = Tensor.allocate(DType.I32, 24);
    Tensor best = Tensor.allocate(DType.F32, 24, 8);
    Tensor bestIndices = Tensor.allocate(DType.I64, 24, 8);
    Tensor bestShares = Tensor.allocate(DType.F32, 24, 8);
    verbs.put("softmax", b -> b.softmax(x, rows));
    verbs.put("logSoftmax", b -> b.logSoftmax(x, rows));
    verbs.put("logSumExp", b -> b.logSumExp(x, sums));
    verbs.put("topK", b -> b.topK(x, best, bestIndices, bestShares));
    verbs.put("sample", b -> b.sample(x, Sampling.seeded(1), indices));
    verbs.put(
        "sample, filtered",
        b -> b.sample(x, Sampling.seeded(1).topK(40).topP(0.9).minP(0.01), indices));
    verbs.put("sample, top-p alone", b -> b.sample(x, Sampling.seeded(1).topP(0.9), indices));
    Tensor half = x.to(DType.F16);
    Tensor halfRows = Tensor.allocate(DType.F16, 24, 2000);
    verbs.put("softmax, F16", b -> b.softmax(half, halfRows));
    Tensor transposed = f32(2000, 24).permute(1, 0);
    verbs.put("softmax, strided", b -> b.softmax(transposed, rows));
    List<Tensor> outputs = List.of(f32(300, 64), f32(300, 64), f32(300, 64));
    List<Tensor> lses = List.of(f32(300), f32(300), f32(300));
    Tensor merged = Tensor.allocate(DType.F32, 300, 64);
    Tensor mergedLse = Tensor.allocate(DType.F32, 300);
    verbs.put("merge", b -> b.merge(outputs, lses, merged, mergedLse));
    for (Phase phase : AttentionLaws.PHASES) {
      int queries = phase == Phase.PREFILL ? 70 : 2;
      for (Problem problem :
          List.of(
              Problem.seeded(1).heads(4, 2).lengths(2, queries, 300).dims(32).causal(),
              Problem.seeded(2).heads(4, 2).lengths(2, queries, 300).dims(32).type(DType.F16),
              Problem.seeded(3)
                  .heads(4, 2)
                  .lengths(2, queries, 300)
                  .dims(32)
                  .types(DType.F32, DType.I8, DType.F32),
              Problem.seeded(4).lengths(2, queries, 150).dims(32).type(DType.F64),
              Problem.seeded(5)
                  .heads(4, 2)
                  .lengths(2, queries, 300)
                  .dims(32)
                  .bias("qk", DType.F32)
                  .booleanMask("bhk", 0.7)
                  .sinks()
                  .softCap(5))) {
        problem.phase(phase);
        Call call = Call.of(problem, Layout.PAGED_16, Memory.HEAP);
        verbs.put(
            "attend " + problem,
            b -> b.attend(call.q(), call.keyValues(), problem.attention(), call.out(), call.lse()));
      }
    }
    return verbs;
  }

  // Threads

  @Test
  default void severalThreadsMayCallAtOnce() throws Exception {
    List<Problem> problems = new ArrayList<>();
    for (int n = 0; n < 4; n++) {
      problems.add(
          Problem.seeded(n)
              .heads(4, 2)
              .lengths(1 + 30 * n, 100 + 10 * n)
              .dims(16)
              .causal()
              .type(n % 2 == 0 ? DType.F32 : DType.F16));
    }
    List<Outcome> expected = problems.stream().map(p -> run(Call.plain(p))).toList();
    Tensor x = f32(16, 333);
    double[] softmax = backend().softmax(x).toDoubleArray();
    try (ExecutorService executor = Executors.newFixedThreadPool(4)) {
      List<Future<?>> futures = new ArrayList<>();
      for (int n = 0; n < 4; n++) {
        Problem problem = problems.get(n);
        Outcome right = expected.get(n);
        futures.add(
            executor.submit(
                () -> {
                  Call call = Call.plain(problem);
                  for (int repeat = 0; repeat < 40 / thrift(); repeat++) {
                    assertThat(call.run(backend()).differenceFrom(right)).isEqualTo("none");
                    assertThat(backend().softmax(x).toDoubleArray()).isEqualTo(softmax);
                  }
                }));
      }
      for (Future<?> future : futures) {
        future.get();
      }
    }
  }

  @TestFactory
  default Stream<DynamicTest> anInterruptedCallStopsAndKeepsTheFlag() {
    return verbs().entrySet().stream()
        .map(
            verb ->
                dynamicTest(
                    verb.getKey(),
                    () -> {
                      Thread.currentThread().interrupt();
                      try {
                        assertThatExceptionOfType(CancellationException.class)
                            .isThrownBy(() -> verb.getValue().accept(backend()));
                      } finally {
                        assertThat(Thread.interrupted()).as("the flag").isTrue();
                      }
                      verb.getValue().accept(backend()); // and works again
                    }));
  }

  // Closing

  @TestFactory
  default Stream<DynamicTest> aClosedBackendRefusesEveryVerb() {
    return verbs().entrySet().stream()
        .map(
            verb ->
                dynamicTest(
                    verb.getKey(),
                    () -> {
                      Backend closed = open(2);
                      closed.close();
                      closed.close();
                      assertThatIllegalStateException()
                          .isThrownBy(() -> verb.getValue().accept(closed))
                          .withMessageContaining("closed");
                    }));
  }

  @Test
  default void aClosedBackendLeavesNoThreads() throws InterruptedException {
    List<Thread> before = helpers();
    Backend backend = open(3);
    backend.softmax(f32(100, 100));
    List<Thread> own = helpers();
    own.removeAll(before);
    backend.close();
    for (Thread thread : own) {
      thread.join(10_000);
      assertThat(thread.isAlive()).as(thread.getName()).isFalse();
    }
  }

  /** The live threads of all backends. */
  static List<Thread> helpers() {
    return new ArrayList<>(
        Thread.getAllStackTraces().keySet().stream()
            .filter(thread -> thread.getName().startsWith("foldmax-"))
            .toList());
  }

  // Wrong arguments

  /** A call that must be refused. */
  private static DynamicTest refused(
      String name, Runnable call, Tensor untouched, String... words) {
    return dynamicTest(
        name,
        () -> {
          boolean writable = !untouched.segment().isReadOnly();
          if (writable) {
            untouched.fill(5);
          }
          assertThatIllegalArgumentException()
              .isThrownBy(call::run)
              .satisfies(e -> assertThat(e.getMessage()).contains(words));
          if (writable) {
            assertThat(untouched.toDoubleArray()).containsOnly(5);
          }
        });
  }

  @TestFactory
  default Stream<DynamicTest> wrongRowsAreNamed() {
    Tensor x = f32(2, 6);
    Tensor out = f32(2, 6);
    Tensor sums = f32(2);
    Tensor integers = Tensor.allocate(DType.I32, 2);
    Tensor long3 = Tensor.allocate(DType.I64, 2, 3);
    Tensor readOnly = Tensor.of(MemorySegment.ofArray(new float[12]).asReadOnly(), DType.F32, 2, 6);
    Backend b = backend();
    return Stream.of(
        refused(
            "softmax to another shape",
            () -> b.softmax(x, sums),
            sums,
            "out",
            "F32(2, 6)",
            "F32(2)"),
        refused("softmax of integers", () -> b.softmax(integers, sums), sums, "x", "I32(2)"),
        refused(
            "softmax of a scalar",
            () -> b.softmax(Tensor.of(new float[1]), out),
            out,
            "x",
            "F32()"),
        refused(
            "softmax to read-only memory",
            () -> b.softmax(x, readOnly),
            readOnly,
            "out",
            "read-only"),
        refused(
            "softmax to one place",
            () -> b.softmax(x, f32(6).expand(2, 6)),
            out,
            "out",
            "stride 0"),
        refused(
            "logSoftmax to integers",
            () -> b.logSoftmax(f32(2), integers),
            integers,
            "out",
            "I32(2)"),
        refused("logSumExp to another shape", () -> b.logSumExp(x, out), out, "out", "F32(2, 6)"),
        refused(
            "topK of more than there are",
            () -> b.topK(x, f32(2, 7), Tensor.allocate(DType.I64, 2, 7), null),
            out,
            "values",
            "F32(2, 7)"),
        refused(
            "topK with other indices",
            () -> b.topK(x, f32(2, 2), long3, null),
            long3,
            "indices",
            "I64(2, 3)"),
        refused(
            "topK with floating indices",
            () -> b.topK(x, f32(2, 2), f32(2, 2), null),
            out,
            "indices"),
        refused(
            "topK with other probabilities",
            () -> b.topK(x, f32(2, 3), long3, f32(2, 2)),
            long3,
            "probabilities",
            "F32(2, 2)"),
        refused(
            "sample to floats",
            () -> b.sample(x, Sampling.seeded(1), sums),
            sums,
            "indices",
            "F32(2)"),
        refused(
            "merge of nothing",
            () -> b.merge(List.of(), List.of(), out, null),
            out,
            "outputs, lses"),
        refused(
            "merge of unlike numbers",
            () -> b.merge(List.of(x, x), List.of(sums), out, null),
            out,
            "outputs, lses",
            "2 and 1"),
        refused(
            "merge of another shape",
            () -> b.merge(List.of(f32(2, 5)), List.of(sums), out, null),
            out,
            "outputs",
            "F32(2, 5)"),
        refused(
            "merge of another lse",
            () -> b.merge(List.of(x), List.of(f32(3)), out, null),
            out,
            "lses",
            "F32(3)"),
        refused(
            "merge to another lse",
            () -> b.merge(List.of(x), List.of(sums), out, f32(3)),
            out,
            "lse",
            "F32(3)"));
  }

  /** Memory that is written may be no other tensor's, in part or in whole. */
  @TestFactory
  default Stream<DynamicTest> outputsThatShareMemoryAreNamed() {
    Tensor x = f32(6, 6);
    Tensor out = f32(2, 6);
    Tensor sums = f32(2);
    Tensor all = f32(5, 2, 6);
    Tensor one = all.select(0, 0);
    Tensor allSums = f32(6);
    List<Tensor> outputs = List.of(one, f32(2, 6));
    List<Tensor> lses = List.of(allSums.slice(0, 0, 2), f32(2));
    Tensor values = f32(6, 2);
    Tensor indices = Tensor.allocate(DType.I32, 6, 2);
    Tensor bits = Tensor.of(indices.segment(), DType.F32, 6, 2);
    Backend b = backend();
    return Stream.of(
        refused(
            "softmax to the transpose",
            () -> b.softmax(x, x.permute(1, 0)),
            sums,
            "out",
            "shares memory with x"),
        refused(
            "logSoftmax to the next columns",
            () -> b.logSoftmax(x.slice(1, 0, 4), x.slice(1, 1, 5)),
            sums,
            "out",
            "shares memory with x"),
        refused(
            "softmax to another type in place",
            () ->
                b.softmax(x, Tensor.strided(x.segment(), DType.F16, x.shape(), new long[] {6, 1})),
            sums,
            "out",
            "shares memory with x"),
        refused(
            "logSumExp to a column",
            () -> b.logSumExp(x, x.select(1, 3)),
            sums,
            "out",
            "shares memory with x"),
        refused(
            "softmax to rows that cross",
            () ->
                b.softmax(
                    f32(3, 4),
                    Tensor.strided(
                        f32(6).segment(), DType.F32, new long[] {3, 4}, new long[] {1, 1})),
            sums,
            "out",
            "element at two indices"),
        refused(
            "topK with values in a column",
            () -> b.topK(x, x.slice(1, 0, 2), indices, null),
            values,
            "values",
            "shares memory with x"),
        refused(
            "topK with probabilities over the indices",
            () -> b.topK(x, values, indices, bits),
            values,
            "probabilities",
            "shares memory with indices"),
        refused(
            "merge to the next partial",
            () -> b.merge(outputs, lses, all.reshape(60).slice(0, 6, 18).reshape(2, 6), null),
            sums,
            "out",
            "outputs, number 0"),
        refused(
            "merge of sums to their own output",
            () -> b.merge(outputs, lses, out, out.select(1, 2)),
            out,
            "lse",
            "shares memory with out"),
        refused(
            "merge of sums to a partial",
            () -> b.merge(outputs, lses, out, one.select(1, 2)),
            out,
            "lse",
            "outputs, number 0"),
        refused(
            "merge of sums to the next sums",
            () -> b.merge(outputs, lses, out, allSums.slice(0, 1, 3)),
            out,
            "lse",
            "lses, number 0"),
        refused(
            "merge to the sums",
            () ->
                b.merge(
                    List.of(f32(2, 3)),
                    List.of(sums),
                    allSums.reshape(2, 3),
                    allSums.slice(0, 0, 2)),
            sums,
            "lse",
            "shares memory with out"));
  }

  /** What lies between the elements of another tensor, or is empty, may be written. */
  @Test
  default void outputsMayInterleaveWithInputs() {
    Tensor x = f32(6, 8);
    double[] expected = backend().softmax(x.slice(1, 0, 4).copy()).toDoubleArray();
    backend().softmax(x.slice(1, 0, 4), x.slice(1, 4, 8));
    assertThat(x.slice(1, 4, 8).toDoubleArray()).isEqualTo(expected);

    Tensor fused = f32(5, 4, 2, 8).permute(1, 2, 0, 3); // q, k, v and out of each token, by heads
    Tensor q = fused.slice(0, 0, 1);
    Tensor k = fused.slice(0, 1, 2);
    Tensor v = fused.slice(0, 2, 3);
    double[] attended =
        backend().attend(q.copy(), k.copy(), v.copy(), Attention.causal()).toDoubleArray();
    backend().attend(q, KeyValues.dense(k, v), Attention.causal(), fused.slice(0, 3, 4), null);
    assertThat(fused.slice(0, 3, 4).toDoubleArray()).isEqualTo(attended);

    Tensor empty = Tensor.strided(x.segment(), DType.F32, new long[] {2, 3, 0, 8}, new long[4]);
    Tensor keys = f32(2, 3, 5, 8);
    backend().attend(empty, KeyValues.dense(keys, keys), Attention.standard(), empty, null);
  }

  @Test
  default void noQueryHeadsGiveNoOutput() {
    Tensor q = f32(2, 0, 3, 8);
    Tensor k = f32(2, 2, 5, 8);
    Tensor lse = f32(2, 0, 3);
    Tensor out = f32(2, 0, 3, 8);
    backend().attend(q, KeyValues.dense(k, k), Attention.causal(), out, lse);
    assertThat(backend().attend(q, k, k, Attention.standard()).shape()).containsExactly(2, 0, 3, 8);
    assertThat(backend().explain(q, KeyValues.dense(k, k), Attention.standard()).kernel())
        .isNotBlank();
  }

  @Test
  @SuppressWarnings("NullAway") // a user's code may not be checked for nulls
  default void noOutputIsNamed() {
    Tensor q = f32(1, 1, 3, 8);
    assertThatNullPointerException()
        .isThrownBy(
            () -> backend().attend(q, KeyValues.dense(q, q), Attention.causal(), null, null))
        .withMessage("out");
  }

  @TestFactory
  default Stream<DynamicTest> attentionsThatShareMemoryAreNamed() {
    Tensor q = f32(2, 2, 4, 4);
    Tensor k = f32(2, 2, 4, 4);
    KeyValues kv = KeyValues.dense(k, k);
    Attention plain = Attention.standard();
    Tensor out = f32(2, 2, 4, 4);
    Tensor lse = f32(2, 2, 4);
    Tensor turned = f32(2, 4, 2, 4).permute(0, 2, 1, 3);
    Tensor bias = out.slice(1, 0, 1);
    Tensor mask = Tensor.of(out.segment(), DType.BOOL, 4, 4);
    Tensor few = Tensor.of(out.segment(), DType.F32, 2);
    Tensor indices = Tensor.of(out.segment(), DType.I32, 2);
    Tensor bytes = Tensor.allocate(DType.I8, 2, 2, 4, 4);
    Tensor scales = Tensor.of(out.segment(), DType.F32, 2, 2, 4);
    Backend b = backend();
    return Stream.of(
            Map.<String, Runnable>entry("q", () -> b.attend(turned, kv, plain, turned, null)),
            Map.<String, Runnable>entry(
                "keys",
                () -> b.attend(q, KeyValues.dense(out.permute(0, 1, 3, 2), k), plain, out, null)),
            Map.<String, Runnable>entry(
                "values", () -> b.attend(q, KeyValues.dense(k, out), plain, out, null)),
            Map.<String, Runnable>entry(
                "keyScales",
                () ->
                    b.attend(q, KeyValues.dense(bytes, k).scales(scales, null), plain, out, null)),
            Map.<String, Runnable>entry(
                "valueScales",
                () ->
                    b.attend(q, KeyValues.dense(k, bytes).scales(null, scales), plain, out, null)),
            Map.<String, Runnable>entry(
                "lengths", () -> b.attend(q, kv.lengths(indices.slice(0, 0, 2)), plain, out, null)),
            Map.<String, Runnable>entry(
                "first",
                () ->
                    b.attend(
                        q,
                        KeyValues.ring(k, k, indices, Tensor.of(new int[2], 2)),
                        plain,
                        out,
                        null)),
            Map.<String, Runnable>entry(
                "blockTable",
                () ->
                    b.attend(
                        q,
                        KeyValues.paged(k, k, indices.reshape(2, 1), Tensor.of(new int[2], 2)),
                        plain,
                        out,
                        null)),
            Map.<String, Runnable>entry("bias", () -> b.attend(q, kv, plain.bias(bias), out, null)),
            Map.<String, Runnable>entry(
                "mask", () -> b.attend(q, kv, plain.mask(Mask.of(mask)), out, null)),
            Map.<String, Runnable>entry(
                "prefix",
                () ->
                    b.attend(
                        q, kv, plain.mask(Mask.causal().and(Mask.prefix(indices))), out, null)),
            Map.<String, Runnable>entry(
                "alibi", () -> b.attend(q, kv, plain.alibi(few), out, null)),
            Map.<String, Runnable>entry(
                "sinks", () -> b.attend(q, kv, plain.sinks(few), out, null)),
            Map.<String, Runnable>entry(
                "sinks of the lse",
                () -> b.attend(q, kv, plain.sinks(lse.select(0, 0).select(1, 0)), out, lse)))
        .map(
            entry ->
                dynamicTest(
                    entry.getKey(),
                    () -> {
                      out.fill(0);
                      String input = entry.getKey().replaceAll(" .*", "");
                      assertThatIllegalArgumentException()
                          .isThrownBy(entry.getValue()::run)
                          .withMessageContaining("shares memory with " + input + " ");
                      assertThat(out.toDoubleArray()).containsOnly(0);
                    }));
  }

  @TestFactory
  default Stream<DynamicTest> wrongAttentionsAreNamed() {
    Tensor q = f32(2, 4, 3, 8);
    Tensor k = f32(2, 2, 5, 8);
    KeyValues kv = KeyValues.dense(k, k);
    Attention plain = Attention.standard();
    Tensor out = f32(2, 4, 3, 8);
    Tensor lse = f32(2, 4, 3);
    Backend b = backend();
    List<DynamicTest> tests = new ArrayList<>();
    tests.add(
        refused(
            "other head dimension",
            () -> b.attend(f32(2, 4, 3, 7), kv, plain, out, null),
            out,
            "q",
            "F32(2, 4, 3, 7)",
            "F32(2, 2, 5, 8)"));
    tests.add(
        refused(
            "other batch",
            () -> b.attend(f32(3, 4, 3, 8), kv, plain, out, null),
            out,
            "q",
            "2 sequences",
            "F32(3, 4, 3, 8)"));
    tests.add(
        refused(
            "heads that do not divide",
            () -> b.attend(f32(2, 3, 3, 8), kv, plain, out, null),
            out,
            "q",
            "multiple",
            "F32(2, 3, 3, 8)"));
    tests.add(
        refused(
            "queries of integers",
            () -> b.attend(Tensor.allocate(DType.I32, 2, 4, 3, 8), kv, plain, out, null),
            out,
            "q",
            "I32(2, 4, 3, 8)"));
    tests.add(
        refused(
            "queries of rank 1", () -> b.attend(f32(8), kv, plain, out, null), out, "q", "F32(8)"));
    tests.add(
        refused(
            "other output",
            () -> b.attend(q, kv, plain, f32(2, 4, 3, 7), null),
            out,
            "out",
            "[2, 4, 3, 8]",
            "F32(2, 4, 3, 7)"));
    tests.add(
        refused(
            "output of integers",
            () -> b.attend(q, kv, plain, Tensor.allocate(DType.I64, 2, 4, 3, 8), null),
            out,
            "out",
            "I64(2, 4, 3, 8)"));
    tests.add(
        refused(
            "broadcast output",
            () -> b.attend(q, kv, plain, f32(4, 3, 8).expand(2, 4, 3, 8), null),
            out,
            "out",
            "stride 0"));
    tests.add(
        refused(
            "other lse",
            () -> b.attend(q, kv, plain, out, f32(2, 4)),
            out,
            "lse",
            "[2, 4, 3]",
            "F32(2, 4)"));
    tests.add(
        refused(
            "bias that does not fit",
            () -> b.attend(q, kv, plain.bias(f32(3, 4)), out, lse),
            out,
            "bias",
            "F32(3, 4)"));
    tests.add(
        refused(
            "mask that does not fit",
            () ->
                b.attend(
                    q,
                    kv,
                    plain.mask(Mask.causal().and(Mask.of(Tensor.of(new boolean[6], 1, 6)))),
                    out,
                    lse),
            out,
            "mask",
            "BOOL(1, 6)"));
    tests.add(
        refused(
            "sinks of other heads",
            () -> b.attend(q, kv, plain.sinks(f32(2)), out, lse),
            out,
            "sinks",
            "F32(2)"));
    tests.add(
        refused(
            "slopes of other heads",
            () -> b.attend(q, kv, plain.alibi(f32(3, 4)), out, lse),
            out,
            "alibi",
            "F32(3, 4)"));
    tests.add(
        refused(
            "prefixes of other sequences",
            () -> b.attend(q, kv, plain.mask(Mask.prefix(Tensor.of(new int[3], 3))), out, lse),
            out,
            "prefix",
            "I32(3)"));
    tests.add(
        refused(
            "lengths past the end",
            () -> b.attend(q, kv.lengths(Tensor.of(new int[] {5, 6}, 2)), plain, out, lse),
            out,
            "lengths",
            "entry 1 is 6"));
    tests.add(
        refused(
            "a page that is not there",
            () ->
                b.attend(
                    q,
                    KeyValues.paged(
                        k, k, Tensor.of(new int[] {0, 2}, 2, 1), Tensor.of(new int[] {1, 1}, 2)),
                    plain,
                    out,
                    lse),
            out,
            "blockTable",
            "entry (1, 0) is 2"));
    tests.add(
        refused(
            "offsets of queries past the end",
            () ->
                b.attend(
                    f32(4, 3, 8),
                    kv.queryOffsets(Tensor.of(new int[] {0, 2, 4}, 3)),
                    plain,
                    f32(4, 3, 8),
                    null),
            out,
            "queryOffsets",
            "entry 2 is 4"));
    tests.add(
        refused(
            "packed queries of rank 4",
            () -> b.attend(q, kv.queryOffsets(Tensor.of(new int[] {0, 2, 3}, 3)), plain, out, null),
            out,
            "q",
            "queryOffsets"));
    Tensor bytes = Tensor.allocate(DType.I8, 2, 2, 5, 8);
    tests.add(
        refused(
            "quantised keys without scales",
            () -> b.attend(q, KeyValues.dense(bytes, bytes), plain, out, lse),
            out,
            "keys",
            "scales"));
    tests.add(
        dynamicTest(
            "explain refuses as attend does",
            () ->
                assertThatIllegalArgumentException()
                    .isThrownBy(() -> b.explain(f32(3, 4, 3, 8), kv, plain))
                    .withMessageContaining("F32(3, 4, 3, 8)")));
    return tests.stream();
  }

  @Test
  default void explainNamesAKernel() {
    Call call = Call.plain(Problem.seeded(1).lengths(2, 5));
    assertThat(backend().explain(call.q(), call.keyValues(), call.problem().attention()).kernel())
        .isNotBlank();
    assertThat(backend().name()).isNotBlank();
    assertThat(backend().description()).isNotBlank();
  }

  /** Lower ranks are the same attention with ones in front. */
  @Test
  default void lowerRanksAreOneSequenceOrOneHead() {
    Tensor q = f32(1, 1, 3, 8);
    Tensor k = f32(1, 1, 70, 8);
    double[] expected = backend().attend(q, k, k, Attention.causal()).toDoubleArray();
    for (long[] lead : new long[][] {{}, {1}}) {
      Tensor out =
          backend()
              .attend(
                  q.reshape(concat(lead, 3, 8)),
                  k.reshape(concat(lead, 70, 8)),
                  k.reshape(concat(lead, 70, 8)),
                  Attention.causal());
      assertThat(out.shape()).containsExactly(concat(lead, 3, 8));
      assertThat(out.toDoubleArray()).isEqualTo(expected);
    }
  }

  private static long[] concat(long[] lead, long... rest) {
    long[] all = Arrays.copyOf(lead, lead.length + rest.length);
    System.arraycopy(rest, 0, all, lead.length, rest.length);
    return all;
  }
}
