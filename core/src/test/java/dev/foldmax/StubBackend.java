package dev.foldmax;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Notes what it is asked; serves float32 rows, and attention without a soft cap. */
final class StubBackend implements Backend {
  final List<String> calls = new ArrayList<>();
  boolean closed;

  @Override
  public String name() {
    return "stub";
  }

  @Override
  public String description() {
    return "a stub";
  }

  @Override
  public boolean servesRowsOf(Tensor x) {
    return x.dtype() == DType.F32;
  }

  @Override
  public void softmax(Tensor x, Tensor out) {
    calls.add("softmax");
  }

  @Override
  public void logSoftmax(Tensor x, Tensor out) {
    calls.add("logSoftmax");
  }

  @Override
  public void logSumExp(Tensor x, Tensor out) {
    calls.add("logSumExp");
  }

  @Override
  public void topK(Tensor x, Tensor values, Tensor indices, @Nullable Tensor probabilities) {
    calls.add("topK");
  }

  @Override
  public void sample(Tensor logits, Sampling sampling, Tensor indices) {
    calls.add("sample");
  }

  @Override
  public void attend(
      Tensor q, KeyValues keyValues, Attention attention, Tensor out, @Nullable Tensor lse) {
    calls.add("attend");
  }

  @Override
  public KernelChoice explain(Tensor q, KeyValues keyValues, Attention attention) {
    return attention.softCap() == 0
        ? new KernelChoice("stub", List.of())
        : new KernelChoice(null, List.of(new KernelChoice.Declined("stub", "no soft cap")));
  }

  @Override
  public void merge(List<Tensor> outputs, List<Tensor> lses, Tensor out, @Nullable Tensor lse) {
    calls.add("merge");
  }

  @Override
  public void close() {
    closed = true;
  }
}
