package dev.foldmax.cuda;

import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Stands in for the kernels on rows until they are there. */
final class NoRows implements RowKernels {
  private final UnsupportedOperationException reason;

  NoRows(Workplace workplace) {
    reason = new UnsupportedOperationException("no kernels on rows of " + workplace.name());
  }

  @Override
  public void softmax(DeviceRows x, DeviceRows out) {
    throw reason;
  }

  @Override
  public void logSoftmax(DeviceRows x, DeviceRows out) {
    throw reason;
  }

  @Override
  public void logSumExp(DeviceRows x, Tensor out) {
    throw reason;
  }

  @Override
  public void topK(DeviceRows x, Tensor values, Tensor indices, @Nullable Tensor probabilities) {
    throw reason;
  }

  @Override
  public void sample(DeviceRows logits, Sampling sampling, Tensor indices) {
    throw reason;
  }

  @Override
  public void merge(
      List<DeviceRows> outputs, List<Tensor> lses, DeviceRows out, @Nullable Tensor lse) {
    throw reason;
  }
}
