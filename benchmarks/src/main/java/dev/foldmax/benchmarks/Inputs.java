package dev.foldmax.benchmarks;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.util.List;

/** The tensors of a case; the same numbers whoever asks. */
sealed interface Inputs permits AttentionInputs, RowInputs, MergeInputs {
  /** Those of a case. */
  static Inputs of(Case shape) {
    return switch (shape) {
      case AttentionCase attention -> new AttentionInputs(attention);
      case RowCase rows -> new RowInputs(rows);
      case MergeCase merge -> new MergeInputs(merge);
    };
  }

  /** New tensors for the outputs. */
  List<Tensor> outputs();

  /** Computes the case by a backend of Foldmax's. */
  void compute(Backend backend, List<Tensor> outputs);

  /** Computes it by the reference, into new tensors: numbers in float64. */
  default List<Tensor> reference() {
    List<Tensor> exact =
        outputs().stream()
            .map(t -> Tensor.allocate(t.dtype().isIndex() ? DType.I64 : DType.F64, t.shape()))
            .toList();
    try (Backend reference = Backend.reference()) {
      compute(reference, exact);
    }
    return exact;
  }
}
