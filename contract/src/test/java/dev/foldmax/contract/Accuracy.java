package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * How far results may lie from the truth: the yardstick is the float32 twin on the same inputs.
 * Errors are gathered over sets of at least 10 000 outputs; single problems, with few outputs and
 * so a twin that may be lucky, get more room.
 */
final class Accuracy {
  /** The largest problem, in multiply-adds, that the slow reference computes beside the twin. */
  private static final long REFERENCE_WORK = 60_000;

  private double squares;
  private double naiveSquares;
  private double largest;
  private double naiveLargest;
  private long count;
  private double ulp;

  /** The truth: the exact twin, and on small problems the reference, which must agree with it. */
  static Outcome oracle(Problem problem) {
    Outcome exact = Twin.exact(problem);
    if (problem.work() <= REFERENCE_WORK) {
      try (Backend reference = Backend.reference()) {
        Outcome outcome = inFloat64(problem, reference);
        assertNear(outcome.out, exact.out, 1e-9 * (1 + problem.maxValue()), "reference");
        assertNear(outcome.lse, exact.lse, 1e-9 * (1 + largest(exact.lse)), "reference lse");
      }
    }
    return exact;
  }

  private static Outcome inFloat64(Problem problem, Backend reference) {
    Call call = Call.plain(problem);
    Tensor out = Tensor.allocate(DType.F64, call.out().shape());
    Tensor lse = Tensor.allocate(DType.F64, call.lse().shape());
    reference.attend(call.q(), call.keyValues(), problem.attention(), out, lse);
    return call.read(out, lse);
  }

  private static double largest(double[] numbers) {
    double largest = 0;
    for (double x : numbers) {
      largest = Double.isFinite(x) ? Math.max(largest, Math.abs(x)) : largest;
    }
    return largest;
  }

  private static void assertNear(double[] actual, double[] expected, double most, String what) {
    assertThat(actual).hasSameSizeAs(expected);
    for (int i = 0; i < actual.length; i++) {
      boolean near =
          Double.isFinite(expected[i])
              ? Math.abs(actual[i] - expected[i]) <= most
              : Double.compare(actual[i], expected[i]) == 0;
      if (!near) {
        assertThat(actual[i])
            .as("%s, number %d of %d", what, i, actual.length)
            .isEqualTo(expected[i]);
      }
    }
  }

  /**
   * One problem: as near as four times the twin's largest error and 16 ulp.
   *
   * @param weightType see {@link Subject#weightType}
   */
  static void assertRight(Problem problem, @Nullable DType weightType, Outcome actual) {
    Outcome oracle = oracle(problem);
    Outcome naive = Twin.naive(problem, weightType);
    double room = problem.isFloat64() ? 1e-12 : 0;
    double ulp = Twin.ulp(problem.maxValue(), problem.outType());
    double most = 4 * largestError(naive.out, oracle.out) + 16 * ulp + room;
    assertNear(actual.out, oracle.out, most, "output");
    DType lseType = problem.isFloat64() ? DType.F64 : DType.F32;
    double lseUlp = Twin.ulp(Math.max(1, largest(oracle.lse)), lseType);
    double lseMost = 4 * largestError(naive.lse, oracle.lse) + 16 * lseUlp + room;
    assertNear(actual.lse, oracle.lse, lseMost, "logsumexp");
  }

  private static double largestError(double[] actual, double[] expected) {
    double largest = 0;
    for (int i = 0; i < actual.length; i++) {
      double error = Math.abs(actual[i] - expected[i]);
      largest = Double.isFinite(error) ? Math.max(largest, error) : largest;
    }
    return largest;
  }

  /** Adds a problem's outputs to the set; {@code weightType} as in {@link #assertRight}. */
  void add(Problem problem, @Nullable DType weightType, Outcome actual) {
    Outcome oracle = oracle(problem);
    Outcome naive = Twin.naive(problem, weightType);
    ulp = Math.max(ulp, Twin.ulp(problem.maxValue(), problem.outType()));
    for (int i = 0; i < oracle.out.length; i++) {
      assertThat(oracle.out[i]).as("the oracle, before all").isFinite();
      double error = Math.abs(actual.out[i] - oracle.out[i]);
      double naiveError = Math.abs(naive.out[i] - oracle.out[i]);
      assertThat(error).as("error of output %d", i).isFinite();
      squares += error * error;
      naiveSquares += naiveError * naiveError;
      largest = Math.max(largest, error);
      naiveLargest = Math.max(naiveLargest, naiveError);
      count++;
    }
  }

  /** The law of NUMERICS.md, section Accuracy. */
  void assertLaw() {
    assertThat(count).as("outputs in the set").isGreaterThanOrEqualTo(10_000);
    double rms = Math.sqrt(squares / count);
    double naiveRms = Math.sqrt(naiveSquares / count);
    assertThat(rms)
        .as("RMS error; the twin's is %s, an ulp is %s", naiveRms, ulp)
        .isLessThanOrEqualTo(1.25 * naiveRms + ulp);
    assertThat(largest)
        .as("largest error; the twin's is %s, an ulp is %s", naiveLargest, ulp)
        .isLessThanOrEqualTo(2 * naiveLargest + 4 * ulp);
  }
}
