package dev.foldmax.benchmarks.gpu;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;

/**
 * A fresh JVM's first results: opens the device, calls attention twice, and writes the milliseconds
 * of each step. The first call compiles, or finds compiled code in the folder that foldmax.cache
 * names.
 */
public final class FirstCalls {
  private static final int HEADS = 16;
  private static final int LENGTH = 512;
  private static final int DIM = 128;
  private static final double NANOS_PER_MILLI = 1e6;

  private FirstCalls() {}

  /** Without arguments. */
  public static void main(String[] args) {
    long start = System.nanoTime();
    try (Backend backend = Backend.cuda(0);
        Arena arena = Arena.ofShared()) {
      Tensor[] tensors = new Tensor[4];
      for (int i = 0; i < tensors.length; i++) {
        tensors[i] = backend.allocate(arena, DType.BF16, 1, HEADS, LENGTH, DIM);
      }
      KeyValues keyValues = KeyValues.dense(tensors[1], tensors[2]);
      long opened = System.nanoTime();
      backend.attend(tensors[0], keyValues, Attention.causal(), tensors[3], null);
      backend.synchronize();
      long first = System.nanoTime();
      backend.attend(tensors[0], keyValues, Attention.causal(), tensors[3], null);
      backend.synchronize();
      long second = System.nanoTime();
      System.out.printf(
          "ok open=%.3f first=%.3f second=%.3f%n",
          (opened - start) / NANOS_PER_MILLI,
          (first - opened) / NANOS_PER_MILLI,
          (second - first) / NANOS_PER_MILLI);
    }
  }
}
