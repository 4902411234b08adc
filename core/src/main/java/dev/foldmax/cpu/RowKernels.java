package dev.foldmax.cpu;

import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import java.util.List;
import org.jspecify.annotations.Nullable;

@SuppressWarnings("DoNotCallSuggester")
final class RowKernels {
  RowKernels(Workers workers) {}

  void softmax(Tensor x, Tensor out) {
    throw new UnsupportedOperationException();
  }

  void logSoftmax(Tensor x, Tensor out) {
    throw new UnsupportedOperationException();
  }

  void logSumExp(Tensor x, Tensor out) {
    throw new UnsupportedOperationException();
  }

  void topK(Tensor x, Tensor values, Tensor indices, @Nullable Tensor probabilities) {
    throw new UnsupportedOperationException();
  }

  void sample(Tensor logits, Sampling sampling, Tensor indices) {
    throw new UnsupportedOperationException();
  }

  void merge(List<Tensor> outputs, List<Tensor> lses, Tensor out, @Nullable Tensor lse) {
    throw new UnsupportedOperationException();
  }
}
