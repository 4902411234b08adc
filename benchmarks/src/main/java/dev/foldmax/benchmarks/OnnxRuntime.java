package dev.foldmax.benchmarks;

import static dev.foldmax.DType.F32;
import static dev.foldmax.DType.I32;
import static dev.foldmax.DType.I64;

import dev.foldmax.Tensor;
import dev.foldmax.benchmarks.natives.OnnxLibrary;
import dev.foldmax.benchmarks.natives.OnnxModel;
import dev.foldmax.benchmarks.natives.OnnxSession;
import dev.foldmax.benchmarks.natives.OnnxSession.Binding;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * ONNX Runtime, with inputs and outputs bound to the same memory at each call. Where several of its
 * operators compute a case, each is tried when the case is prepared, and the fastest is measured.
 */
final class OnnxRuntime implements Engine {
  private static final int MOST_TRIALS = 5;
  private static final long TRIAL_NANOS = 300_000_000;

  private final OnnxLibrary library =
      OnnxLibrary.load(
          PeerLibraries.here()
              .onnxRuntime()
              .orElseThrow(() -> new IllegalStateException("no libonnxruntime.so")));

  private final Arena arena = Arena.ofAuto();

  /** Whether it computes the case. */
  static boolean supports(Case shape) {
    return switch (shape) {
      case AttentionCase attention ->
          attention.layout() == Layout.DENSE
              && attention.queryType() == F32
              && attention.storage().dtype() == F32
              && switch (attention.variant()) {
                case FULL -> true;
                case CAUSAL -> attention.dim() == attention.valueDim();
                case PREFILLED, WINDOW, BOOLEAN, BIAS, SOFT_CAP, ALIBI -> false;
              };
      case RowCase rows -> rows.dtype() == F32 && rows.verb() != RowVerb.SAMPLE;
      case MergeCase merge -> false;
    };
  }

  @Override
  public Computation prepare(AttentionInputs inputs, int threads) {
    AttentionCase shape = inputs.shape();
    List<Supplier<Computation>> operators = new ArrayList<>();
    if (shape.queries() < shape.keys() && shape.dim() == shape.valueDim()) {
      operators.add(() -> groupQueryAttention(inputs, threads));
    } else if (shape.variant() == Variant.CAUSAL) {
      operators.add(() -> attention(inputs, threads));
      operators.add(() -> groupQueryAttention(inputs, threads));
    } else {
      operators.add(() -> attention(inputs, threads));
      if (shape.heads() == shape.keyHeads()) {
        operators.add(() -> multiHeadAttention(inputs, threads));
      }
    }
    return fastest(operators);
  }

  private static Computation fastest(List<Supplier<Computation>> operators) {
    Computation best = operators.getFirst().get();
    if (operators.size() == 1) {
      return best;
    }
    long bestNanos = leastNanos(best);
    for (Supplier<Computation> operator : operators.subList(1, operators.size())) {
      Computation other = operator.get();
      long nanos = leastNanos(other);
      if (nanos < bestNanos) {
        best.close();
        best = other;
        bestNanos = nanos;
      } else {
        other.close();
      }
    }
    return best;
  }

  private static long leastNanos(Computation computation) {
    computation.run();
    long least = Long.MAX_VALUE;
    long sum = 0;
    for (int i = 0; i < MOST_TRIALS && sum < TRIAL_NANOS; i++) {
      long start = System.nanoTime();
      computation.run();
      long nanos = System.nanoTime() - start;
      least = Math.min(least, nanos);
      sum += nanos;
    }
    return least;
  }

  /** ONNX's own operator, in our layout. */
  private Computation attention(AttentionInputs inputs, int threads) {
    AttentionCase shape = inputs.shape();
    Tensor out =
        NativeCopy.allocate(
            arena, F32, shape.batch(), shape.heads(), shape.queries(), shape.valueDim());
    return new Model(
        "Attention",
        "",
        List.of(
            new Named("q", copy(inputs.q())),
            new Named("k", copy(inputs.keys().keys())),
            new Named("v", copy(inputs.keys().values()))),
        List.of(new Named("y", out)),
        Map.of("is_causal", shape.variant() == Variant.CAUSAL ? 1L : 0L),
        threads,
        List.of(out));
  }

  /** For full attention without groups; heads lie inside of positions. */
  private Computation multiHeadAttention(AttentionInputs inputs, int threads) {
    AttentionCase shape = inputs.shape();
    Tensor out = positionsFirst(shape, shape.valueDim());
    return new Model(
        "MultiHeadAttention",
        OnnxModel.MICROSOFT,
        List.of(
            new Named("q", joinHeads(positionsFirst(inputs.q()))),
            new Named("k", joinHeads(positionsFirst(inputs.keys().keys()))),
            new Named("v", joinHeads(positionsFirst(inputs.keys().values())))),
        List.of(new Named("y", joinHeads(out))),
        Map.of("num_heads", (long) shape.heads()),
        threads,
        List.of(out.permute(0, 2, 1, 3)));
  }

  /**
   * Causal attention, aligned bottom-right. With fewer queries than keys it takes the last keys as
   * new and appends them to a cache, which lies where the appended one is to lie.
   */
  private Computation groupQueryAttention(AttentionInputs inputs, int threads) {
    AttentionCase shape = inputs.shape();
    Tensor keys = copy(inputs.keys().keys());
    Tensor values = copy(inputs.keys().values());
    Tensor out = positionsFirst(shape, shape.valueDim());
    int first = shape.keys() - shape.queries();
    Tensor last = NativeCopy.allocate(arena, I32, shape.batch());
    last.fill(shape.keys() - 1);
    Tensor total = NativeCopy.allocate(arena, I32);
    total.fill(shape.keys());
    List<Named> bindings = new ArrayList<>();
    bindings.add(new Named("q", joinHeads(positionsFirst(inputs.q()))));
    bindings.add(new Named("k", joinHeads(positionsFirst(keys.slice(2, first, shape.keys())))));
    bindings.add(new Named("v", joinHeads(positionsFirst(values.slice(2, first, shape.keys())))));
    bindings.add(new Named("past_k", first == 0 ? null : keys));
    bindings.add(new Named("past_v", first == 0 ? null : values));
    bindings.add(new Named("last", last));
    bindings.add(new Named("total", total));
    return new Model(
        "GroupQueryAttention",
        OnnxModel.MICROSOFT,
        bindings,
        List.of(
            new Named("y", joinHeads(out)),
            new Named("present_k", keys),
            new Named("present_v", values)),
        Map.of("num_heads", (long) shape.heads(), "kv_num_heads", (long) shape.keyHeads()),
        threads,
        List.of(out.permute(0, 2, 1, 3)));
  }

  private Tensor copy(Tensor tensor) {
    return NativeCopy.of(tensor, arena);
  }

  /** (batch, heads, length, dim) as (batch, length, heads, dim). */
  private Tensor positionsFirst(Tensor tensor) {
    return copy(tensor.permute(0, 2, 1, 3));
  }

  private Tensor positionsFirst(AttentionCase shape, long dim) {
    return NativeCopy.allocate(arena, F32, shape.batch(), shape.queries(), shape.heads(), dim);
  }

  private static Tensor joinHeads(Tensor tensor) {
    return tensor.reshape(tensor.shape(0), tensor.shape(1), tensor.shape(2) * tensor.shape(3));
  }

  @Override
  public Computation prepare(RowInputs inputs, int threads) {
    RowCase shape = inputs.shape();
    Named x = new Named("x", copy(inputs.x()));
    Tensor rows = NativeCopy.allocate(arena, F32, shape.rows());
    return switch (shape.verb()) {
      case SOFTMAX, LOG_SOFTMAX -> {
        Tensor out = NativeCopy.allocate(arena, F32, shape.rows(), shape.columns());
        yield new Model(
            shape.verb() == RowVerb.SOFTMAX ? "Softmax" : "LogSoftmax",
            "",
            List.of(x),
            List.of(new Named("y", out)),
            Map.of("axis", -1L),
            threads,
            List.of(out));
      }
      case LOG_SUM_EXP ->
          new Model(
              "ReduceLogSumExp",
              "",
              List.of(x, new Named("axes", copy(Tensor.of(new long[] {-1}, 1)))),
              List.of(new Named("y", rows)),
              Map.of("keepdims", 0L),
              threads,
              List.of(rows));
      case TOP_K -> {
        Tensor values = NativeCopy.allocate(arena, F32, shape.rows(), RowCase.K);
        Tensor indices = NativeCopy.allocate(arena, I64, shape.rows(), RowCase.K);
        yield new Model(
            "TopK",
            "",
            List.of(x, new Named("k", copy(Tensor.of(new long[] {RowCase.K}, 1)))),
            List.of(new Named("values", values), new Named("indices", indices)),
            Map.of(),
            threads,
            List.of(values, indices));
      }
      case SAMPLE -> throw new IllegalArgumentException("verb: " + shape.verb());
    };
  }

  @Override
  public Computation prepare(MergeInputs inputs, int threads) {
    throw new UnsupportedOperationException("ONNX Runtime has no merge");
  }

  /**
   * An input or output of a model.
   *
   * @param tensor in native memory, row-major; null leaves the input out
   */
  private record Named(String name, @Nullable Tensor tensor) {}

  /** A model of one operator. */
  private final class Model implements Computation {
    private final OnnxSession session;
    private final List<Tensor> results;

    /**
     * Opens it.
     *
     * @param results the outputs that count, as the case has them
     */
    Model(
        String operator,
        String domain,
        List<Named> inputs,
        List<Named> outputs,
        Map<String, Object> attributes,
        int threads,
        List<Tensor> results) {
      OnnxModel model = new OnnxModel();
      List<Binding> bound = new ArrayList<>();
      List<String> names = new ArrayList<>();
      for (Named input : inputs) {
        Tensor tensor = input.tensor();
        names.add(tensor == null ? "" : input.name());
        if (tensor != null) {
          model.input(input.name(), tensor.dtype(), tensor.shape());
          bound.add(binding(input.name(), tensor));
        }
      }
      List<Binding> targets = new ArrayList<>();
      List<String> targetNames = new ArrayList<>();
      for (Named output : outputs) {
        Tensor tensor = Objects.requireNonNull(output.tensor(), output.name());
        targetNames.add(output.name());
        model.output(output.name(), tensor.dtype(), tensor.shape());
        targets.add(binding(output.name(), tensor));
      }
      model.node(operator, domain, names, targetNames, attributes);
      this.session = new OnnxSession(library, model, threads, bound, targets);
      this.results = results;
    }

    private static Binding binding(String name, Tensor tensor) {
      return new Binding(name, tensor.segment(), tensor.dtype(), tensor.shape());
    }

    @Override
    public List<Tensor> run() {
      session.run();
      return results;
    }

    @Override
    public void close() {
      session.close();
    }
  }
}
