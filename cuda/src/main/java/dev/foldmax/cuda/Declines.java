package dev.foldmax.cuda;

import java.util.Set;

/** What this backend declines altogether, in the words of {@link dev.foldmax.Backend#explain}. */
final class Declines {
  static final String FLOAT64 =
      "arithmetic in float64 (queries, keys or values of F64) is left to the CPU";
  static final String LONG_ROWS = "topK and sample take rows of less than 2^32 elements";
  static final String SCORE_FUNCTION = "a score function written in Java cannot run on the device";
  static final String MASK_FUNCTION = "a mask written in Java cannot run on the device";
  static final String MASKS =
      "more than " + AttentionArguments.MOST_MASKS + " boolean masks are not combined";

  private Declines() {}

  static Set<String> all() {
    return Set.of(FLOAT64, SCORE_FUNCTION, MASK_FUNCTION, MASKS);
  }
}
