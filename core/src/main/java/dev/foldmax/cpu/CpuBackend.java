package dev.foldmax.cpu;

import dev.foldmax.Attention;
import dev.foldmax.AttentionPartial;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KernelChoice;
import dev.foldmax.KeyValues;
import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import dev.foldmax.spi.PartialCall;
import dev.foldmax.spi.PartialSet;
import dev.foldmax.spi.PartialStates;
import dev.foldmax.spi.Rows;
import java.lang.foreign.Arena;
import java.util.List;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;

/** See {@link Backend#cpu(int)}. */
public final class CpuBackend implements Backend {
  private final Workers workers;
  private final RowKernels rows;
  private final AttentionKernels attention;

  private CpuBackend(Workers workers) {
    this.workers = workers;
    this.rows = new RowKernels(workers);
    this.attention = new AttentionKernels(workers);
  }

  /** See {@link Backend#cpu(int)}. */
  public static CpuBackend withThreads(int threads) {
    return new CpuBackend(Workers.ofThreads(threads));
  }

  /** See {@link Backend#cpu(Executor, int)}. */
  public static CpuBackend withExecutor(Executor executor, int parallelism) {
    return new CpuBackend(Workers.ofExecutor(executor, parallelism));
  }

  /** The vector width in words. */
  public static String vectorDescription() {
    return "Vector API, " + Species.F32.vectorBitSize() + "-bit vectors";
  }

  @Override
  public String name() {
    return "cpu";
  }

  @Override
  public String description() {
    return vectorDescription() + ", threads " + workers.parallelism();
  }

  @Override
  public void softmax(Tensor x, Tensor out) {
    checkOpen();
    Rows.checkMap(x, out);
    checkShared("x", x);
    checkShared("out", out);
    rows.softmax(x, out);
  }

  @Override
  public void logSoftmax(Tensor x, Tensor out) {
    checkOpen();
    Rows.checkMap(x, out);
    checkShared("x", x);
    checkShared("out", out);
    rows.logSoftmax(x, out);
  }

  @Override
  public void logSumExp(Tensor x, Tensor out) {
    checkOpen();
    Rows.checkReduction(x, out);
    checkShared("x", x);
    checkShared("out", out);
    rows.logSumExp(x, out);
  }

  @Override
  public void topK(Tensor x, Tensor values, Tensor indices, @Nullable Tensor probabilities) {
    checkOpen();
    Rows.checkTopK(x, values, indices, probabilities);
    checkShared("x", x);
    checkShared("values", values);
    checkShared("indices", indices);
    checkShared("probabilities", probabilities);
    rows.topK(x, values, indices, probabilities);
  }

  @Override
  public void sample(Tensor logits, Sampling sampling, Tensor indices) {
    checkOpen();
    Rows.checkSample(logits, indices);
    checkShared("logits", logits);
    checkShared("indices", indices);
    rows.sample(logits, sampling, indices);
  }

  @Override
  public void attend(
      Tensor q, KeyValues keyValues, Attention definition, Tensor out, @Nullable Tensor lse) {
    checkOpen();
    AttentionCall call = AttentionCall.of(q, keyValues, definition, out, lse);
    checkScale(call);
    AttentionCall.forEachInput(q, keyValues, definition, this::checkShared);
    checkShared("out", out);
    checkShared("lse", lse);
    attention.attend(call);
  }

  @Override
  public AttentionPartial attendPartial(
      Arena arena,
      Tensor q,
      KeyValues keyValues,
      Attention definition,
      long keyBegin,
      long keyEnd) {
    checkOpen();
    PartialCall call = PartialCall.of(q, keyValues, definition, keyBegin, keyEnd);
    checkScale(call.attention());
    AttentionCall.forEachInput(q, keyValues, definition, this::checkShared);
    PartialStates states =
        new PartialStates(
            call,
            attention.fold(call.attention(), name()),
            call.attention().isFloat64() ? DType.F64 : DType.F32,
            arena);
    checkShared("arena", states.outputs());
    attention.attendPartial(call, states);
    return states.partial(q.shape());
  }

  @Override
  public void finish(List<AttentionPartial> partials, Tensor out, @Nullable Tensor lse) {
    finish(partials, out, lse, true);
  }

  @Override
  public void finishPart(List<AttentionPartial> partials, Tensor out, @Nullable Tensor lse) {
    finish(partials, out, lse, false);
  }

  private void finish(
      List<AttentionPartial> partials, Tensor out, @Nullable Tensor lse, boolean whole) {
    checkOpen();
    PartialSet set = PartialSet.of(partials, i -> "partials[" + i + "]", whole);
    set.checkFinish(attention.likeFold(set.fold(), name()), out, lse);
    partials.forEach(partial -> partial.tensors().forEach(this::checkShared));
    checkShared("out", out);
    checkShared("lse", lse);
    attention.finish(set, out, lse);
  }

  @Override
  public boolean servesPartials() {
    return true;
  }

  @Override
  public KernelChoice explain(Tensor q, KeyValues keyValues, Attention definition) {
    checkOpen();
    return attention.explain(AttentionCall.withoutOutput(q, keyValues, definition));
  }

  @Override
  public void merge(List<Tensor> outputs, List<Tensor> lses, Tensor out, @Nullable Tensor lse) {
    checkOpen();
    Rows.checkMerge(outputs, lses, out, lse);
    outputs.forEach(output -> checkShared("outputs", output));
    lses.forEach(part -> checkShared("lses", part));
    checkShared("out", out);
    checkShared("lse", lse);
    rows.merge(outputs, lses, out, lse);
  }

  @Override
  public double progress() {
    return workers.progress();
  }

  @Override
  public void close() {
    workers.close();
  }

  private void checkOpen() {
    workers.checkNotInside();
    if (workers.isClosed()) {
      throw new IllegalStateException("the backend is closed");
    }
  }

  /** A thread that is nobody's, to ask whether memory is open to more than the calling thread. */
  private static final Thread ANOTHER = Thread.ofPlatform().unstarted(() -> {});

  private void checkShared(String name, @Nullable Tensor tensor) {
    if (tensor != null && workers.parallelism() > 1 && !tensor.segment().isAccessibleBy(ANOTHER)) {
      throw new IllegalArgumentException(
          name
              + ": "
              + tensor
              + " lies in a confined arena, which only the calling thread may use; take a shared or"
              + " automatic arena, or Backend.cpu(1)");
    }
  }

  /** In float32, the scale has to be a float32 number too. */
  private static void checkScale(AttentionCall call) {
    float scale = (float) call.scale();
    if (!call.isFloat64() && (Float.isInfinite(scale) || (scale == 0 && call.scale() != 0))) {
      throw new IllegalArgumentException(
          "scale: "
              + call.scale()
              + " is beyond float32, in which inputs other than F64 are computed");
    }
  }

  @Override
  public String toString() {
    return name() + ": " + description();
  }
}
