package dev.foldmax.contract;

import dev.foldmax.DType;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Attention by its definition, one row after the other in two passes: in float64 as an oracle that
 * shares no line with the library, and in float32 as the yardstick of accuracy.
 */
final class Twin {
  private final Problem problem;
  private final boolean single;
  private final @Nullable DType weightType;

  private Twin(Problem problem, boolean single, @Nullable DType weightType) {
    this.problem = problem;
    this.single = single;
    this.weightType = weightType;
  }

  /** In float64, rounded to nothing. */
  static Outcome exact(Problem problem) {
    return new Twin(problem, false, null).attend();
  }

  /**
   * As a plain program would: sequential multiply-adds and sums in float32 (float64 for float64
   * problems), correctly rounded exponentials, results rounded to the output's type.
   *
   * @param weightType to which a weight is rounded before it multiplies a value, or null
   */
  static Outcome naive(Problem problem, @Nullable DType weightType) {
    Outcome outcome = new Twin(problem, !problem.isFloat64(), weightType).attend();
    for (int i = 0; i < outcome.out.length; i++) {
      outcome.out[i] = round(outcome.out[i], problem.outType());
    }
    return outcome;
  }

  /** A number in a type. */
  static double round(double x, DType type) {
    return switch (type) {
      case F64 -> x;
      case F32 -> (float) x;
      case F16 -> Float.float16ToFloat(DType.doubleToF16(x));
      case BF16 -> DType.bf16ToFloat(DType.doubleToBf16(x));
      default -> throw new IllegalArgumentException("type: " + type + " is not floating");
    };
  }

  /** The distance from a number's magnitude to the next larger one in a type. */
  static double ulp(double x, DType type) {
    return switch (type) {
      case F64 -> Math.ulp(x);
      case F32 -> Math.ulp((float) x);
      case F16 -> Math.scalb(1.0, Math.max(-14, Math.getExponent(x)) - 10);
      case BF16 -> Math.scalb(1.0, Math.max(-126, Math.getExponent(x)) - 7);
      default -> throw new IllegalArgumentException("type: " + type + " is not floating");
    };
  }

  private double r(double x) {
    return single ? (float) x : x;
  }

  private Outcome attend() {
    int rows = problem.rows();
    Outcome outcome = new Outcome(new double[rows * problem.dv()], new double[rows]);
    int row = 0;
    for (int b = 0; b < problem.batch(); b++) {
      for (int h = 0; h < problem.queryHeads(); h++) {
        for (int i = 0; i < problem.queries(b); i++) {
          attendRow(b, h, i, outcome, row++);
        }
      }
    }
    return outcome;
  }

  private void attendRow(int b, int h, int i, Outcome outcome, int row) {
    double[] scores = new double[problem.keys(b)];
    double sink = problem.sink(h);
    double max = sink;
    boolean poisoned = Double.isNaN(sink) || sink == Double.POSITIVE_INFINITY;
    for (int j = 0; j < scores.length; j++) {
      scores[j] = problem.sees(b, h, i, j) ? score(b, h, i, j) : Double.NEGATIVE_INFINITY;
      poisoned |= Double.isNaN(scores[j]) || scores[j] == Double.POSITIVE_INFINITY;
      max = Math.max(max, scores[j]);
    }
    int dv = problem.dv();
    double[] o = new double[dv];
    if (poisoned) {
      Arrays.fill(outcome.out, row * dv, (row + 1) * dv, Double.NaN);
      outcome.lse[row] = Double.NaN;
      return;
    }
    if (max == Double.NEGATIVE_INFINITY) {
      outcome.lse[row] = max;
      return;
    }
    double l = 0;
    double[] v = problem.v(b, h);
    for (int j = 0; j < scores.length; j++) {
      if (scores[j] == Double.NEGATIVE_INFINITY) {
        continue;
      }
      double p = r(Math.exp(r(scores[j] - max)));
      l = r(l + p);
      double weight = weightType == null ? p : round(p, weightType);
      for (int d = 0; d < dv; d++) {
        o[d] = r(o[d] + weight * v[j * dv + d]);
      }
    }
    l = r(l + r(Math.exp(r(sink - max))));
    for (int d = 0; d < dv; d++) {
      outcome.out[row * dv + d] = r(o[d] / l);
    }
    outcome.lse[row] = r(max + r(Math.log(l)));
  }

  private double score(int b, int h, int i, int j) {
    double[] q = problem.q(b, h);
    double[] k = problem.k(b, h);
    int d = problem.dqk();
    double dot = 0;
    for (int x = 0; x < d; x++) {
      dot = r(dot + q[i * d + x] * k[j * d + x]);
    }
    double s = r(r(problem.scale()) * dot);
    double cap = problem.softCap();
    if (cap > 0) {
      s = r(cap * Math.tanh(r(s / cap)));
    }
    s = r(s + problem.bias(b, h, i, j));
    s = r(s - r(problem.slope(b, h) * Math.abs(problem.distance(b, i, j))));
    return r(problem.function().apply(s, b, h, i, problem.firstKey() + j));
  }
}
