package dev.foldmax.benchmarks;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.util.List;
import java.util.function.Consumer;

/** The naive versions, into the same tensors at each call. */
final class Naive implements Engine {
  /** More would take seconds a call. */
  private static final double MOST_FLOPS = 4e10;

  /** Whether it computes the case. */
  static boolean supports(Case shape) {
    return switch (shape) {
      case AttentionCase attention ->
          attention.batch() == 1
              && attention.layout() == Layout.DENSE
              && attention.dim() == attention.valueDim()
              && attention.flops() <= MOST_FLOPS
              && (attention.queryType() == DType.F32 || attention.queryType() == DType.F64);
      case RowCase rows -> rows.dtype() == DType.F32 || rows.dtype() == DType.BF16;
      case MergeCase merge -> true;
    };
  }

  @Override
  public Computation prepare(AttentionInputs inputs, int threads) {
    AttentionCase shape = inputs.shape();
    return new OnPool(
        inputs,
        threads,
        pool -> {
          if (shape.queryType() == DType.F64) {
            NaiveDouble plain =
                new NaiveDouble(
                    shape,
                    pool,
                    (double[]) array(inputs.q()),
                    (double[]) array(inputs.keys().keys()),
                    (double[]) array(inputs.keys().values()));
            return out -> plain.attend((double[]) array(out.getFirst()));
          }
          NaiveAttention plain =
              new NaiveAttention(
                  shape,
                  pool,
                  (float[]) array(inputs.q()),
                  StoredRows.of(inputs.keys().keys(), inputs.keys().keyScales()),
                  StoredRows.of(inputs.keys().values(), inputs.keys().valueScales()),
                  inputs.additions());
          return out -> plain.attend((float[]) array(out.getFirst()));
        });
  }

  @Override
  public Computation prepare(RowInputs inputs, int threads) {
    RowCase shape = inputs.shape();
    StoredRows x = StoredRows.of(inputs.x(), null);
    return new OnPool(
        inputs,
        threads,
        pool -> {
          NaiveRows rows = new NaiveRows(shape.rows(), shape.columns(), RowCase.K, pool);
          return switch (shape.verb()) {
            case SOFTMAX, LOG_SOFTMAX ->
                out -> map(rows, shape.verb() == RowVerb.LOG_SOFTMAX, x, array(out.getFirst()));
            case LOG_SUM_EXP -> out -> rows.logSumExp(x, (float[]) array(out.getFirst()));
            case TOP_K ->
                out ->
                    rows.topK(
                        x,
                        (float[]) array(out.getFirst()),
                        (long[]) array(out.get(1)),
                        (float[]) array(out.get(2)));
            case SAMPLE -> out -> rows.sample(x, RowCase.SEED, (long[]) array(out.getFirst()));
          };
        });
  }

  private static void map(NaiveRows rows, boolean log, StoredRows x, Object out) {
    switch (out) {
      case float[] floats when log -> rows.logSoftmax(x, floats);
      case float[] floats -> rows.softmax(x, floats);
      case short[] shorts when log -> rows.logSoftmax(x, shorts);
      case short[] shorts -> rows.softmax(x, shorts);
      default -> throw new IllegalArgumentException("out: " + out);
    }
  }

  @Override
  public Computation prepare(MergeInputs inputs, int threads) {
    return new OnPool(
        inputs,
        threads,
        pool -> {
          NaiveMerge plain = new NaiveMerge(inputs.shape(), pool, inputs.partials(), inputs.lses());
          return out -> plain.merge((float[]) array(out.getFirst()));
        });
  }

  private static Object array(Tensor tensor) {
    return tensor.segment().heapBase().orElseThrow();
  }

  /** Makes a kernel that runs on a pool and writes into given tensors. */
  @FunctionalInterface
  private interface Kernel {
    Consumer<List<Tensor>> on(NaivePool pool);
  }

  private static final class OnPool implements Computation {
    private final NaivePool pool;
    private final Consumer<List<Tensor>> kernel;
    private final List<Tensor> outputs;

    OnPool(Inputs inputs, int threads, Kernel kernel) {
      this.pool = new NaivePool(threads);
      this.kernel = kernel.on(pool);
      this.outputs = inputs.outputs();
    }

    @Override
    public List<Tensor> run() {
      kernel.accept(outputs);
      return outputs;
    }

    @Override
    public void close() {
      pool.close();
    }
  }
}
