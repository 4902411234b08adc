package dev.foldmax.benchmarks;

import dev.foldmax.Tensor;
import java.util.List;

/** A case with somebody who computes it, ready to go. */
interface Computation extends AutoCloseable {
  /**
   * Computes it once.
   *
   * @return the outputs, valid until the next call
   */
  List<Tensor> run();

  @Override
  void close();
}
