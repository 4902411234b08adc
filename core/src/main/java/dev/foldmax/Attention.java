package dev.foldmax;

import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * What to compute: an immutable description of an attention, apart from its data.
 *
 * <pre>
 *   s = scale * (q . k)
 *   s = cap * tanh(s / cap)              soft cap, if any
 *   s = s + bias - slope * |i - j|       additive bias and ALiBi, if any
 *   s = f(s)                             a score function of the user's, if any
 *   s = -inf where masked
 *   output = softmax(s) V
 * </pre>
 *
 * <p>Start from {@link #standard} or {@link #causal} and add what is needed; each method returns a
 * new description. The softmax is the online one of Milakov and Gimelshein (arXiv 1805.02867),
 * tiled as in FlashAttention (Dao et al., arXiv 2205.14135, section 3.1).
 *
 * <p>Tensors given here are read at each call; they are shared, not copied.
 */
public final class Attention {
  /** The default threshold of {@link Rescale#LAZY}, in base 2: weights stay at or below 256. */
  public static final double DEFAULT_TAU = 8;

  private static final Attention STANDARD = new Attention();

  private double scale = Double.NaN;
  private Mask mask = Mask.none();
  private double softCap;
  private @Nullable Tensor bias;
  private @Nullable Tensor alibiSlopes;
  private Alignment alibiAlignment = Alignment.BOTTOM_RIGHT;
  private @Nullable Tensor sinks;
  private @Nullable ScoreFunction scoreFunction;
  private @Nullable Rescale rescale;
  private double tau = DEFAULT_TAU;
  private Phase phase = Phase.AUTO;

  private Attention() {}

  private Attention(Attention other) {
    scale = other.scale;
    mask = other.mask;
    softCap = other.softCap;
    bias = other.bias;
    alibiSlopes = other.alibiSlopes;
    alibiAlignment = other.alibiAlignment;
    sinks = other.sinks;
    scoreFunction = other.scoreFunction;
    rescale = other.rescale;
    tau = other.tau;
    phase = other.phase;
  }

  /** Scaled dot-product attention without a mask. */
  public static Attention standard() {
    return STANDARD;
  }

  /** Causal attention, the last query at the last key. */
  public static Attention causal() {
    return STANDARD.mask(Mask.causal());
  }

  /**
   * The factor of the dot product. It is applied to the score, not to the query.
   *
   * @param factor finite; may be zero or negative
   */
  public Attention scale(double factor) {
    if (!Double.isFinite(factor)) {
      throw new IllegalArgumentException("scale: must be finite, got " + factor);
    }
    Attention copy = new Attention(this);
    copy.scale = factor;
    return copy;
  }

  /** The mask, in place of the one so far; see {@link Mask#and} to combine. */
  public Attention mask(Mask newMask) {
    Objects.requireNonNull(newMask, "mask");
    Attention copy = new Attention(this);
    copy.mask = newMask;
    return copy;
  }

  /**
   * Bounds scores smoothly to {@code -cap..cap} (Gemma 2, section 2).
   *
   * @param cap positive and finite, or 0 for none
   */
  public Attention softCap(double cap) {
    if (!(cap >= 0) || Double.isInfinite(cap)) {
      throw new IllegalArgumentException(
          "softCap: must be positive and finite, or 0 for none, got " + cap);
    }
    Attention copy = new Attention(this);
    copy.softCap = cap;
    return copy;
  }

  /**
   * A natural (not base 2) number to add to each score.
   *
   * @param newBias floating, broadcastable to (batch, query heads, queries, keys); columns are
   *     counted from the first key that is present; -inf hides a key, whatever its score
   */
  public Attention bias(@Nullable Tensor newBias) {
    if (newBias != null && (!newBias.dtype().isFloating() || newBias.rank() > 4)) {
      throw new IllegalArgumentException(
          "bias: expected a floating tensor, broadcastable to (batch, heads, queries, keys), got "
              + newBias);
    }
    Attention copy = new Attention(this);
    copy.bias = newBias;
    return copy;
  }

  /**
   * ALiBi (Press et al., arXiv 2108.12409): subtracts {@code slope * |i - j|} for a query at
   * position i and a key at position j; aligned bottom-right.
   *
   * @param slopes floating, of shape (query heads) or (batch, query heads)
   */
  public Attention alibi(@Nullable Tensor slopes) {
    return alibi(slopes, Alignment.BOTTOM_RIGHT);
  }

  /** As {@link #alibi(Tensor)}, with an alignment. */
  public Attention alibi(@Nullable Tensor slopes, Alignment alignment) {
    Objects.requireNonNull(alignment, "alignment");
    if (slopes != null
        && (!slopes.dtype().isFloating() || slopes.rank() < 1 || slopes.rank() > 2)) {
      throw new IllegalArgumentException(
          "alibi: expected floating slopes of shape (query heads) or (batch, query heads), got "
              + slopes);
    }
    Attention copy = new Attention(this);
    copy.alibiSlopes = slopes;
    copy.alibiAlignment = alignment;
    return copy;
  }

  /**
   * Attention sinks: for each head a natural score, neither scaled nor capped, of one more key
   * whose value is 0. It counts in the logsumexp.
   *
   * @param newSinks floating, of shape (query heads)
   */
  public Attention sinks(@Nullable Tensor newSinks) {
    if (newSinks != null && (!newSinks.dtype().isFloating() || newSinks.rank() != 1)) {
      throw new IllegalArgumentException(
          "sinks: expected a floating tensor of shape (query heads), got " + newSinks);
    }
    Attention copy = new Attention(this);
    copy.sinks = newSinks;
    return copy;
  }

  /** A change of scores of the user's own. */
  public Attention scoreFunction(@Nullable ScoreFunction function) {
    Attention copy = new Attention(this);
    copy.scoreFunction = function;
    return copy;
  }

  /** When to rescale; without it each backend uses the dialect that is fastest there. */
  public Attention rescale(Rescale dialect) {
    Objects.requireNonNull(dialect, "rescale");
    Attention copy = new Attention(this);
    copy.rescale = dialect;
    return copy;
  }

  /**
   * {@link Rescale#LAZY} with a threshold.
   *
   * @param threshold in base 2, at least 0; weights grow up to {@code 2^threshold}, so it must
   *     leave room in the type that holds them: at most 64 for float32
   */
  public Attention lazyRescale(double threshold) {
    if (!(threshold >= 0 && threshold <= MAX_TAU)) {
      throw new IllegalArgumentException(
          "tau: weights reach 2^tau and their sum must fit float32, so tau is at most "
              + MAX_TAU
              + " and at least 0, got "
              + threshold);
    }
    Attention copy = new Attention(this);
    copy.rescale = Rescale.LAZY;
    copy.tau = threshold;
    return copy;
  }

  /** The largest threshold of {@link #lazyRescale}: 2^64 times 2^62 keys still fits float32. */
  public static final double MAX_TAU = 64;

  /** What this is part of, which can matter to the last bits; see {@link Phase}. */
  public Attention phase(Phase newPhase) {
    Objects.requireNonNull(newPhase, "phase");
    Attention copy = new Attention(this);
    copy.phase = newPhase;
    return copy;
  }

  /**
   * The factor of the dot product.
   *
   * @param keyDim the head dimension of queries and keys: without {@link #scale(double)} the factor
   *     is {@code 1 / sqrt(keyDim)}, and 1 for dimension 0
   */
  public double scaleFor(long keyDim) {
    if (Double.isNaN(scale)) {
      return keyDim == 0 ? 1 : 1 / Math.sqrt((double) keyDim);
    }
    return scale;
  }

  /** The mask. */
  public Mask mask() {
    return mask;
  }

  /** The soft cap, or 0. */
  public double softCap() {
    return softCap;
  }

  /** The additive bias, or null. */
  public @Nullable Tensor bias() {
    return bias;
  }

  /** ALiBi's slopes, or null. */
  public @Nullable Tensor alibiSlopes() {
    return alibiSlopes;
  }

  /** The alignment of ALiBi's positions. */
  public Alignment alibiAlignment() {
    return alibiAlignment;
  }

  /** The sinks, or null. */
  public @Nullable Tensor sinks() {
    return sinks;
  }

  /** The user's score function, or null. */
  public @Nullable ScoreFunction scoreFunction() {
    return scoreFunction;
  }

  /** When to rescale, or null for the backend's default. */
  public @Nullable Rescale rescale() {
    return rescale;
  }

  /** The threshold of {@link Rescale#LAZY}, in base 2. */
  public double tau() {
    return tau;
  }

  /** Which family of kernels serves this. */
  public Phase phase() {
    return phase;
  }

  @Override
  public String toString() {
    StringBuilder text = new StringBuilder("attention[mask ").append(mask);
    if (!Double.isNaN(scale)) {
      text.append(", scale ").append(scale);
    }
    if (softCap != 0) {
      text.append(", soft cap ").append(softCap);
    }
    if (bias != null) {
      text.append(", bias ").append(bias);
    }
    if (alibiSlopes != null) {
      text.append(", ALiBi");
    }
    if (sinks != null) {
      text.append(", sinks");
    }
    if (scoreFunction != null) {
      text.append(", score function");
    }
    if (rescale != null) {
      text.append(", rescale ").append(rescale);
    }
    return text.append(", phase ").append(phase).append(']').toString();
  }
}
