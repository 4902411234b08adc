package dev.foldmax.cpu;

import dev.foldmax.Tensor;

/** Scores in float64 scratch. */
final class DoubleScores extends ScoreView {
  private double[] scores = {};
  private int offset;

  DoubleScores(TileEngine engine, int rowStride, int keyStride) {
    super(engine, rowStride, keyStride);
  }

  /** Looks at scratch whose index 0 is at {@code at}. */
  DoubleScores over(double[] scratch, int at) {
    scores = scratch;
    offset = at;
    return this;
  }

  @Override
  double at(int index) {
    return scores[offset + index];
  }

  @Override
  void setAt(int index, double score) {
    scores[offset + index] = score;
  }

  @Override
  void add(Tensor bias, long from, long step, int n, int index, int stride) {
    for (int j = 0; j < n; j++) {
      int at = offset + index + j * stride;
      double b = bias.at(from + j * step);
      // -inf hides a key, also one whose score is NaN.
      scores[at] = b == Double.NEGATIVE_INFINITY ? b : scores[at] + b;
    }
  }

  @Override
  void lower(int index, double slope, long distance) {
    scores[offset + index] -= slope * distance;
  }

  /** s = s * scale, then s = cap * tanh(s / cap) where there is a cap. */
  static void scale(double[] s, int n, double scale, double cap) {
    for (int i = 0; i < n; i++) {
      s[i] *= scale;
    }
    for (int i = 0; cap > 0 && i < n; i++) {
      s[i] = cap * StrictMath.tanh(s[i] / cap);
    }
  }
}
