package dev.foldmax.cpu;

import dev.foldmax.Tensor;

/** Scores in float64 scratch. */
final class DoubleScores extends ScoreView {
  private double[] scores = {};

  DoubleScores(TileEngine engine, int rowStride, int keyStride) {
    super(engine, rowStride, keyStride);
  }

  /** Looks at scratch. */
  DoubleScores over(double[] scratch) {
    scores = scratch;
    return this;
  }

  @Override
  double at(int index) {
    return scores[index];
  }

  @Override
  void setAt(int index, double score) {
    scores[index] = score;
  }

  @Override
  void add(Tensor bias, long from, long step, int n, int index, int stride) {
    for (int j = 0; j < n; j++) {
      scores[index + j * stride] += bias.at(from + j * step);
    }
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
