package dev.foldmax.benchmarks;

/** Who is measured. */
public enum Contender {
  /** The CPU backend. */
  FOLDMAX("Foldmax"),
  /** The naive versions. */
  NAIVE("naive"),
  /** PyTorch. */
  PYTORCH("PyTorch"),
  /** ONNX Runtime. */
  ONNX_RUNTIME("ONNX Runtime");

  private final String label;

  Contender(String label) {
    this.label = label;
  }

  /** As the tables name it. */
  String label() {
    return label;
  }

  /** Whether it is native code, which needs no time to be compiled. */
  boolean isNative() {
    return this == PYTORCH || this == ONNX_RUNTIME;
  }

  /** Whether it computes the case at all. */
  boolean supports(Case shape) {
    return switch (this) {
      case FOLDMAX -> true;
      case NAIVE -> Naive.supports(shape);
      case PYTORCH -> PyTorch.supports(shape);
      case ONNX_RUNTIME -> OnnxRuntime.supports(shape);
    };
  }

  private Engine engine() {
    return switch (this) {
      case FOLDMAX -> new Foldmax();
      case NAIVE -> new Naive();
      case PYTORCH -> new PyTorch();
      case ONNX_RUNTIME -> new OnnxRuntime();
    };
  }

  /** Prepares the computation of a case. */
  Computation prepare(Inputs inputs, int threads) {
    Engine engine = engine();
    return switch (inputs) {
      case AttentionInputs attention -> engine.prepare(attention, threads);
      case RowInputs rows -> engine.prepare(rows, threads);
      case MergeInputs merge -> engine.prepare(merge, threads);
    };
  }
}
