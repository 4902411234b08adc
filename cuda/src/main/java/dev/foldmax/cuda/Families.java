package dev.foldmax.cuda;

import java.util.List;

/** All families of kernels, in order of preference. */
final class Families {
  private Families() {}

  static AttentionKernels attention(Workplace workplace) {
    AttentionKernel last = new F32Prefill(); // serves everything that is served at all
    return new AttentionKernels(
        workplace,
        List.of(new HopperPrefill(), new MmaPrefill(), last),
        List.of(new MatrixDecode(), new FloatDecode(), last));
  }

  static RowKernels rows(Workplace workplace) {
    return new RowKernels(workplace);
  }
}
