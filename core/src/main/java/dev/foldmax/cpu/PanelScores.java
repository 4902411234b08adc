package dev.foldmax.cpu;

import dev.foldmax.Tensor;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * The scores of a panel, where lanes are queries: biases, ALiBi and boolean masks in vectors. A
 * tensor's rows run along the keys, across the lanes, so they are transposed first; one that is the
 * same for all queries is broadcast. Where a panel's rows are queries of several heads, ALiBi falls
 * back to scalar code.
 */
final class PanelScores extends FloatScores {
  private static final VectorSpecies<Float> F = Species.F32;
  private static final VectorSpecies<Integer> I = Species.I32;
  private static final int V = FloatPanel.V;
  private static final int W = FloatPanel.W;

  /** Distances up to here are computed in 32-bit integers. */
  private static final long FAR = 1 << 30;

  private final FloatIo io;
  private final float[] scores; // (keys, W)
  private final int rowStride;
  private final float[] rows; // (W, rowStride)
  private final float[] lanes; // (keys, W)
  private boolean plain;

  /**
   * A view of a panel's scores.
   *
   * @param scores (keys, W)
   */
  PanelScores(TileEngine engine, FloatIo io, float[] scores, int mostKeys) {
    super(engine, io, 1, W, mostKeys);
    over(scores, 0);
    this.io = io;
    this.scores = scores;
    this.rowStride = FloatPanel.roundUp(mostKeys);
    this.rows = new float[W * rowStride];
    this.lanes = new float[rowStride * W];
  }

  /** Whether to work as {@link ScoreView} does, in scalar code with the same bits. */
  void setPlain(boolean plainLoops) {
    plain = plainLoops;
  }

  @Override
  void addBias(Tensor bias) {
    if (plain) {
      super.addBias(bias);
    } else if (isOneRow(bias)) {
      readRow(bias, 0);
      addToLanes(rows, scores, keys());
    } else {
      readLanes(bias);
      add(lanes, scores, keys());
    }
  }

  @Override
  void hide(Tensor visible) {
    if (plain) {
      super.hide(visible);
    } else if (isOneRow(visible)) {
      readRow(visible, 0);
      hideFromLanes(rows, scores, keys());
    } else {
      readLanes(visible);
      hide(lanes, scores, keys());
    }
  }

  @Override
  void addAlibi() {
    long distance = distance(0);
    if (!plain && isOneHead() && Math.abs(distance) < FAR) {
      lower((int) distance, (float) slope(0), scores, keys());
    } else {
      super.addAlibi();
    }
  }

  /** Whether the rows are queries of one head, in order, and not of several that share keys. */
  private boolean isOneHead() {
    return head(0) == head(queries() - 1);
  }

  /** Whether all rows share a row of the tensor. */
  private boolean isOneRow(Tensor tensor) {
    boolean anyQuery = tensor.rank() < 2 || tensor.shape(-2) == 1 || tensor.stride(-2) == 0;
    return anyQuery && isOneHead();
  }

  private void readRow(Tensor tensor, int i) {
    io.read(tensor, firstColumn(tensor, i), columnStep(tensor), keys(), rows, i * rowStride);
  }

  /** Reads the rows and turns them; lanes without a query keep what they held. */
  private void readLanes(Tensor tensor) {
    for (int i = 0; i < queries(); i++) {
      readRow(tensor, i);
    }
    FloatPacking.transpose(rows, rowStride, W, keys(), lanes, W);
  }

  /** As {@link FloatScores}: a bias of -inf hides a key, also one whose score is NaN. */
  private static void add(float[] bias, float[] s, int keys) {
    for (int i = 0; i < keys * W; i += V) {
      FloatVector b = FloatVector.fromArray(F, bias, i);
      FloatVector sum = FloatVector.fromArray(F, s, i).add(b);
      sum.blend(b, b.compare(VectorOperators.EQ, Float.NEGATIVE_INFINITY)).intoArray(s, i);
    }
  }

  private static void addToLanes(float[] bias, float[] s, int keys) {
    for (int j = 0; j < keys; j++) {
      float b = bias[j];
      for (int i = j * W; i < j * W + W; i += V) {
        FloatVector x = FloatVector.broadcast(F, b);
        if (b != Float.NEGATIVE_INFINITY) {
          x = x.add(FloatVector.fromArray(F, s, i));
        }
        x.intoArray(s, i);
      }
    }
  }

  private static void hide(float[] visible, float[] s, int keys) {
    for (int i = 0; i < keys * W; i += V) {
      FloatVector.fromArray(F, s, i)
          .blend(
              Float.NEGATIVE_INFINITY,
              FloatVector.fromArray(F, visible, i).compare(VectorOperators.EQ, 0))
          .intoArray(s, i);
    }
  }

  private static void hideFromLanes(float[] visible, float[] s, int keys) {
    FloatVector hidden = FloatVector.broadcast(F, Float.NEGATIVE_INFINITY);
    for (int j = 0; j < keys; j++) {
      if (visible[j] == 0) {
        hidden.intoArray(s, j * W);
        hidden.intoArray(s, j * W + V);
      }
    }
  }

  /** {@code s = s - slope * |distance + lane - j|}, rounded once. */
  private static void lower(int distance, float slope, float[] s, int keys) {
    IntVector lane = IntVector.zero(I).addIndex(1);
    for (int i = 0; i < W; i += V) {
      for (int j = 0; j < keys; j++) {
        FloatVector d =
            (FloatVector) lane.add(distance + i - j).abs().convert(VectorOperators.I2F, 0);
        d.fma(FloatVector.broadcast(F, -slope), FloatVector.fromArray(F, s, j * W + i))
            .intoArray(s, j * W + i);
      }
    }
  }
}
