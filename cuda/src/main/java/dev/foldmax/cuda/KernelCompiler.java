package dev.foldmax.cuda;

import java.util.List;

/** Turns sources into code. */
interface KernelCompiler {
  /** What code depends on beside source and options: the compiler's name and version. */
  String version();

  /**
   * The options that choose a device, and whether the result is PTX, which the driver compiles
   * further, rather than the device's own code.
   *
   * @param option such as {@code --gpu-architecture=sm_90a}
   */
  record Target(String option, boolean isPtx) {}

  /**
   * The target for a compute capability.
   *
   * @throws CudaException if the compiler knows none that suits
   */
  Target target(int capability);

  /**
   * Compiles.
   *
   * @param options beside the target's
   * @throws CudaException with the compiler's log
   */
  byte[] compile(KernelSource source, Target target, List<String> options);
}
