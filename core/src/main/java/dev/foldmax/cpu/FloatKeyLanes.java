package dev.foldmax.cpu;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.nio.ByteOrder;

/**
 * Decoding whose scores' lanes are keys, see {@link FloatKeys}. Tiles, cells and the order of every
 * addition are those of {@link FloatPrefill}, and so are the bits: a token decoded alone gets what
 * it gets in the middle of a prompt.
 */
final class FloatKeyLanes extends FloatDecode {
  private static final int V = FloatKeys.V;

  private float[] packs = {}; // (keyChunk / V)(keyDims, V)
  private float[] columns = {}; // (keyDims / 4, V)
  private final float[] scales = new float[V];

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
  int paddedEnd(int end) {
    return Math.ceilDiv(end, FloatDecode.V) * FloatDecode.V;
  }

  @Override
  int keyChunk() {
    int quads = chunk(keyDims) / FloatKeys.QUAD;
    return Math.max(1, quads) * FloatKeys.QUAD;
  }

  /**
   * Dot products with the tile's keys, as many at a time as stay in the first-level cache: where
   * they lie, if that is in an array, be it in several runs, else through scratch.
   */
  @Override
  void score() {
    float[] array = inPlace(keyElements(), call().keyValues().keyScales(), keyDims);
    if (array != null) {
      touch(keyElements(), array, keyDims);
    }
    boolean bytes = packsBytes();
    int chunk = keyChunk();
    reservePacks();
    for (int j = 0; j < keyCount; j += chunk) {
      int count = Math.min(chunk, keyCount - j);
      if (array != null && takesRuns(j, count)) {
        for (int i = 0; i < count; ) {
          int run = run(j + i, count - i);
          int at = position(keyElements(), j + i);
          pack(array, at, rowStride(keyElements()), i, run);
          i += run;
        }
      } else if (bytes) {
        packBytes(j, count);
      } else {
        io.readKeys(this, tileBegin + j, count, keys, 0, keyDims);
        pack(keys, 0, keyDims, 0, count);
      }
      scoreKeys(j, count);
    }
  }

  /** Whether every run of some keys of the tile begins where a pack does. */
  private boolean takesRuns(int first, int count) {
    for (int i = 0; i < count; i += run(first + i, count - i)) {
      if (i % V != 0) {
        return false;
      }
    }
    return true;
  }

  private void reservePacks() {
    if (packs.length < keyChunk() * keyDims || columns.length < keyDims / Float.BYTES * V) {
      packs = new float[keyChunk() * keyDims];
      columns = new float[keyDims / Float.BYTES * V];
    }
  }

  /** Whether keys are bytes side by side that fill whole vectors. */
  private boolean packsBytes() {
    Tensor tensor = keyElements().tensor();
    return tensor.dtype() == DType.I8
        && ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN
        && tensor.stride(3) == 1
        && keyDims == call().keyDim()
        && keyDims % (V * Float.BYTES) == 0;
  }

  /**
   * Packs keys of I8 as if four elements were one float, and widens and scales them after: a
   * quarter as many vectors are turned into columns, and float32 keys are written but once.
   */
  private void packBytes(int first, int n) {
    int floats = keyDims / Float.BYTES;
    io.readKeyBits(this, tileBegin + first, n, keys, floats);
    for (int j = 0; j < n; j += V) {
      int count = Math.min(V, n - j);
      FloatKeys.pack(keys, j * floats, floats, count, floats, columns, 0);
      io.readKeyScales(this, tileBegin + first + j, count, scales);
      FloatKeys.widenBytes(columns, keyDims, scales, packs, j * keyDims);
    }
  }

  /**
   * Packs {@code n} keys, {@code stride} apart from {@code k0}, from a chunk's key {@code index}.
   */
  private void pack(float[] k, int k0, int stride, int index, int n) {
    for (int j = 0; j < n; j += V) {
      int to = (index + j) * keyDims;
      FloatKeys.pack(k, k0 + j * stride, stride, Math.min(V, n - j), keyDims, packs, to);
    }
  }

  /** The scores of a chunk of {@code n} keys, which have been packed. */
  private void scoreKeys(int first, int n) {
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

  @Override
  void addValues() {
    float[] array = inPlace(valueElements(), call().keyValues().valueScales(), valueDims);
    if (array != null && rows() >= ROWS) {
      touch(valueElements(), array, valueDims);
    }
    int chunk = chunk(valueDims);
    for (int j = 0; j < keyCount; j += chunk) {
      int count = Math.min(chunk, keyCount - j);
      if (array != null) {
        for (int i = 0; i < count; ) {
          int run = run(j + i, count - i);
          int at = position(valueElements(), j + i);
          addValues(array, at, rowStride(valueElements()), j + i, run);
          i += run;
        }
      } else {
        io.readValues(this, tileBegin + j, count, values, 0, valueDims);
        addValues(values, 0, valueDims, j, count);
      }
    }
  }

  private void addValues(float[] v, int v0, int stride, int first, int n) {
    if (isCareful()) {
      for (int j = 0; j < n; j++) {
        addVisibleValue(v, v0 + j * stride, first + j);
      }
      return;
    }
    int r = 0;
    for (; r + ROWS <= rows(); r += ROWS) {
      FloatStream.valuesOfFour(
          v, v0, stride, valueDims, scores, r * tile + first, tile, n, o, r * valueDims);
    }
    for (; r < rows(); r++) {
      FloatStream.valuesOfOne(
          v, v0, stride, valueDims, scores, r * tile + first, n, o, r * valueDims);
    }
  }
}
