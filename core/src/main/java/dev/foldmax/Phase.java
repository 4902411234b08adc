package dev.foldmax;

/**
 * Which family of kernels serves an attention. Within a family the bits of a row do not depend on
 * the other rows of the call; between families they may differ in the last places.
 */
public enum Phase {
  /** {@link #DECODE} for at most 16 queries in a sequence, {@link #PREFILL} for more. */
  AUTO,
  /** Many queries at once. Say so for short chunks of a prompt, to get the bits of the whole. */
  PREFILL,
  /** A few queries over many keys. */
  DECODE;

  /** The most queries of a sequence that {@link #AUTO} takes for decoding. */
  public static final int MAX_DECODE_QUERIES = 16;

  /** The phase with AUTO resolved for the given number of queries. */
  public Phase resolve(long queries) {
    if (this != AUTO) {
      return this;
    }
    return queries <= MAX_DECODE_QUERIES ? DECODE : PREFILL;
  }
}
