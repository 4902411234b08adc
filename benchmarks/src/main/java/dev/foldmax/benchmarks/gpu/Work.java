package dev.foldmax.benchmarks.gpu;

import dev.foldmax.Tensor;
import java.util.List;

/** A case, with its tensors on the device. */
interface Work extends AutoCloseable {
  /**
   * How many sets of inputs there are: enough that one is gone from the L2 cache when its turn
   * comes again.
   */
  int sets();

  /** Enqueues the calls of a set. */
  void call(int set);

  /** Which kernel serves it, in one line; empty where there is no choice. */
  String kernel();

  /** The tensors that a call writes. */
  List<Tensor> outputs();

  /** The parts of the outputs, after the call of set 0, that the script looks at. */
  List<Tensor> samples();

  @Override
  void close();
}
