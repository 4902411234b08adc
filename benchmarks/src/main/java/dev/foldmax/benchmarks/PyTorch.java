package dev.foldmax.benchmarks;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import dev.foldmax.benchmarks.natives.TorchLibrary;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/**
 * PyTorch. Rows are written into the same memory at each call. Attention is the flash kernel that
 * {@code scaled_dot_product_attention} comes down to, which allocates its output.
 *
 * <p>For grouped heads {@code enable_gqa} repeats keys and values in memory. Two other forms of the
 * same call do not, and they are what is measured: the heads of a group as further queries of their
 * key head where there is one query each, and keys repeated by a stride of 0 otherwise.
 */
final class PyTorch implements Engine {
  private final TorchLibrary torch =
      TorchLibrary.load(
          PeerLibraries.here()
              .torch()
              .orElseThrow(() -> new IllegalStateException("no libtorch_cpu.so")),
          Boolean.getBoolean(Rounds.AVX2));

  private final Arena arena = Arena.ofAuto();

  /** Whether it computes the case. */
  static boolean supports(Case shape) {
    return switch (shape) {
      case AttentionCase attention ->
          attention.layout() == Layout.DENSE
              && attention.dim() == attention.valueDim()
              && attention.queryType() == attention.storage().dtype()
              && (attention.variant() == Variant.FULL
                  || (attention.variant() == Variant.CAUSAL
                      && attention.queries() == attention.keys()));
      case RowCase rows ->
          switch (rows.verb()) {
            case SOFTMAX, LOG_SOFTMAX, LOG_SUM_EXP -> true;
            // It leaves the order of equal ones open, of which 16-bit rows have many.
            case TOP_K -> rows.dtype() == DType.F32 || rows.dtype() == DType.F64;
            case SAMPLE -> false;
          };
      case MergeCase merge -> false;
    };
  }

  @Override
  public Computation prepare(AttentionInputs inputs, int threads) {
    AttentionCase shape = inputs.shape();
    torch.setThreads(threads);
    MemorySegment q = copy(inputs.q());
    MemorySegment k = copy(inputs.keys().keys());
    MemorySegment v = copy(inputs.keys().values());
    int group = shape.heads() / shape.keyHeads();
    long keyHeads = shape.keyHeads();
    long batch = shape.batch();
    boolean causal = shape.variant() == Variant.CAUSAL;
    DType dtype = shape.queryType();
    long dim = shape.dim();
    if (group == 1 || shape.queries() == 1) {
      long[] queries = {batch, keyHeads, (long) group * shape.queries(), dim};
      long[] keys = {batch, keyHeads, shape.keys(), dim};
      return new Attention(
          dense(q, dtype, queries),
          dense(k, dtype, keys),
          dense(v, dtype, keys),
          causal,
          dtype,
          queries);
    }
    long[] queries = {batch * keyHeads, group, shape.queries(), dim};
    long[] keys = {batch * keyHeads, group, shape.keys(), dim};
    long[] strides = {shape.keys() * dim, 0, dim, 1};
    return new Attention(
        dense(q, dtype, queries),
        torch.tensor(k, dtype, keys, strides),
        torch.tensor(v, dtype, keys, strides),
        causal,
        dtype,
        queries);
  }

  private MemorySegment copy(Tensor tensor) {
    return NativeCopy.of(tensor, arena).segment();
  }

  /** A handle of row-major memory. */
  private MemorySegment dense(MemorySegment data, DType dtype, long... sizes) {
    long[] strides = new long[sizes.length];
    long stride = 1;
    for (int i = sizes.length - 1; i >= 0; i--) {
      strides[i] = stride;
      stride *= sizes[i];
    }
    return torch.tensor(data, dtype, sizes, strides);
  }

  private MemorySegment dense(Tensor tensor) {
    return dense(tensor.segment(), tensor.dtype(), tensor.shape());
  }

  /** Attention into an output that the library allocates at each call. */
  private final class Attention implements Computation {
    private final MemorySegment q;
    private final MemorySegment k;
    private final MemorySegment v;
    private final boolean causal;
    private final DType dtype;
    private final long[] shape; // (batch, heads, queries, dim) as the library sees it
    private MemorySegment out = MemorySegment.NULL;

    Attention(
        MemorySegment q,
        MemorySegment k,
        MemorySegment v,
        boolean causal,
        DType dtype,
        long[] shape) {
      this.q = q;
      this.k = k;
      this.v = v;
      this.causal = causal;
      this.dtype = dtype;
      this.shape = shape;
    }

    @Override
    public List<Tensor> run() {
      deleteOut();
      out = torch.attention(q, k, v, causal);
      long bytes = dtype.bytes() * shape[0] * shape[1] * shape[2] * shape[3];
      return List.of(
          Tensor.strided(torch.data(out, bytes), dtype, shape, torch.strides(out, shape.length)));
    }

    private void deleteOut() {
      if (!out.equals(MemorySegment.NULL)) {
        torch.delete(out);
        out = MemorySegment.NULL;
      }
    }

    @Override
    public void close() {
      deleteOut();
      torch.delete(q);
      torch.delete(k);
      torch.delete(v);
    }
  }

  @Override
  public Computation prepare(RowInputs inputs, int threads) {
    torch.setThreads(threads);
    RowCase shape = inputs.shape();
    MemorySegment x = dense(NativeCopy.of(inputs.x(), arena));
    Tensor rows = NativeCopy.allocate(arena, shape.dtype(), shape.rows());
    return switch (shape.verb()) {
      case SOFTMAX, LOG_SOFTMAX -> {
        Tensor out = NativeCopy.allocate(arena, shape.dtype(), shape.rows(), shape.columns());
        MemorySegment y = dense(out);
        boolean log = shape.verb() == RowVerb.LOG_SOFTMAX;
        yield new Rows(
            List.of(x, y),
            () -> {
              if (log) {
                torch.logSoftmax(x, y);
              } else {
                torch.softmax(x, y);
              }
              return List.of(out);
            });
      }
      case LOG_SUM_EXP -> {
        MemorySegment y = dense(rows);
        yield new Rows(
            List.of(x, y),
            () -> {
              torch.logSumExp(x, y);
              return List.of(rows);
            });
      }
      case TOP_K -> new Largest(x, dense(rows), shape);
      case SAMPLE -> throw new IllegalArgumentException("verb: " + shape.verb());
    };
  }

  /** A verb on rows, with the handles that it ends with. */
  private final class Rows implements Computation {
    private final List<MemorySegment> handles;
    private final Supplier<List<Tensor>> verb;

    Rows(List<MemorySegment> handles, Supplier<List<Tensor>> verb) {
      this.handles = handles;
      this.verb = verb;
    }

    @Override
    public List<Tensor> run() {
      return verb.get();
    }

    @Override
    public void close() {
      handles.forEach(torch::delete);
    }
  }

  /**
   * The k largest and the logarithm of the sum, which their probabilities follow from; that last
   * step on k numbers a row is left out.
   */
  private final class Largest implements Computation {
    private final MemorySegment x;
    private final MemorySegment lse;
    private final RowCase shape;
    private final List<MemorySegment> results = new ArrayList<>();

    Largest(MemorySegment x, MemorySegment lse, RowCase shape) {
      this.x = x;
      this.lse = lse;
      this.shape = shape;
    }

    @Override
    public List<Tensor> run() {
      deleteResults();
      torch.logSumExp(x, lse);
      TorchLibrary.TopK largest = torch.topK(x, RowCase.K);
      results.add(largest.values());
      results.add(largest.indices());
      return List.of(result(largest.values(), shape.dtype()), result(largest.indices(), DType.I64));
    }

    private Tensor result(MemorySegment handle, DType dtype) {
      long bytes = (long) dtype.bytes() * shape.rows() * RowCase.K;
      return Tensor.of(torch.data(handle, bytes), dtype, shape.rows(), RowCase.K);
    }

    private void deleteResults() {
      results.forEach(torch::delete);
      results.clear();
    }

    @Override
    public void close() {
      deleteResults();
      torch.delete(x);
      torch.delete(lse);
    }
  }

  @Override
  public Computation prepare(MergeInputs inputs, int threads) {
    throw new UnsupportedOperationException("PyTorch has no merge");
  }
}
