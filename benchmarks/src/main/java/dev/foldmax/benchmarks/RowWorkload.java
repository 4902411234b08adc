package dev.foldmax.benchmarks;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import java.util.List;

/** A {@link RowCase} with its tensors, ready to be computed in either way. */
final class RowWorkload implements AutoCloseable {
  /** The standard deviation of the logits. */
  private static final float SPREAD = 4;

  private final RowCase shape;
  private final Backend backend;
  private final NaivePool pool;
  private final Tensor x;
  private final List<Tensor> outputs;
  private final List<Tensor> naiveOutputs;
  private final Runnable naive;

  RowWorkload(RowCase shape, int threads) {
    this.shape = shape;
    this.backend = Backend.cpu(threads);
    this.pool = new NaivePool(threads);
    NaiveRows rows = new NaiveRows(shape.rows(), shape.columns(), RowCase.K, pool);
    StoredRows logits = logits();
    x = logits.tensor(shape.rows(), shape.columns());
    switch (shape.verb()) {
      case SOFTMAX, LOG_SOFTMAX -> {
        boolean log = shape.verb() == RowVerb.LOG_SOFTMAX;
        Tensor result = Tensor.allocate(shape.dtype(), shape.rows(), shape.columns());
        naiveOutputs = List.of(result);
        Object array = result.segment().heapBase().orElseThrow();
        naive =
            array instanceof short[] shorts
                ? () -> map(rows, log, logits, shorts)
                : () -> map(rows, log, logits, (float[]) array);
      }
      case LOG_SUM_EXP -> {
        float[] result = new float[shape.rows()];
        naiveOutputs = List.of(Tensor.of(result, shape.rows()));
        naive = () -> rows.logSumExp(logits, result);
      }
      case TOP_K -> {
        int n = shape.rows() * RowCase.K;
        float[] values = new float[n];
        long[] indices = new long[n];
        float[] probabilities = new float[n];
        naiveOutputs =
            List.of(
                Tensor.of(values, shape.rows(), RowCase.K),
                Tensor.of(indices, shape.rows(), RowCase.K),
                Tensor.of(probabilities, shape.rows(), RowCase.K));
        naive = () -> rows.topK(logits, values, indices, probabilities);
      }
      case SAMPLE -> {
        long[] indices = new long[shape.rows()];
        naiveOutputs = List.of(Tensor.of(indices, shape.rows()));
        naive = () -> rows.sample(logits, RowCase.SEED, indices);
      }
      default -> throw new IllegalStateException("verb: " + shape.verb());
    }
    outputs = naiveOutputs.stream().map(t -> Tensor.allocate(t.dtype(), t.shape())).toList();
  }

  private static void map(NaiveRows rows, boolean log, StoredRows logits, float[] out) {
    if (log) {
      rows.logSoftmax(logits, out);
    } else {
      rows.softmax(logits, out);
    }
  }

  private static void map(NaiveRows rows, boolean log, StoredRows logits, short[] out) {
    if (log) {
      rows.logSoftmax(logits, out);
    } else {
      rows.softmax(logits, out);
    }
  }

  private StoredRows logits() {
    float[] wide = RandomArrays.floats(1, shape.rows() * shape.columns());
    for (int i = 0; i < wide.length; i++) {
      wide[i] *= SPREAD;
    }
    return shape.dtype() == DType.BF16
        ? StoredRows.BrainFloats.of(wide)
        : new StoredRows.Floats(wide);
  }

  /** Computes it by the CPU backend, into the same tensors at each call. */
  List<Tensor> foldmax() {
    call(backend, outputs);
    return outputs;
  }

  /** Computes it by the naive version, into the same tensors at each call. */
  List<Tensor> naive() {
    naive.run();
    return naiveOutputs;
  }

  /** Computes it by the reference, into new tensors: numbers in float64. */
  List<Tensor> reference() {
    List<Tensor> exact =
        outputs.stream()
            .map(t -> Tensor.allocate(t.dtype().isIndex() ? DType.I64 : DType.F64, t.shape()))
            .toList();
    try (Backend reference = Backend.reference()) {
      call(reference, exact);
    }
    return exact;
  }

  private void call(Backend with, List<Tensor> results) {
    Tensor first = results.getFirst();
    switch (shape.verb()) {
      case SOFTMAX -> with.softmax(x, first);
      case LOG_SOFTMAX -> with.logSoftmax(x, first);
      case LOG_SUM_EXP -> with.logSumExp(x, first);
      case TOP_K -> with.topK(x, first, results.get(1), results.get(2));
      case SAMPLE -> with.sample(x, Sampling.seeded(RowCase.SEED), first);
    }
  }

  @Override
  public void close() {
    backend.close();
    pool.close();
  }
}
