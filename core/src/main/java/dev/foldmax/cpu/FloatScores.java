package dev.foldmax.cpu;

import dev.foldmax.Attention;
import dev.foldmax.Tensor;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/** Scores in float32 scratch. */
class FloatScores extends ScoreView {
  private static final VectorSpecies<Float> F = Species.F32;

  private final FloatIo io;
  private final float[] run; // (most keys at a time)
  private float[] scores = {};
  private int offset;

  FloatScores(TileEngine engine, FloatIo io, int rowStride, int keyStride, int mostKeys) {
    super(engine, rowStride, keyStride);
    this.io = io;
    this.run = new float[mostKeys];
  }

  /** Looks at scratch whose index 0 is at {@code at}. */
  final FloatScores over(float[] scratch, int at) {
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
    scores[offset + index] = (float) score;
  }

  @Override
  void add(Tensor bias, long from, long step, int n, int index, int stride) {
    io.read(bias, from, step, n, run, 0);
    for (int j = 0; j < n; j++) {
      int at = offset + index + j * stride;
      scores[at] = withBias(scores[at], run[j]);
    }
  }

  /** One rounding, as in the vectors of {@link PanelScores}. */
  @Override
  void lower(int index, double slope, long distance) {
    int at = offset + index;
    scores[at] = Math.fma(-(float) slope, (float) distance, scores[at]);
  }

  /** A bias of -inf hides a key, also one whose score is NaN. */
  private static float withBias(float score, float bias) {
    return bias == Float.NEGATIVE_INFINITY ? bias : score + bias;
  }

  /** s = s * scale; n a multiple of vectors. */
  static void scale(float[] s, int n, float scale) {
    for (int i = 0; i < n; i += F.length()) {
      FloatVector.fromArray(F, s, i).mul(scale).intoArray(s, i);
    }
  }

  /**
   * The soft cap as a normal float32: beyond either end it makes no difference to float32 scores.
   */
  static float capOf(Attention attention) {
    return (float) Math.clamp(attention.softCap(), Float.MIN_NORMAL, Float.MAX_VALUE);
  }

  /** s = cap * tanh(s / cap); n a multiple of vectors. */
  static void softCap(float[] s, int n, float cap) {
    for (int i = 0; i < n; i += F.length()) {
      Exponential.tanh(FloatVector.fromArray(F, s, i).div(cap)).mul(cap).intoArray(s, i);
    }
  }
}
