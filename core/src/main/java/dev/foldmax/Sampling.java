package dev.foldmax;

/**
 * How to draw one index from a row of logits, as users of language models know it: divide by the
 * temperature; keep the {@code topK} largest; of these, renormalised, keep the fewest largest whose
 * probabilities reach {@code topP}; of these keep those with at least {@code minP} times the
 * largest probability; renormalise and draw. Ties keep the lower index first.
 *
 * <p>The draw is the Gumbel-max trick (Maddison et al., arXiv 1411.0030, section 2): each index
 * {@code i} of row {@code r} gets the key {@code logit / temperature - ln(E)}, where {@code E =
 * -ln(1 - u)} and {@code u} is a 32-bit uniform number in (0, 1) made by {@link #uniform} from the
 * seed, {@code firstRow + r} and {@code i} alone; the largest key wins. So a draw streams in one
 * pass, does not depend on how the row is cut, and rows of a batch draw independently.
 *
 * @param temperature at least 0 and finite; 0 takes the largest logit (the lowest index of ties)
 * @param topK how many of the largest to keep; 0 for all
 * @param topP in (0, 1]; 1 for all
 * @param minP in [0, 1]; 0 for all
 * @param seed of the generator
 * @param firstRow the number of the call's first row for the generator: let it grow from call to
 *     call (by the rows drawn) to draw afresh under the same seed
 */
public record Sampling(
    double temperature, long topK, double topP, double minP, long seed, long firstRow) {
  public Sampling {
    if (!(temperature >= 0) || Double.isInfinite(temperature)) {
      throw new IllegalArgumentException(
          "temperature: must be finite and at least 0, got " + temperature);
    }
    if (topK < 0) {
      throw new IllegalArgumentException("topK: must be at least 0, got " + topK);
    }
    if (!(topP > 0 && topP <= 1)) {
      throw new IllegalArgumentException("topP: must lie in (0, 1], got " + topP);
    }
    if (!(minP >= 0 && minP <= 1)) {
      throw new IllegalArgumentException("minP: must lie in [0, 1], got " + minP);
    }
  }

  /** The whole distribution at temperature 1. */
  public static Sampling seeded(long seed) {
    return new Sampling(1, 0, 1, 0, seed, 0);
  }

  /** The same at another temperature. */
  public Sampling temperature(double value) {
    return new Sampling(value, topK, topP, minP, seed, firstRow);
  }

  /** The same with another number of largest to keep; 0 for all. */
  public Sampling topK(long value) {
    return new Sampling(temperature, value, topP, minP, seed, firstRow);
  }

  /** The same with another nucleus. */
  public Sampling topP(double value) {
    return new Sampling(temperature, topK, value, minP, seed, firstRow);
  }

  /** The same with another least share of the largest probability. */
  public Sampling minP(double value) {
    return new Sampling(temperature, topK, topP, value, seed, firstRow);
  }

  /** The same for rows numbered from {@code value}. */
  public Sampling firstRow(long value) {
    return new Sampling(temperature, topK, topP, minP, seed, value);
  }

  /**
   * The stream of a row: the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) applied
   * to seed and row.
   */
  public static long stream(long seed, long row) {
    return mix64(mix64(seed + 0x9e3779b97f4a7c15L) + row * 0x9e3779b97f4a7c15L);
  }

  private static long mix64(long z) {
    long x = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
    x = (x ^ (x >>> 27)) * 0x94d049bb133111ebL;
    return x ^ (x >>> 31);
  }

  /**
   * The 32 random bits of an index: two rounds of a 32-bit multiply-xorshift mix over the index,
   * keyed by both halves of the row's stream. Integer arithmetic only, so that SIMD lanes make the
   * same bits.
   *
   * @param stream from {@link #stream}
   * @param index of the element in its row; its lower and its upper 32 bits are mixed in
   */
  public static int bits(long stream, long index) {
    int x = (int) index ^ (int) stream;
    x = (x ^ (x >>> 16)) * 0x21f0aaad;
    x = (x ^ (x >>> 15)) * 0xd35a2d97;
    x = (x ^ (x >>> 15)) + (int) (stream >>> 32) + (int) (index >>> 32) * 0x9e3779b9;
    x = (x ^ (x >>> 16)) * 0x21f0aaad;
    x = (x ^ (x >>> 15)) * 0xd35a2d97;
    return x ^ (x >>> 15);
  }

  /** The uniform number of an index: {@code (bits + 0.5) / 2^32}, in (0, 1). */
  public static double uniform(long stream, long index) {
    return (Integer.toUnsignedLong(bits(stream, index)) + 0.5) * 0x1p-32;
  }
}
