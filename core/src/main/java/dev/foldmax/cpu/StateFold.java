package dev.foldmax.cpu;

import dev.foldmax.AttentionPartial.Piece;
import dev.foldmax.Tensor;
import dev.foldmax.spi.PartialSet;
import dev.foldmax.spi.Rows;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Goes on, row by row, with a fold that others left as the states of pieces: the same tree over
 * cells as that of {@link TileEngine}, and, through the subclasses, the same arithmetic. Belongs to
 * one worker, for one call.
 *
 * @param <A> the states' numbers: {@code float[]} or {@code double[]}
 */
abstract class StateFold<A> {
  /** The place of the state in work; that of level n of the tree is n + 2. */
  static final int STATE = 0;

  /** That of the earlier part of a cell that was cut. */
  private static final int PART = 1;

  private static final int FIRST_LEVEL = 2;

  private final ScratchIo<A> io;
  private final PartialSet set;
  private final List<PartialSet.State> states;
  private final long cellKeys;
  private final double unit;
  private final int dims;

  /** Bit n is set while level n holds a state. */
  private long levels;

  StateFold(ScratchIo<A> io, PartialSet set) {
    this.io = io;
    this.set = set;
    this.states = set.states();
    this.cellKeys = set.fold().cellKeys();
    this.unit = set.fold().unit();
    this.dims = set.valueDim();
  }

  /** Makes room for so many places. */
  abstract void reserve(int places);

  /** Sets the maximum and the sum of the state in work. */
  abstract void setState(double max, double sum);

  abstract double max();

  abstract double sum();

  /** The weighted values of the state in work, from 0. */
  abstract A outputs();

  /** state = merge(place, state), the place's keys being the earlier ones. */
  abstract void mergeFrom(int place);

  /** Copies the state to a place. */
  abstract void copyTo(int place);

  /** Folds a row's states and writes its output and logsumexp. */
  final void foldRow(long row, Tensor out, @Nullable Tensor lse) {
    reserve(FIRST_LEVEL + Long.SIZE - Long.numberOfLeadingZeros(lastCell()));
    levels = 0;
    boolean part = false;
    for (int i = 0; i < states.size(); i++) {
      load(states.get(i), row);
      if (part) {
        mergeFrom(PART);
      }
      Piece piece = states.get(i).piece();
      if (i == states.size() - 1) {
        break;
      }
      part = piece.end() % cellKeys != 0;
      if (part) {
        copyTo(PART);
      } else {
        close(piece);
      }
    }
    for (int level = 0; levels != 0; level++) {
      takeLevel(level);
    }
    io.finish(
        max() * unit,
        sum(),
        set.sink(row),
        outputs(),
        0,
        dims,
        out,
        Rows.offset(out, row),
        lse,
        lse == null ? 0 : Rows.elementOffset(lse, row));
  }

  private long lastCell() {
    return states.getLast().piece().end() / cellKeys;
  }

  private void load(PartialSet.State state, long row) {
    setState(state.max(row), state.sum(row));
    Tensor from = state.partial().outputs();
    io.read(from, state.outputOffset(row), from.stride(-1), dims, outputs(), 0);
  }

  /** Carries a piece, which ends at a cell, into the tree as {@code TileEngine.close} does. */
  private void close(Piece piece) {
    long cells = Math.max(1, (piece.end() - piece.begin()) / cellKeys);
    int level = Long.numberOfTrailingZeros(cells);
    for (long carry = piece.begin() / cellKeys / cells; (carry & 1) == 1; carry >>= 1) {
      takeLevel(level++);
    }
    copyTo(FIRST_LEVEL + level);
    levels |= 1L << level;
  }

  private void takeLevel(int level) {
    if ((levels >> level & 1) == 1) {
      mergeFrom(FIRST_LEVEL + level);
      levels &= ~(1L << level);
    }
  }

  /** In float32, with the merge of {@link FloatDecode} and {@link FloatPrefill}. */
  static final class OfFloats extends StateFold<float[]> {
    private final int padded;
    private final float factor;
    private final float factorLow;
    private final float least;
    private float[] max = {}; // (places)
    private float[] sum = {}; // (places)
    private float[] o = {}; // (places, dims), dims padded to whole vectors

    OfFloats(PartialSet set) {
      super(new FloatIo(), set);
      double c = set.fold().unit() * Exponential.LOG2_E_DOUBLE;
      padded = Math.ceilDiv(set.valueDim(), FloatStream.V) * FloatStream.V;
      factor = (float) c;
      factorLow = Exponential.low(c);
      least = Exponential.least(factor);
    }

    @Override
    void reserve(int places) {
      if (max.length < places) {
        max = Arrays.copyOf(max, places);
        sum = Arrays.copyOf(sum, places);
        o = Arrays.copyOf(o, places * padded);
      }
    }

    @Override
    void setState(double newMax, double newSum) {
      max[STATE] = (float) newMax;
      sum[STATE] = (float) newSum;
    }

    @Override
    double max() {
      return max[STATE];
    }

    @Override
    double sum() {
      return sum[STATE];
    }

    @Override
    float[] outputs() {
      return o;
    }

    @Override
    void mergeFrom(int place) {
      float m = max[place] > max[STATE] ? max[place] : max[STATE];
      float c1 = FloatDecode.correction(max[place], m, factor, factorLow, least);
      float c2 = FloatDecode.correction(max[STATE], m, factor, factorLow, least);
      sum[STATE] = sum[STATE] * c2 + sum[place] * c1;
      FloatStream.mergeOutputs(o, place * padded, c1, o, STATE, c2, padded);
      max[STATE] = m;
    }

    @Override
    void copyTo(int place) {
      max[place] = max[STATE];
      sum[place] = sum[STATE];
      System.arraycopy(o, STATE, o, place * padded, padded);
    }
  }

  /** In float64, with the merge of {@link DoubleAttention}. */
  static final class OfDoubles extends StateFold<double[]> {
    private final int padded;
    private final double factor;
    private final double factorLow;
    private final double least;
    private double[] max = {}; // (places)
    private double[] sum = {}; // (places)
    private double[] o = {}; // (places, dims), dims padded to whole vectors

    OfDoubles(PartialSet set) {
      super(new DoubleIo(), set);
      padded = Math.ceilDiv(set.valueDim(), DoubleStream.V) * DoubleStream.V;
      factor = set.fold().unit() * Exponential.LOG2_E_DOUBLE;
      factorLow = set.fold().unit() * Exponential.LOG2_E_DOUBLE_LOW;
      least = Exponential.least(factor);
    }

    @Override
    void reserve(int places) {
      if (max.length < places) {
        max = Arrays.copyOf(max, places);
        sum = Arrays.copyOf(sum, places);
        o = Arrays.copyOf(o, places * padded);
      }
    }

    @Override
    void setState(double newMax, double newSum) {
      max[STATE] = newMax;
      sum[STATE] = newSum;
    }

    @Override
    double max() {
      return max[STATE];
    }

    @Override
    double sum() {
      return sum[STATE];
    }

    @Override
    double[] outputs() {
      return o;
    }

    @Override
    void mergeFrom(int place) {
      double m = max[place] > max[STATE] ? max[place] : max[STATE];
      double c1 = DoubleAttention.correction(max[place], m, factor, factorLow, least);
      double c2 = DoubleAttention.correction(max[STATE], m, factor, factorLow, least);
      sum[STATE] = sum[STATE] * c2 + sum[place] * c1;
      DoubleStream.mergeOutputs(o, place * padded, c1, o, STATE, c2, padded);
      max[STATE] = m;
    }

    @Override
    void copyTo(int place) {
      max[place] = max[STATE];
      sum[place] = sum[STATE];
      System.arraycopy(o, STATE, o, place * padded, padded);
    }
  }
}
