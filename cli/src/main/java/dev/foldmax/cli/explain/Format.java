package dev.foldmax.cli.explain;

import dev.foldmax.DType;

/** A floating-point format that exponentials may be held in. */
public enum Format {
  /** IEEE 754 binary32. */
  F32(-126) {
    @Override
    double round(double number) {
      return (float) number;
    }
  },
  /** bfloat16. */
  BF16(-126) {
    @Override
    double round(double number) {
      return DType.bf16ToFloat(DType.doubleToBf16(number));
    }
  },
  /** IEEE 754 binary16. */
  F16(-14) {
    @Override
    double round(double number) {
      return Float.float16ToFloat(DType.doubleToF16(number));
    }
  };

  private final double smallestNormal;

  Format(int smallestExponent) {
    this.smallestNormal = Math.scalb(1.0, smallestExponent);
  }

  /** The nearest number of this format; infinite where that is too large. */
  abstract double round(double number);

  /** Whether a number of this format has lost digits for being small. */
  boolean isSubnormal(double number) {
    return number != 0 && Math.abs(number) < smallestNormal;
  }
}
