package dev.foldmax.benchmarks;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import java.util.List;

/** The tensors of a {@link RowCase}. */
final class RowInputs implements Inputs {
  /** The standard deviation of the logits. */
  private static final float SPREAD = 4;

  private final RowCase shape;
  private final Tensor x;

  RowInputs(RowCase shape) {
    this.shape = shape;
    float[] logits = RandomArrays.floats(1, shape.rows() * shape.columns());
    for (int i = 0; i < logits.length; i++) {
      logits[i] *= SPREAD;
    }
    Tensor wide = Tensor.of(logits, shape.rows(), shape.columns());
    this.x = shape.dtype() == DType.F32 ? wide : wide.to(shape.dtype());
  }

  RowCase shape() {
    return shape;
  }

  /** (rows, columns). */
  Tensor x() {
    return x;
  }

  @Override
  public List<Tensor> outputs() {
    long rows = shape.rows();
    DType wide = shape.dtype() == DType.F64 ? DType.F64 : DType.F32;
    return switch (shape.verb()) {
      case SOFTMAX, LOG_SOFTMAX -> List.of(Tensor.allocate(shape.dtype(), rows, shape.columns()));
      case LOG_SUM_EXP -> List.of(Tensor.allocate(wide, rows));
      case TOP_K ->
          List.of(
              Tensor.allocate(wide, rows, RowCase.K),
              Tensor.allocate(DType.I64, rows, RowCase.K),
              Tensor.allocate(wide, rows, RowCase.K));
      case SAMPLE -> List.of(Tensor.allocate(DType.I64, rows));
    };
  }

  @Override
  public void compute(Backend backend, List<Tensor> outputs) {
    Tensor first = outputs.getFirst();
    switch (shape.verb()) {
      case SOFTMAX -> backend.softmax(x, first);
      case LOG_SOFTMAX -> backend.logSoftmax(x, first);
      case LOG_SUM_EXP -> backend.logSumExp(x, first);
      case TOP_K -> backend.topK(x, first, outputs.get(1), outputs.get(2));
      case SAMPLE -> backend.sample(x, Sampling.seeded(RowCase.SEED), first);
    }
  }
}
