package dev.foldmax.cuda;

import dev.foldmax.Attention;
import dev.foldmax.Rescale;
import dev.foldmax.spi.AttentionCall;

/** What the options of attention kernels say of a call. */
final class AttentionMacros {
  static final String TYPE = "FOLDMAX_TYPE";
  static final String KEY_DIM = "FOLDMAX_KEY_DIM";
  static final String VALUE_DIM = "FOLDMAX_VALUE_DIM";
  static final String SCORES = "FOLDMAX_SCORES";
  static final String RESCALE = "FOLDMAX_RESCALE";
  static final String SHARED = "FOLDMAX_SHARED";

  /** enum class Scores. */
  private static final int LINEAR = 0;

  private static final int GENERAL = 1;

  private AttentionMacros() {}

  /** Whether scores are dot products times a positive, normal scale, or more. */
  static int scores(AttentionCall call) {
    Attention attention = call.attention();
    boolean linear =
        (float) call.scale() >= Float.MIN_NORMAL
            && attention.softCap() == 0
            && attention.bias() == null
            && attention.alibiSlopes() == null;
    return linear ? LINEAR : GENERAL;
  }

  /**
   * The number of the call's dialect in enum class Rescale, or of the one that a kernel prefers.
   */
  static int rescale(AttentionCall call, Rescale preferred) {
    Rescale wanted = call.attention().rescale();
    return switch (wanted == null ? preferred : wanted) {
      case ALWAYS -> 0;
      case ON_NEW_MAX -> 1;
      case LAZY -> 2;
    };
  }
}
