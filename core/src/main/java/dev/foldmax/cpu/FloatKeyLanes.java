package dev.foldmax.cpu;

/**
 * Decoding whose scores' lanes are keys, see {@link FloatKeys}. Tiles, cells and the order of every
 * addition are those of {@link FloatPrefill}, and so are the bits: a token decoded alone gets what
 * it gets in the middle of a prompt.
 */
final class FloatKeyLanes extends FloatDecode {
  private static final int V = FloatKeys.V;

  private float[] packs = {}; // (keyChunk / V)(keyDims, V)

  FloatKeyLanes() {
    super(FloatPrefill.TILE, FloatPrefill.CELL);
  }

  @Override
  String describe() {
    return "decode f32, lanes are keys, vectors of " + V;
  }

  @Override
  int lead(long begin) {
    return 0;
  }

  @Override
  boolean readsKeysAcross() {
    return true;
  }

  @Override
  int keyChunk() {
    int quads = chunk(keyDims) / FloatKeys.QUAD;
    return Math.max(1, quads) * FloatKeys.QUAD;
  }

  @Override
  int keyUnit() {
    return V;
  }

  @Override
  void takeKeys(float[] k, int k0, int stride, int first, int index, int n) {
    if (packs.length < keyChunk() * keyDims) {
      packs = new float[keyChunk() * keyDims];
    }
    for (int j = 0; j < n; j += V) {
      int to = (index + j) * keyDims;
      FloatKeys.pack(k, k0 + j * stride, stride, Math.min(V, n - j), keyDims, packs, to);
    }
  }

  @Override
  void scoreKeys(int first, int n) {
    int packSize = keyDims * V;
    int dims = call().keyDim();
    int r = 0;
    for (; r + ROWS - 1 <= rows(); r += ROWS) { // for three rows too: one of four is not used
      for (int j = 0; j < n; j += FloatKeys.PAIR) {
        FloatKeys.scoresOfFour(
            packs,
            j * keyDims,
            packSize,
            q,
            r * keyDims,
            keyDims,
            dims,
            scores,
            r * tile + first + j,
            tile);
      }
    }
    for (; r < rows(); r++) {
      for (int j = 0; j < n; j += FloatKeys.QUAD) {
        FloatKeys.scoresOfOne(
            packs, j * keyDims, packSize, q, r * keyDims, dims, scores, r * tile + first + j);
      }
    }
  }

  @Override
  void addWeights(float[] weights, int n, float[] sums) {
    int r = 0;
    for (; r + ROWS <= rows(); r += ROWS) {
      FloatKeys.sumOfFour(weights, r * tile, tile, n, sums, r);
    }
    for (; r < rows(); r++) {
      sums[r] += FloatKeys.sumOfOne(weights, r * tile, n);
    }
  }
}
