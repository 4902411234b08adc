package dev.foldmax;

/**
 * What an attention is part of, from which follows the family of kernels that serves it. Within a
 * family the bits of a row do not depend on the other rows of the call; between families they may
 * differ in the last places. On the CPU the two phases are one family, unless computing in float32
 * with one query head to each key head: decoding is faster then with kernels of its own.
 */
public enum Phase {
  /** {@link #DECODE} for at most 16 queries in a sequence, {@link #PREFILL} for more. */
  AUTO,
  /**
   * The tokens of a prompt. Said for short chunks of a prompt or for single tokens, it gives them
   * the bits that they get in a call with the whole prompt.
   */
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
