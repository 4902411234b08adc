package dev.foldmax.cli;

import dev.foldmax.Attention;
import dev.foldmax.DType;
import dev.foldmax.Mask;
import dev.foldmax.Sequence;
import dev.foldmax.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * How large the numbers are that go into the rows of one head, and with that how large rounding
 * errors may be. For a row with visible keys j in number n,
 *
 * <pre>
 *   tolerance = 4 ulp(max|v_j|) + u max|v_j| (16 + sqrt(n) + 4 (max|scale| |q| |k_j| + |lse|))
 * </pre>
 *
 * <p>with the ulp of the output's type, and u half an ulp of 1 in the arithmetic's type: 2^-24, or
 * 2^-53 with float64 input. The first term is for the rounding of the result, and of weights to the
 * input's type; the others for sums of n terms, and for scores, whose rounding error a weight takes
 * on as its relative error.
 */
final class Magnitudes {
  private final AttendJob head;
  private final Sequence sequence;
  private final double unit;

  /** Largest absolute value of each row of v. */
  private final double[] values;

  /** Euclidean norm of each row of k, times the scale. */
  private final double[] keys;

  /**
   * Measures a head.
   *
   * @param head of one sequence and one query head
   */
  Magnitudes(AttendJob head) {
    this.head = head;
    this.sequence = head.sequence();
    boolean float64 =
        head.q().dtype() == DType.F64
            || head.k().dtype() == DType.F64
            || head.v().dtype() == DType.F64;
    this.unit = float64 ? 0x1p-53 : 0x1p-24;
    double scale = Math.abs(head.attention().scaleFor(head.q().shape(3)));
    int n = Math.toIntExact(head.keys());
    values = new double[n];
    keys = new double[n];
    for (int j = 0; j < n; j++) {
      values[j] = scale(head.valueScales(), j) * largest(head.v(), j);
      keys[j] = scale * scale(head.keyScales(), j) * norm(head.k(), j);
    }
  }

  private static double scale(@Nullable Tensor scales, long row) {
    return scales == null ? 1 : Math.abs(scales.get(0, 0, row));
  }

  private static double largest(Tensor tensor, long row) {
    double largest = 0;
    for (long d = 0; d < tensor.shape(3); d++) {
      double size = Math.abs(tensor.get(0, 0, row, d));
      if (Double.isFinite(size)) {
        largest = Math.max(largest, size);
      }
    }
    return largest;
  }

  private static double norm(Tensor tensor, long row) {
    double squares = 0;
    for (long d = 0; d < tensor.shape(3); d++) {
      double element = tensor.get(0, 0, row, d);
      squares += element * element;
    }
    double norm = Math.sqrt(squares);
    return Double.isFinite(norm) ? norm : 0;
  }

  /**
   * The largest error of an element of the output that passes.
   *
   * @param lse the row's logsumexp
   * @param outputType the type to which the result is rounded
   */
  double tolerance(long query, double lse, DType outputType) {
    double largest = 0;
    int visible = 0;
    for (int j = 0; j < values.length; j++) {
      if (isVisible(query, j)) {
        largest = Math.max(largest, values[j]);
        visible++;
      }
    }
    return 4 * ulp(largest, outputType)
        + unit * largest * (16 + Math.sqrt(visible) + 4 * scores(query, lse));
  }

  /** The largest error of the logsumexp that passes. */
  double lseTolerance(long query, double lse) {
    double size = Double.isFinite(lse) ? Math.abs(lse) : 0;
    return 4 * ulp(size, head.lse().dtype())
        + unit * (16 + Math.sqrt(values.length) + 4 * scores(query, lse));
  }

  private double scores(long query, double lse) {
    double largest = 0;
    for (int j = 0; j < keys.length; j++) {
      if (isVisible(query, j)) {
        largest = Math.max(largest, keys[j]);
      }
    }
    return norm(head.q(), query) * largest + (Double.isFinite(lse) ? Math.abs(lse) : 0);
  }

  /** Whether a key counts: a bias of -inf hides as a mask does. */
  private boolean isVisible(long query, int key) {
    Attention attention = head.attention();
    Mask mask = attention.mask();
    Tensor bias = attention.bias();
    return mask.visible(sequence, 0, query, key)
        && (bias == null
            || bias.at(bias.broadcastOffset(0, 0, query, key)) != Double.NEGATIVE_INFINITY);
  }

  /** The distance from a number to the next larger of a type. */
  static double ulp(double number, DType type) {
    return switch (type) {
      case F64 -> Math.ulp(number);
      case F32 -> Math.ulp((float) number);
      case F16 -> Math.max(0x1p-24, ulpOfPrecision(number, 11));
      case BF16 -> Math.max(0x1p-133, ulpOfPrecision(number, 8));
      case I8, BOOL, I32, I64 -> throw new IllegalArgumentException(type + " is no floating type");
    };
  }

  private static double ulpOfPrecision(double number, int bits) {
    return number == 0 ? 0 : Math.scalb(1.0, Math.getExponent(number) - (bits - 1));
  }
}
