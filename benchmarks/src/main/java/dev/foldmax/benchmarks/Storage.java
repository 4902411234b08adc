package dev.foldmax.benchmarks;

import dev.foldmax.DType;

/** How keys and values are stored. */
public enum Storage {
  /** Float32 in heap arrays. */
  F32(DType.F32),
  /** Float32 in native memory. */
  F32_NATIVE(DType.F32),
  /** bfloat16 in heap arrays. */
  BF16(DType.BF16),
  /** binary16 in heap arrays. */
  F16(DType.F16),
  /** 8-bit integers in heap arrays, with a float32 factor for each row. */
  I8(DType.I8),
  /** Float64 in heap arrays; queries and outputs are float64 too. */
  F64(DType.F64);

  private final DType dtype;

  Storage(DType dtype) {
    this.dtype = dtype;
  }

  /** The element type. */
  DType dtype() {
    return dtype;
  }

  /** As the tables name it. */
  String label() {
    return switch (this) {
      case F32 -> "f32";
      case F32_NATIVE -> "f32 native";
      case BF16 -> "bf16";
      case F16 -> "f16";
      case I8 -> "int8";
      case F64 -> "f64";
    };
  }
}
