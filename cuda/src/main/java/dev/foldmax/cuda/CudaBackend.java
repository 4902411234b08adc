package dev.foldmax.cuda;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KernelChoice;
import dev.foldmax.KeyValues;
import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import dev.foldmax.spi.Rows;
import java.lang.foreign.Arena;
import java.util.List;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * See {@link Backend#cuda(int)}. Calls go to one stream, in the order in which threads make them:
 * on tensors of the device they return when their work is enqueued, and take no memory from the
 * host's heap but for small objects; with a tensor of the host they return when it is done.
 */
public final class CudaBackend implements Backend {
  private final Workplace workplace;
  private final AttentionKernels attention;
  private final RowKernels rows;

  CudaBackend(Workplace workplace) {
    this.workplace = workplace;
    this.attention = Families.attention(workplace);
    this.rows = Families.rows(workplace);
  }

  @Override
  public String name() {
    return "cuda";
  }

  @Override
  public String description() {
    Device device = workplace.device();
    return "%s (device %d), compute capability %s, %d multiprocessors, %d GiB"
        .formatted(
            device.name(),
            device.number(),
            device.capabilityWords(),
            device.multiprocessors(),
            device.memoryBytes() >> 30);
  }

  /** Runs a call: one at a time, its results complete if it has a tensor of the host. */
  private void run(Consumer<Staging> work) {
    workplace.enter();
    try {
      Staging staging = workplace.staging();
      work.accept(staging);
      staging.finish();
    } finally {
      workplace.leave();
    }
  }

  @Override
  public void softmax(Tensor x, Tensor out) {
    checkOpen();
    Rows.checkMap(x, out);
    if (x.elements() > 0) {
      run(staging -> rows.softmax(staging.readRows(x), staging.writeRows(out)));
    }
  }

  @Override
  public void logSoftmax(Tensor x, Tensor out) {
    checkOpen();
    Rows.checkMap(x, out);
    if (x.elements() > 0) {
      run(staging -> rows.logSoftmax(staging.readRows(x), staging.writeRows(out)));
    }
  }

  @Override
  public void logSumExp(Tensor x, Tensor out) {
    checkOpen();
    Rows.checkReduction(x, out);
    if (out.elements() > 0) {
      run(staging -> rows.logSumExp(staging.readRows(x), staging.writePacked(out)));
    }
  }

  @Override
  public void topK(Tensor x, Tensor values, Tensor indices, @Nullable Tensor probabilities) {
    checkOpen();
    Rows.checkTopK(x, values, indices, probabilities);
    if (values.elements() > 0) {
      run(
          staging ->
              rows.topK(
                  staging.readRows(x),
                  staging.writePacked(values),
                  staging.writePacked(indices),
                  probabilities == null ? null : staging.writePacked(probabilities)));
    }
  }

  @Override
  public void sample(Tensor logits, Sampling sampling, Tensor indices) {
    checkOpen();
    Rows.checkSample(logits, indices);
    if (indices.elements() > 0) {
      run(staging -> rows.sample(staging.readRows(logits), sampling, staging.writePacked(indices)));
    }
  }

  @Override
  public void attend(
      Tensor q, KeyValues keyValues, Attention definition, Tensor out, @Nullable Tensor lse) {
    checkOpen();
    AttentionCall call = AttentionCall.of(q, keyValues, definition, out, lse);
    run(staging -> attention.attend(call, staging));
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
    run(
        staging ->
            rows.merge(
                outputs.stream().map(staging::readRows).toList(),
                lses.stream().map(staging::readPacked).toList(),
                staging.writeRows(out),
                lse == null ? null : staging.writePacked(lse)));
  }

  @Override
  public Tensor allocate(Arena arena, DType dtype, long... shape) {
    checkOpen();
    return workplace.allocate(arena, dtype, shape);
  }

  @Override
  public void copy(Tensor source, Tensor target) {
    checkOpen();
    if (!source.hasShapeOf(target)) {
      throw new IllegalArgumentException(
          "target: expected the shape of source " + source + ", got " + target);
    }
    Rows.checkWritable("target", target);
    if (source.isOnHost() && target.isOnHost()) {
      target.copyFrom(source);
    } else {
      run(staging -> staging.copy(source, target));
    }
  }

  @Override
  public void synchronize() {
    checkOpen();
    workplace.synchronize();
  }

  @Override
  public void close() {
    workplace.close();
  }

  /**
   * Records calls for repetition by {@link CudaGraph#launch}. They are checked, their kernels are
   * compiled, and nothing is done yet. Other threads' calls wait meanwhile.
   *
   * @param calls makes calls of this backend, on this thread and on tensors of the device alone,
   *     but for those that stay on the host always, as lengths do
   * @throws IllegalStateException if a call has a tensor of the host, or if calls are being
   *     recorded already
   */
  public CudaGraph capture(Runnable calls) {
    checkOpen();
    return workplace.capture(calls);
  }

  /**
   * Makes calls again and again and tells how long the device took for each repetition, by events
   * of its own between them; returns when the last is done. Other threads' calls wait meanwhile.
   * Small calls take as long as it takes to make them: repeat a {@link CudaGraph} of many.
   *
   * @param calls makes calls of this backend, on this thread, or launches a graph of it
   * @param repetitions at least 1
   * @return microseconds, in the order of the repetitions
   * @throws IllegalStateException if calls are being recorded
   */
  public double[] time(Runnable calls, int repetitions) {
    checkOpen();
    if (repetitions < 1) {
      throw new IllegalArgumentException("repetitions: expected at least 1, got " + repetitions);
    }
    return workplace.time(calls, repetitions);
  }

  /** How many bytes of device memory tensors and calls use, and the tables of recent calls. */
  long usedBytes() {
    return workplace.usedBytes();
  }

  private void checkOpen() {
    if (workplace.isClosed()) {
      throw new IllegalStateException("the backend is closed");
    }
  }

  @Override
  public String toString() {
    return name() + ": " + description();
  }
}
