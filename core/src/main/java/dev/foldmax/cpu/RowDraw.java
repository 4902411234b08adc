package dev.foldmax.cpu;

import dev.foldmax.Sampling;
import java.util.Arrays;

/**
 * A worker's draw from a row, by the largest key (see {@link Sampling}). Float32 bounds tell which
 * elements may still win; only their keys are computed, in float64, as the definition says, and
 * these decide. So the winner depends neither on the order in which elements come nor on how the
 * row is cut.
 */
final class RowDraw {
  /** No winner. */
  static final long NONE = -1;

  /** Outside 2^-EXTREME to 2^EXTREME a temperature is left to float64. */
  private static final int EXTREME = 60;

  private final float[] differences = new float[RowPass.BLOCK + RaceBounds.V];
  private final int[] bits = new int[RowPass.BLOCK];
  private final float[] bounds = new float[RowPass.BLOCK];
  private final float[] lanes = new float[RaceBounds.V];

  private double temperature;
  private double max;
  private double least;
  private long stream;
  private double cutValue;
  private long cutIndex;
  private double best;
  private long winner;

  /** Bounds above this one cannot win; NaN where float32 says nothing. */
  private float threshold;

  private boolean hasNaN;

  /**
   * Starts a row.
   *
   * @param row its number for the generator
   * @param rowMax the largest element that is not NaN
   */
  void start(Sampling sampling, long row, double rowMax) {
    temperature = sampling.temperature();
    max = rowMax;
    least = Math.log(sampling.minP());
    stream = Sampling.stream(sampling.seed(), row);
    cutValue = Double.NEGATIVE_INFINITY;
    cutIndex = Long.MAX_VALUE;
    setBest(Double.NEGATIVE_INFINITY, NONE);
    hasNaN = false;
  }

  /** Restricts the row's draw to what a nucleus keeps. */
  void restrict(Nucleus nucleus) {
    cutValue = nucleus.value();
    cutIndex = nucleus.index();
  }

  /** Takes part of the row into the draw. */
  void add(RowPass pass, Elements x, long row, long begin, long end) {
    for (long block = begin; block < end && !hasNaN; block += RowPass.BLOCK) {
      pass.reach(block - begin, end - begin);
      pass.open(x, row, block, (int) Math.min(RowPass.BLOCK, end - block));
      addSource(pass, block);
    }
  }

  private void addSource(RowPass pass, long first) {
    int n = pass.length();
    pass.differences(max, differences);
    Arrays.fill(differences, n, n + RaceBounds.V, Float.NEGATIVE_INFINITY);
    float inverse = (float) (1 / temperature);
    RaceBounds.bounds(stream, first, n, differences, inverse, floor(), bits, bounds, lanes);
    offerLeast(pass, first, n);
    int i = 0;
    while ((i = RaceBounds.findNotAbove(bounds, i, n, threshold)) < n) {
      for (int end = Math.min(n, i + RaceBounds.V); i < end; i++) {
        if (!(bounds[i] > threshold)) {
          offer(pass.element(i), first + i);
        }
      }
    }
  }

  /** Offers the element with the least bound first, which leaves hardly another to be offered. */
  private void offerLeast(RowPass pass, long first, int n) {
    float least = lanes[0];
    for (float bound : lanes) {
      least = Math.min(least, bound);
    }
    if (!(least <= threshold)) {
      return;
    }
    int i = RaceBounds.findNotAbove(bounds, 0, n, least);
    while (i < n && bounds[i] != least) {
      i++;
    }
    if (i < n) {
      offer(pass.element(i), first + i);
      bounds[i] = Float.POSITIVE_INFINITY;
    }
  }

  /** The differences x - max below which nothing is kept, with room for their rounding. */
  private float floor() {
    double floor = Math.max(least * temperature, cutValue - max);
    return floor == Double.NEGATIVE_INFINITY
        ? Float.NEGATIVE_INFINITY
        : (float) (floor - Math.abs(floor) * 1e-6);
  }

  /** Sets the largest key so far, and the bound above which none is larger. */
  private void setBest(double key, long index) {
    best = key;
    winner = index;
    threshold =
        Math.abs(Math.getExponent(temperature)) > EXTREME
            ? Float.NaN
            : (float) (Math.min(RaceBounds.LATEST, Math.exp(-best)) * (1 + RaceBounds.ERROR));
  }

  /** Offers an element. */
  void offer(double x, long index) {
    if (Double.isNaN(x)) {
      hasNaN = true;
      return;
    }
    double score = (x - max) / temperature;
    boolean isCut = x < cutValue || (x == cutValue && index > cutIndex);
    if (score < least || score == Double.NEGATIVE_INFINITY || isCut) {
      return;
    }
    double exponential = -Math.log1p(-Sampling.uniform(stream, index));
    offerKey(score - Math.log(exponential), index);
  }

  private void offerKey(double key, long index) {
    if (key > best || (key == best && index < winner)) {
      setBest(key, index);
    }
  }

  /** Starts the row of another draw, without elements. */
  void startAs(RowDraw other) {
    temperature = other.temperature;
    max = other.max;
    least = other.least;
    stream = other.stream;
    cutValue = other.cutValue;
    cutIndex = other.cutIndex;
    setBest(Double.NEGATIVE_INFINITY, NONE);
    hasNaN = false;
  }

  /** Takes in what another part of the row came to. */
  void merge(RowDraw other) {
    hasNaN |= other.hasNaN;
    offerKey(other.best, other.winner);
  }

  /** The index drawn; {@link #NONE} if the row has a NaN. */
  long winner() {
    return hasNaN ? NONE : winner;
  }
}
