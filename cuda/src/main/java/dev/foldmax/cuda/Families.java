package dev.foldmax.cuda;

import java.util.List;

/** All families of kernels, in order of preference. */
final class Families {
  private Families() {}

  static AttentionKernels attention(Workplace workplace) {
    return new AttentionKernels(
        workplace,
        List.of(new HopperPrefill(), new MmaPrefill(), new F32Prefill()),
        List.of(new MatrixDecode(), new FloatDecode()));
  }

  static RowKernels rows(Workplace workplace) {
    return new RowKernels(workplace);
  }
}
