package dev.foldmax.cpu;

import dev.foldmax.DType;
import dev.foldmax.Tensor;

/**
 * Decoding whose scores' lanes are dimensions: each key is read once, and one tree over the lanes
 * ends a dot product. It takes the fewest instructions where a key serves one row, and its bits are
 * not those of {@link FloatPrefill}.
 *
 * <p>A tile is read as {@link #PIECES} pieces side by side, that is in four streams: one alone came
 * at 20 GB/s and four at 27 (Zen 4, pages of 4 KiB), for a prefetcher stops at the end of a page.
 * So the order of a tile's values is the first of each piece, then the second of each, and so on.
 */
final class FloatDimLanes extends FloatDecode {
  /** With 128 keys to a tile the four streams were no faster than one. */
  private static final int TILE = 512;

  private static final int PIECE = TILE / PIECES;

  /**
   * Elements of keys or values that are copied to scratch at a time from native memory, such as a
   * mapped file: long copies keep the prefetchers at work. One query over 4 GiB of float32 keys and
   * values, D 128, two threads: 14 GB/s with 4096, 20 with 16384, 23 with 65536.
   */
  private static final int STREAMED_CHUNK = 65536;

  /** As many keys as in a cell of {@link FloatPrefill}. */
  private static final int CELL = 3 * TILE;

  /** The places in the tile where {@link #pieces} begin. */
  private final int[] places = new int[PIECES];

  /** How many of {@link #pieces} have keys in use. */
  private int streams;

  /** The weights of four rows in the order in which values are added; (ROWS, TILE). */
  private final float[] weights = new float[ROWS * TILE];

  FloatDimLanes() {
    super(TILE, CELL);
  }

  @Override
  String describe() {
    return "decode f32, lanes are dimensions, vectors of " + V;
  }

  /** A key has a fixed place in its tile, whichever part of the tile is folded. */
  @Override
  int lead(long begin) {
    return (int) (begin % TILE);
  }

  /** Keys of more than one piece may be read in all four streams: the others' weights must be 0. */
  @Override
  int paddedEnd(int end) {
    return keyCount > PIECE ? TILE : Math.ceilDiv(end, V) * V;
  }

  @Override
  int keyChunk() {
    return pieceChunk(keyElements(), keyDims) * PIECES;
  }

  @Override
  int valueChunk() {
    return pieceChunk(valueElements(), valueDims) * PIECES;
  }

  /** How many rows of each piece are read together if they go through scratch or serve many. */
  private int pieceChunk(Elements elements, int dims) {
    Tensor tensor = elements.tensor();
    boolean isStreamed =
        rows() < ROWS && tensor.dtype() == DType.F32 && tensor.segment().isNative();
    return isStreamed
        ? Math.clamp(STREAMED_CHUNK / dims / PIECES, 1, PIECE)
        : Math.max(1, chunk(dims) / PIECES);
  }

  /**
   * Finds the streams that read the next keys of each piece, from key {@code i} of it: those with
   * keys in use come first in {@link #places} and {@link #pieces}.
   *
   * @return for how many keys they stay the same
   */
  private int findStreams(int i, int most) {
    streams = 0;
    int n = Math.min(most, PIECE - i);
    for (int piece = 0; piece < PIECES; piece++) {
      int place = piece * PIECE + i;
      int key = place - lead;
      if (key < 0) {
        n = Math.min(n, -key);
      } else if (key < keyCount) {
        n = run(key, Math.min(n, keyCount - key));
        places[streams++] = place;
      }
    }
    return n;
  }

  @Override
  void score() {
    float[] array = inPlace(keyElements(), call().keyValues().keyScales(), keyDims);
    if (array != null && rows() >= ROWS) {
      touch(keyElements(), array, keyDims);
    }
    int most = array != null && rows() == 1 ? PIECE : pieceChunk(keyElements(), keyDims);
    for (int i = 0, n; i < PIECE; i += n) {
      n = findStreams(i, most);
      if (array != null) {
        for (int s = 0; s < streams; s++) {
          pieces[s] = position(keyElements(), places[s] - lead);
        }
        scoreStreams(array, rowStride(keyElements()), n);
      } else {
        for (int s = 0; s < streams; s++) {
          pieces[s] = s * n * keyDims;
          io.readKeys(this, tileBegin + places[s] - lead, n, keys, pieces[s], keyDims);
        }
        scoreStreams(keys, keyDims, n);
      }
    }
  }

  private void scoreStreams(float[] k, int stride, int n) {
    int r = 0;
    for (; r + ROWS <= rows(); r += ROWS) {
      for (int s = 0; s < streams; s++) {
        int to = r * TILE + places[s];
        FloatStream.scoresOfFour(
            q, r * keyDims, k, pieces[s], stride, keyDims, scores, to, TILE, n);
      }
    }
    for (; r < rows(); r++) {
      if (streams == PIECES) {
        int to = r * TILE + places[0];
        FloatStream.scoresInFourStreams(
            q, r * keyDims, k, pieces, stride, keyDims, scores, to, PIECE, n);
      } else {
        for (int s = 0; s < streams; s++) {
          int to = r * TILE + places[s];
          FloatStream.scoresOfOne(q, r * keyDims, k, pieces[s], stride, keyDims, scores, to, n);
        }
      }
    }
  }

  @Override
  void addWeights(float[] weights, int n, float[] sums) {
    for (int r = 0; r < rows(); r++) {
      sums[r] += FloatStream.sum(weights, r * TILE, n);
    }
  }

  @Override
  void addValues() {
    float[] array = inPlace(valueElements(), call().keyValues().valueScales(), valueDims);
    if (array != null && rows() >= ROWS) {
      touch(valueElements(), array, valueDims);
    }
    int most = array != null && rows() == 1 ? PIECE : pieceChunk(valueElements(), valueDims);
    for (int i = 0, n; i < PIECE; i += n) {
      n = findStreams(i, most);
      if (streams == 0) {
        continue;
      }
      if (streams > 1 && !isCareful()) {
        fillStreams(i);
      }
      boolean mixes = rows() >= ROWS;
      int stride =
          mixes ? streams * valueDims : array == null ? valueDims : rowStride(valueElements());
      for (int s = 0; s < streams; s++) {
        int key = places[s] - lead;
        if (array == null) {
          pieces[s] = mixes ? s * valueDims : s * n * valueDims;
          io.readValues(this, tileBegin + key, n, values, pieces[s], stride);
        } else {
          pieces[s] = position(valueElements(), key);
          if (mixes) {
            copyStream(array, s, n);
          }
        }
      }
      float[] v = array == null || mixes ? values : array;
      if (isCareful()) {
        addVisibleValues(v, stride, n);
      } else {
        addStreams(v, stride, i, n);
      }
    }
  }

  /** A piece without keys in use reads another's, with weights of 0 of its own. */
  private void fillStreams(int i) {
    for (int piece = PIECES - 1, s = streams - 1; piece >= 0; piece--) {
      int place = places[Math.max(s, 0)];
      s -= place == piece * PIECE + i ? 1 : 0;
      places[piece] = place;
    }
    streams = PIECES;
  }

  /** Copies the next rows of a stream to scratch, where rows are in the order of addition. */
  private void copyStream(float[] array, int s, int n) {
    int stride = rowStride(valueElements());
    for (int j = 0; j < n; j++) {
      int to = (j * streams + s) * valueDims;
      System.arraycopy(array, pieces[s] + j * stride, values, to, valueDims);
    }
    pieces[s] = s * valueDims;
  }

  private void addVisibleValues(float[] v, int stride, int n) {
    for (int j = 0; j < n; j++) {
      for (int s = 0; s < streams; s++) {
        addVisibleValue(v, pieces[s] + j * stride, places[s] + j);
      }
    }
  }

  /** Adds the weighted values of {@code n} keys of each stream, from key {@code i} of its piece. */
  private void addStreams(float[] v, int stride, int i, int n) {
    int r = 0;
    for (; r + ROWS <= rows(); r += ROWS) {
      if (streams == 1) {
        int from = r * TILE + places[0];
        FloatStream.valuesOfFour(
            v, pieces[0], stride, valueDims, scores, from, TILE, n, o, r * valueDims);
      } else {
        for (int x = 0; x < ROWS; x++) {
          FloatStream.interleave(scores, (r + x) * TILE + i, PIECE, n, weights, x * TILE);
        }
        FloatStream.valuesOfFour(
            v, 0, valueDims, valueDims, weights, 0, TILE, PIECES * n, o, r * valueDims);
      }
    }
    for (; r < rows(); r++) {
      if (streams == 1) {
        int from = r * TILE + places[0];
        FloatStream.valuesOfOne(v, pieces[0], stride, valueDims, scores, from, n, o, r * valueDims);
      } else {
        FloatStream.valuesInFourStreams(
            v, pieces, stride, valueDims, scores, r * TILE + i, PIECE, n, o, r * valueDims);
      }
    }
  }
}
