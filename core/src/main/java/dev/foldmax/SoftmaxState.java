package dev.foldmax;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * The state of an online softmax: the running maximum m, the running sum l of weights, and the
 * running weighted sum O of values. This is the whole algorithm; every kernel of this library is a
 * faster spelling of it.
 *
 * <p>For a tile of scores S with values V (Milakov and Gimelshein, arXiv 1805.02867, algorithm 3;
 * Dao et al., arXiv 2205.14135, algorithm 1):
 *
 * <pre>
 *   m' = max(m, max(S))
 *   c  = exp(m - m')
 *   P  = exp(S - m')
 *   l  = l * c + sum(P)
 *   O  = O * c + P * V
 *   m  = m'
 * </pre>
 *
 * and at the end {@code O / l} is the softmax-weighted mean of the values and {@code m + ln(l)} the
 * logsumexp of the scores. It is right because {@code exp(x - m) = exp(x - m') * exp(m' - m)}: when
 * the maximum rises, every term added before is too large by exactly {@code 1 / c}.
 *
 * <p>States of disjoint sets of keys {@link #merge}; the empty state (-inf, 0, 0) is the identity.
 * Merging is associative and commutative up to rounding.
 *
 * <p>A score of -inf contributes nothing, whatever its value holds. NaN, and +inf, make the output
 * and the logsumexp NaN. Arithmetic is in float64. A state costs {@code 8 (d + 2)} bytes; adding a
 * key costs one exponential and d multiply-adds. Not thread-safe.
 */
public final class SoftmaxState {
  private static final int MAGIC = 0x58414d46; // "FMAX" in little-endian order
  private static final int VERSION = 1;
  private static final int HEADER_BYTES = 3 * Integer.BYTES + 2 * Double.BYTES;

  private final Rescale rescale;
  private final double lazyThreshold;
  private double m = Double.NEGATIVE_INFINITY;
  private double l;
  private final double[] o;

  /** An empty state over values of the given dimension; 0 for the sum alone. */
  public SoftmaxState(int dimension) {
    this(dimension, Rescale.ON_NEW_MAX, Attention.DEFAULT_TAU);
  }

  /**
   * An empty state.
   *
   * @param dimension of the values, at least 0
   * @param rescale when to correct for a new maximum
   * @param tau the threshold of {@link Rescale#LAZY} in base 2, 0 to {@link Attention#MAX_TAU}
   */
  public SoftmaxState(int dimension, Rescale rescale, double tau) {
    if (dimension < 0) {
      throw new IllegalArgumentException("dimension: must be at least 0, got " + dimension);
    }
    if (!(tau >= 0 && tau <= Attention.MAX_TAU)) {
      throw new IllegalArgumentException(
          "tau: must lie in 0 to " + Attention.MAX_TAU + ", got " + tau);
    }
    this.rescale = rescale;
    this.lazyThreshold = tau * Math.log(2);
    this.o = new double[dimension];
  }

  /**
   * The state of a finished result: maximum {@code logSumExp}, sum 1. It merges with others, and
   * takes in more keys, as the state would that gave the result.
   *
   * @param output the softmax-weighted mean of the values, which is copied
   * @param logSumExp the natural logarithm of the sum of exponentials. Whatever the output holds,
   *     -inf gives an empty state, and NaN and +inf give what a first key of that score leads to: a
   *     sum and an output of NaN, and a maximum of -inf for NaN, which is no maximum, and of +inf
   */
  public static SoftmaxState of(double[] output, double logSumExp) {
    SoftmaxState state = new SoftmaxState(output.length);
    if (Double.isNaN(logSumExp) || logSumExp == Double.POSITIVE_INFINITY) {
      state.m = Double.isNaN(logSumExp) ? Double.NEGATIVE_INFINITY : logSumExp;
      state.l = Double.NaN;
      Arrays.fill(state.o, Double.NaN);
    } else if (logSumExp != Double.NEGATIVE_INFINITY) {
      state.m = logSumExp;
      state.l = 1;
      System.arraycopy(output, 0, state.o, 0, output.length);
    }
    return state;
  }

  /** Adds a key without a value; only for dimension 0. */
  public void add(double score) {
    add(score, EMPTY);
  }

  private static final double[] EMPTY = {};

  /** Adds one key: its natural score and its value, an array of this state's dimension. */
  public void add(double score, double[] value) {
    checkLength("value", value.length, o.length);
    raiseMaximum(score);
    addWeighted(score, value, 0);
  }

  /**
   * Adds a tile of keys.
   *
   * @param scores natural scores, one for each key
   * @param values row-major, (keys, dimension)
   */
  public void addTile(double[] scores, double[] values) {
    checkLength("values", values.length, Math.multiplyExact(scores.length, o.length));
    double tileMax = Double.NEGATIVE_INFINITY;
    for (double score : scores) {
      tileMax = score > tileMax ? score : tileMax; // a NaN is left to the sum
    }
    raiseMaximum(tileMax);
    for (int j = 0; j < scores.length; j++) {
      addWeighted(scores[j], values, j * o.length);
    }
  }

  /** m' and c, and the corrections of l and O, in the state's dialect. */
  private void raiseMaximum(double candidate) {
    double threshold = rescale == Rescale.LAZY && m != Double.NEGATIVE_INFINITY ? lazyThreshold : 0;
    double newMax = candidate > m + threshold ? candidate : m;
    if (newMax != m || rescale == Rescale.ALWAYS) {
      correct(correction(m, newMax));
      m = newMax;
    }
  }

  private void addWeighted(double score, double[] values, int offset) {
    if (score == Double.NEGATIVE_INFINITY) {
      return; // its weight is 0, but 0 times a NaN or an infinity is not
    }
    double p = Math.exp(score - m);
    l += p;
    for (int d = 0; d < o.length; d++) {
      o[d] += p * values[offset + d];
    }
  }

  private void correct(double c) {
    l *= c;
    for (int d = 0; d < o.length; d++) {
      o[d] *= c;
    }
  }

  /** exp(from - to), and 1 where the maximum stays, be it infinite. */
  private static double correction(double from, double to) {
    return from == to ? 1 : Math.exp(from - to);
  }

  /**
   * Merges the state of other keys into this one. Merging an empty state changes no bit, and
   * merging into an empty one copies the other's.
   */
  public void merge(SoftmaxState other) {
    checkLength("other", other.o.length, o.length);
    if (other.isEmpty()) {
      return;
    }
    if (isEmpty()) { // not 0 + O, which would lose the sign of a zero
      m = other.m;
      l = other.l;
      System.arraycopy(other.o, 0, o, 0, o.length);
      return;
    }
    double newMax = Math.max(m, other.m);
    double c = correction(other.m, newMax);
    if (newMax != m) {
      correct(correction(m, newMax));
      m = newMax;
    }
    l += other.l * c;
    for (int d = 0; d < o.length; d++) {
      o[d] += other.o[d] * c;
    }
  }

  /** Whether no key has been added, or only keys of score -inf. */
  public boolean isEmpty() {
    return l == 0;
  }

  /** The dimension of the values. */
  public int dimension() {
    return o.length;
  }

  /** The maximum that sum and output refer to; under {@link Rescale#LAZY} it may be stale. */
  public double max() {
    return m;
  }

  /** The sum of weights, {@code sum(exp(score - max()))}. */
  public double sum() {
    return l;
  }

  /** The natural logarithm of the sum of exponentials of the scores; -inf for an empty state. */
  public double logSumExp() {
    return isEmpty() ? Double.NEGATIVE_INFINITY : m + Math.log(l);
  }

  /** The softmax-weighted mean of the values, in a new array; zeros for an empty state. */
  public double[] output() {
    double[] output = new double[o.length];
    if (!isEmpty()) {
      for (int d = 0; d < o.length; d++) {
        output[d] = o[d] / l;
      }
    }
    return output;
  }

  /** Back to the empty state. */
  public void reset() {
    m = Double.NEGATIVE_INFINITY;
    l = 0;
    Arrays.fill(o, 0);
  }

  /**
   * The state as bytes, little-endian: the characters FMAX, the version (int, 1), the dimension
   * (int), then m, l and O as float64. The dialect is not part of it: what a state holds does not
   * depend on how it was reached.
   */
  public byte[] toBytes() {
    ByteBuffer buffer =
        ByteBuffer.allocate(HEADER_BYTES + o.length * Double.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    buffer.putInt(MAGIC).putInt(VERSION).putInt(o.length).putDouble(m).putDouble(l);
    buffer.asDoubleBuffer().put(o);
    return buffer.array();
  }

  /**
   * Reads what {@link #toBytes} wrote, after {@link #validate}. The result has the dialect {@link
   * Rescale#ON_NEW_MAX}.
   */
  public static SoftmaxState fromBytes(byte[] bytes) {
    validate(bytes);
    ByteBuffer buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    SoftmaxState state = new SoftmaxState(buffer.getInt(2 * Integer.BYTES));
    buffer.position(3 * Integer.BYTES);
    state.m = buffer.getDouble();
    state.l = buffer.getDouble();
    buffer.asDoubleBuffer().get(state.o);
    return state;
  }

  /**
   * Checks bytes that came from outside, without allocating: that they have the form of {@link
   * #toBytes} and hold a state that some keys could have led to.
   *
   * @throws IllegalArgumentException with a sentence that says what is wrong
   */
  public static void validate(byte[] bytes) {
    if (bytes.length < HEADER_BYTES) {
      throw new IllegalArgumentException(
          "state: " + bytes.length + " bytes are too few for a header of " + HEADER_BYTES);
    }
    ByteBuffer buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    if (buffer.getInt() != MAGIC) {
      throw new IllegalArgumentException("state: does not begin with FMAX");
    }
    int version = buffer.getInt();
    if (version != VERSION) {
      throw new IllegalArgumentException(
          "state: version " + version + " is not known, expected " + VERSION);
    }
    int dimension = buffer.getInt();
    if (dimension < 0 || bytes.length != HEADER_BYTES + (long) dimension * Double.BYTES) {
      throw new IllegalArgumentException(
          "state: " + bytes.length + " bytes do not fit dimension " + dimension);
    }
    double max = buffer.getDouble();
    double sum = buffer.getDouble();
    // The key that set the maximum has weight 1, and a maximum of +inf makes the sum NaN.
    boolean isSum = sum == 0 || (sum >= 1 && sum < Double.POSITIVE_INFINITY);
    boolean possible = Double.isNaN(sum) || (isSum && max < Double.POSITIVE_INFINITY);
    if (Double.isNaN(max) || !possible) {
      throw new IllegalArgumentException(
          "state: no keys lead to maximum " + max + " and sum " + sum);
    }
    if (sum == 0) {
      if (max != Double.NEGATIVE_INFINITY) {
        throw new IllegalArgumentException("state: maximum " + max + " but no weight");
      }
      while (buffer.hasRemaining()) {
        if (buffer.getDouble() != 0) {
          throw new IllegalArgumentException("state: values but no weight");
        }
      }
    } else if (max == Double.NEGATIVE_INFINITY && !Double.isNaN(sum)) {
      throw new IllegalArgumentException("state: weight " + sum + " but no maximum");
    }
  }

  private static void checkLength(String name, int actual, int expected) {
    if (actual != expected) {
      throw new IllegalArgumentException(
          name + ": expected " + expected + " numbers, got " + actual);
    }
  }

  /** The state in words: m, l, and O for small dimensions. */
  @Override
  public String toString() {
    return "SoftmaxState[m="
        + m
        + ", l="
        + l
        + (o.length <= 8 ? ", O=" + Arrays.toString(o) : "")
        + "]";
  }
}
