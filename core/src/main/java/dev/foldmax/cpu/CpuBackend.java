package dev.foldmax.cpu;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.KernelChoice;
import dev.foldmax.KeyValues;
import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import dev.foldmax.spi.Rows;
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
    rows.softmax(x, out);
  }

  @Override
  public void logSoftmax(Tensor x, Tensor out) {
    checkOpen();
    Rows.checkMap(x, out);
    rows.logSoftmax(x, out);
  }

  @Override
  public void logSumExp(Tensor x, Tensor out) {
    checkOpen();
    Rows.checkReduction(x, out);
    rows.logSumExp(x, out);
  }

  @Override
  public void topK(Tensor x, Tensor values, Tensor indices, @Nullable Tensor probabilities) {
    checkOpen();
    Rows.checkTopK(x, values, indices, probabilities);
    rows.topK(x, values, indices, probabilities);
  }

  @Override
  public void sample(Tensor logits, Sampling sampling, Tensor indices) {
    checkOpen();
    Rows.checkSample(logits, indices);
    rows.sample(logits, sampling, indices);
  }

  @Override
  public void attend(
      Tensor q, KeyValues keyValues, Attention definition, Tensor out, @Nullable Tensor lse) {
    checkOpen();
    attention.attend(AttentionCall.of(q, keyValues, definition, out, lse));
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
    rows.merge(outputs, lses, out, lse);
  }

  @Override
  public void close() {
    workers.close();
  }

  private void checkOpen() {
    if (workers.isClosed()) {
      throw new IllegalStateException("the backend is closed");
    }
  }
}
