package dev.foldmax.cpu;

import dev.foldmax.KernelChoice;
import dev.foldmax.spi.AttentionCall;

@SuppressWarnings("DoNotCallSuggester")
final class AttentionKernels {
  AttentionKernels(Workers workers) {}

  void attend(AttentionCall call) {
    throw new UnsupportedOperationException();
  }

  KernelChoice explain(AttentionCall call) {
    throw new UnsupportedOperationException();
  }
}
