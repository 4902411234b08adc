package dev.foldmax.benchmarks;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.util.ArrayList;
import java.util.List;

/** The tensors of a {@link MergeCase}. */
final class MergeInputs implements Inputs {
  private final MergeCase shape;
  private final List<float[]> partials = new ArrayList<>(); // each (rows, dim)
  private final List<float[]> lses = new ArrayList<>(); // each (rows)
  private final List<Tensor> partialTensors = new ArrayList<>();
  private final List<Tensor> lseTensors = new ArrayList<>();

  MergeInputs(MergeCase shape) {
    this.shape = shape;
    for (int i = 0; i < shape.partials(); i++) {
      float[] partial = RandomArrays.floats(i, shape.rows() * shape.dim());
      float[] lse = RandomArrays.floats(1000 + i, shape.rows());
      partials.add(partial);
      lses.add(lse);
      partialTensors.add(Tensor.of(partial, shape.rows(), shape.dim()));
      lseTensors.add(Tensor.of(lse, shape.rows()));
    }
  }

  MergeCase shape() {
    return shape;
  }

  /** The partial results, each (rows, dim). */
  List<float[]> partials() {
    return partials;
  }

  /** The logarithms of their sums, each (rows). */
  List<float[]> lses() {
    return lses;
  }

  @Override
  public List<Tensor> outputs() {
    return List.of(Tensor.allocate(DType.F32, shape.rows(), shape.dim()));
  }

  @Override
  public void compute(Backend backend, List<Tensor> outputs) {
    backend.merge(partialTensors, lseTensors, outputs.getFirst(), null);
  }
}
