package dev.foldmax.cli;

import java.util.LinkedHashMap;
import java.util.Map;

/** The differences between results and what they should be. */
final class Errors {
  private final boolean anyNonFinite;
  private long finite;
  private long mismatches;
  private double largest;
  private double squares;
  private double worstShare;

  /**
   * Starts without any.
   *
   * @param anyNonFinite whether NaN and the infinities stand for each other: which of them comes of
   *     an infinite value is not promised
   */
  Errors(boolean anyNonFinite) {
    this.anyNonFinite = anyNonFinite;
  }

  /**
   * Adds an element.
   *
   * @param tolerance the largest difference that passes
   */
  void add(double got, double wanted, double tolerance) {
    if (!Double.isFinite(got) || !Double.isFinite(wanted)) {
      boolean neither = !Double.isFinite(got) && !Double.isFinite(wanted);
      if (anyNonFinite ? !neither : Double.compare(got, wanted) != 0) {
        mismatches++;
      }
      return;
    }
    double error = Math.abs(got - wanted);
    finite++;
    squares += error * error;
    largest = Math.max(largest, error);
    if (error > 0) {
      worstShare = Math.max(worstShare, error / tolerance);
    }
  }

  /** Whether every element is within its tolerance. */
  boolean passed() {
    return mismatches == 0 && worstShare <= 1;
  }

  /** The largest difference. */
  double largest() {
    return largest;
  }

  /** The root of the mean of the squared differences. */
  double rms() {
    return finite == 0 ? 0 : Math.sqrt(squares / finite);
  }

  /** The errors, for people. */
  String summary() {
    String text = "largest error " + Quantity.error(largest()) + ", RMS " + Quantity.error(rms());
    return mismatches == 0
        ? text
        : text + ", " + mismatches + " elements that are a number on one side only";
  }

  /** The errors and whether they pass, for people. */
  String describe() {
    if (mismatches > 0) {
      return summary() + ": FAILED";
    }
    return passed()
        ? summary() + ": passed at " + Quantity.percent(worstShare) + " of the tolerance"
        : summary() + ": FAILED at " + Quantity.significant(worstShare) + " times the tolerance";
  }

  /** For machines. */
  Map<String, Object> json() {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("largestError", largest());
    json.put("rmsError", rms());
    json.put("mismatches", mismatches);
    json.put("worstErrorOverTolerance", worstShare);
    json.put("passed", passed());
    return json;
  }
}
