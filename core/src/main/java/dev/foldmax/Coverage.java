package dev.foldmax;

/** What a mask leaves visible of a tile of queries and keys. */
public enum Coverage {
  /** No pair: a kernel skips the tile. */
  NONE,
  /** Every pair: a kernel does not mask the tile. */
  ALL,
  /** Some pairs, or unknown: a kernel asks about each. */
  SOME
}
