package dev.foldmax.contract;

/** How keys and values of a batch may be stored. */
enum Layout {
  /** One block a sequence; all of one length. */
  DENSE,
  /** One block a sequence, longer than what is valid of it. */
  LENGTHS,
  /** One after the other. */
  RAGGED,
  /** Pages of one key. */
  PAGED_1,
  /** Pages of three keys. */
  PAGED_3,
  /** Pages of sixteen keys. */
  PAGED_16,
  /** A ring that is full. */
  RING_FULL,
  /** A ring with room for five keys more. */
  RING;

  /** The page's size, or 0. */
  int pageSize() {
    return switch (this) {
      case PAGED_1 -> 1;
      case PAGED_3 -> 3;
      case PAGED_16 -> 16;
      default -> 0;
    };
  }

  boolean isRing() {
    return this == RING || this == RING_FULL;
  }

  /** Whether the layout can hold a problem. */
  boolean holds(Problem problem) {
    return (this != DENSE || problem.hasOneKeyLength()) && (isRing() || problem.firstKey() == 0);
  }
}
