package dev.foldmax.cuda;

import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The kernels behind the verbs on rows and {@code merge}: each enqueues its work. Tensors that are
 * not rows are contiguous, on the device, and have one element for each row (or, for {@code topK},
 * k of them).
 */
interface RowKernels {
  /** {@link dev.foldmax.Backend#softmax(Tensor, Tensor)}; {@code out} may be {@code x}. */
  void softmax(DeviceRows x, DeviceRows out);

  /** {@link dev.foldmax.Backend#logSoftmax(Tensor, Tensor)}; {@code out} may be {@code x}. */
  void logSoftmax(DeviceRows x, DeviceRows out);

  /** {@link dev.foldmax.Backend#logSumExp(Tensor, Tensor)}. */
  void logSumExp(DeviceRows x, Tensor out);

  /** {@link dev.foldmax.Backend#topK(Tensor, Tensor, Tensor, Tensor)}. */
  void topK(DeviceRows x, Tensor values, Tensor indices, @Nullable Tensor probabilities);

  /** {@link dev.foldmax.Backend#sample(Tensor, Sampling, Tensor)}. */
  void sample(DeviceRows logits, Sampling sampling, Tensor indices);

  /**
   * {@link dev.foldmax.Backend#merge}; {@code out} and {@code lse} may be among the inputs, and
   * {@code lse} is null where it is not wanted.
   */
  void merge(List<DeviceRows> outputs, List<Tensor> lses, DeviceRows out, @Nullable Tensor lse);
}
