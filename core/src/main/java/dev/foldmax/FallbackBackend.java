package dev.foldmax;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Several backends in order of preference: an attention goes to the first that serves it. */
final class FallbackBackend implements Backend {
  private final List<Backend> order;

  FallbackBackend(List<Backend> order) {
    this.order = List.copyOf(order);
  }

  @Override
  public String name() {
    return order.getFirst().name();
  }

  @Override
  public String description() {
    StringBuilder text = new StringBuilder(order.getFirst().description());
    for (Backend next : order.subList(1, order.size())) {
      text.append(", then ").append(next.name()).append(": ").append(next.description());
    }
    return text.toString();
  }

  private Backend firstFor(Tensor rows) {
    for (Backend backend : order) {
      if (backend.servesRowsOf(rows)) {
        return backend;
      }
    }
    return order.getLast();
  }

  @Override
  public void softmax(Tensor x, Tensor out) {
    firstFor(x).softmax(x, out);
  }

  @Override
  public void logSoftmax(Tensor x, Tensor out) {
    firstFor(x).logSoftmax(x, out);
  }

  @Override
  public void logSumExp(Tensor x, Tensor out) {
    firstFor(x).logSumExp(x, out);
  }

  @Override
  public void topK(Tensor x, Tensor values, Tensor indices, @Nullable Tensor probabilities) {
    firstFor(x).topK(x, values, indices, probabilities);
  }

  @Override
  public void sample(Tensor logits, Sampling sampling, Tensor indices) {
    firstFor(logits).sample(logits, sampling, indices);
  }

  @Override
  public void attend(
      Tensor q, KeyValues keyValues, Attention attention, Tensor out, @Nullable Tensor lse) {
    for (Backend backend : order) {
      if (backend.explain(q, keyValues, attention).isServed()) {
        backend.attend(q, keyValues, attention, out, lse);
        return;
      }
    }
    throw new UnsupportedOperationException(
        "no backend serves " + attention + " over " + keyValues);
  }

  @Override
  public KernelChoice explain(Tensor q, KeyValues keyValues, Attention attention) {
    List<KernelChoice.Declined> declined = new ArrayList<>();
    for (Backend backend : order) {
      KernelChoice choice = backend.explain(q, keyValues, attention);
      declined.addAll(choice.declined());
      if (choice.isServed()) {
        return new KernelChoice(choice.kernel(), declined);
      }
    }
    return new KernelChoice(null, declined);
  }

  @Override
  public void merge(List<Tensor> outputs, List<Tensor> lses, Tensor out, @Nullable Tensor lse) {
    Backend backend = out.isOnHost() ? order.getLast() : order.getFirst();
    backend.merge(outputs, lses, out, lse);
  }

  private Backend firstForPartials() {
    return order.stream().filter(Backend::servesPartials).findFirst().orElseGet(order::getLast);
  }

  @Override
  public boolean servesPartials() {
    return firstForPartials().servesPartials();
  }

  @Override
  public AttentionPartial attendPartial(
      Arena arena, Tensor q, KeyValues keyValues, Attention attention, long keyBegin, long keyEnd) {
    return firstForPartials().attendPartial(arena, q, keyValues, attention, keyBegin, keyEnd);
  }

  @Override
  public void finish(List<AttentionPartial> partials, Tensor out, @Nullable Tensor lse) {
    firstForPartials().finish(partials, out, lse);
  }

  @Override
  public void finishPart(List<AttentionPartial> partials, Tensor out, @Nullable Tensor lse) {
    firstForPartials().finishPart(partials, out, lse);
  }

  @Override
  public Tensor allocate(Arena arena, DType dtype, long... shape) {
    return order.getFirst().allocate(arena, dtype, shape);
  }

  @Override
  public void copy(Tensor source, Tensor target) {
    order.getFirst().copy(source, target);
  }

  @Override
  public void synchronize() {
    order.forEach(Backend::synchronize);
  }

  @Override
  public double progress() {
    for (Backend backend : order) {
      double progress = backend.progress();
      if (!Double.isNaN(progress)) {
        return progress;
      }
    }
    return Double.NaN;
  }

  @Override
  public void close() {
    for (Backend backend : order) {
      backend.close();
    }
  }
}
