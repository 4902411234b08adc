package dev.foldmax;

/**
 * When the running sum and the running output are corrected for a new maximum. The three dialects
 * give the same result up to rounding; production kernels differ in which one they speak.
 *
 * <p>In all three the weights, the sum, the output and the logsumexp refer to one and the same
 * maximum, so a stale maximum is as exact as a fresh one: {@code O / l} does not depend on it and
 * {@code m + ln(l)} does not either.
 */
public enum Rescale {
  /** Multiply by {@code exp(m - m')} at every tile, as MLX's steel attention does. */
  ALWAYS,
  /**
   * Multiply only when a tile raised the maximum, as llama.cpp's CPU attention does.
   * (metal-flash-attention then saves the exponential alone, and multiplies by 1.)
   */
  ON_NEW_MAX,
  /**
   * Keep a stale maximum until the new one exceeds it by more than {@code tau} (in base 2), then
   * catch up, as FlashAttention-4 does. Weights may then be as large as {@code 2^tau}.
   */
  LAZY
}
