package dev.foldmax.benchmarks;

import dev.foldmax.Backend;
import dev.foldmax.Tensor;
import java.util.List;

/** The CPU backend, into the same tensors at each call. */
final class Foldmax implements Engine {
  @Override
  public Computation prepare(AttentionInputs inputs, int threads) {
    return new OnBackend(inputs, threads);
  }

  @Override
  public Computation prepare(RowInputs inputs, int threads) {
    return new OnBackend(inputs, threads);
  }

  @Override
  public Computation prepare(MergeInputs inputs, int threads) {
    return new OnBackend(inputs, threads);
  }

  private static final class OnBackend implements Computation {
    private final Inputs inputs;
    private final Backend backend;
    private final List<Tensor> outputs;

    OnBackend(Inputs inputs, int threads) {
      this.inputs = inputs;
      this.backend = Backend.cpu(threads);
      this.outputs = inputs.outputs();
    }

    @Override
    public List<Tensor> run() {
      inputs.compute(backend, outputs);
      return outputs;
    }

    @Override
    public void close() {
      backend.close();
    }
  }
}
