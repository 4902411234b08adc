package dev.foldmax.cpu;

/**
 * Decoding whose scores' lanes are dimensions: each key is read once, in order, and one tree over
 * the lanes ends a dot product. It takes the fewest instructions where a key serves one row, and
 * its bits are not those of {@link FloatPrefill}.
 */
final class FloatDimLanes extends FloatDecode {
  private static final int TILE = 128;

  /** As many keys as in a cell of {@link FloatPrefill}. */
  private static final int CELL = 12 * TILE;

  FloatDimLanes() {
    super(TILE, CELL);
  }

  @Override
  String describe() {
    return "decode f32, lanes are dimensions, vectors of " + V;
  }

  /**
   * A key's score has a fixed place in its tile, whichever part of the tile is folded: the sum adds
   * lanes up in an order that must not depend on what the other rows of the block see.
   */
  @Override
  int lead(long begin) {
    return (int) (begin % TILE);
  }

  @Override
  boolean readsKeysAcross() {
    return false;
  }

  @Override
  int keyChunk() {
    return chunk(keyDims);
  }

  @Override
  int keyUnit() {
    return 1;
  }

  @Override
  void takeKeys(float[] k, int k0, int stride, int first, int index, int n) {
    int r = 0;
    int to = first + index;
    for (; r + ROWS <= rows(); r += ROWS) {
      FloatStream.scoresOfFour(
          q, r * keyDims, k, k0, stride, keyDims, scores, r * TILE + to, TILE, n);
    }
    for (; r < rows(); r++) {
      FloatStream.scoresOfOne(q, r * keyDims, k, k0, stride, keyDims, scores, r * TILE + to, n);
    }
  }

  /** They were computed as keys were taken. */
  @Override
  void scoreKeys(int first, int n) {}

  @Override
  void addWeights(float[] weights, int n, float[] sums) {
    for (int r = 0; r < rows(); r++) {
      sums[r] += FloatStream.sum(weights, r * TILE, n);
    }
  }
}
