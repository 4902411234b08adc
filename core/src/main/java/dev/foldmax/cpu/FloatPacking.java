package dev.foldmax.cpu;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorShuffle;
import jdk.incubator.vector.VectorSpecies;

/** Brings rows into the forms that the kernels of {@link FloatPanel} read, and back. */
final class FloatPacking {
  private static final VectorSpecies<Float> F = Species.F32;
  private static final int V = F.length();

  private static final int PACKED = FloatPanel.PACKED;

  private static final VectorSpecies<Float> PACK =
      V >= PACKED ? FloatVector.SPECIES_256 : FloatVector.SPECIES_128;

  private static final int SIDE = FloatPanel.SIDE;

  private static final VectorSpecies<Float> QUAD = FloatVector.SPECIES_128;
  private static final VectorShuffle<Float> NEXT = VectorShuffle.fromOp(QUAD, i -> i ^ 1);
  private static final VectorShuffle<Float> NEXT_PAIR = VectorShuffle.fromOp(QUAD, i -> i ^ 2);
  private static final VectorMask<Float> ODD = VectorMask.fromLong(QUAD, 0b1010);
  private static final VectorMask<Float> UPPER = VectorMask.fromLong(QUAD, 0b1100);

  private FloatPacking() {}

  /**
   * Spreads rows of keys, or a plane of them, to rows {@link FloatPanel#KEY_STRIDE} apart. What is
   * in between may be overwritten.
   *
   * @param from rows {@code stride} apart from {@code f0}
   */
  static void packKeys(float[] from, int f0, int stride, int n, int dims, float[] to, int t0) {
    for (int j = 0; j < n; j++) {
      int f = f0 + j * stride;
      int t = t0 + j * FloatPanel.KEY_STRIDE;
      for (int d = 0; d < dims; d += V) {
        FloatVector.fromArray(F, from, f + d).intoArray(to, t + d);
      }
    }
  }

  /**
   * Spreads rows of values over groups of {@code width} dimensions, eight elements at a time. Those
   * too many are overwritten by the next key's, so keys must come in ascending order.
   *
   * @param from rows {@code stride} apart from {@code f0}
   * @param to groups {@code groupStride} apart from {@code t0}, a key's elements {@link
   *     FloatPanel#GROUP} apart
   */
  static void packValues(
      float[] from,
      int f0,
      int stride,
      int n,
      int groups,
      int width,
      float[] to,
      int t0,
      int groupStride) {
    for (int g = 0; g < groups; g++) {
      int f = f0 + g * width;
      int t = t0 + g * groupStride;
      for (int j = 0; j < n; j++) {
        for (int i = 0; i < PACKED; i += PACK.length()) {
          FloatVector.fromArray(PACK, from, f + j * stride + i)
              .intoArray(to, t + j * FloatPanel.GROUP + i);
        }
      }
    }
  }

  /**
   * {@code to[c][r] = from[r][c]}, in blocks of 4 x 4: twice as fast as a plain loop, and faster
   * than larger blocks, which take more steps (Zen 4, JDK 25).
   *
   * @param from (rows, columns), rows {@code fromStride} apart; both counts are rounded up to
   *     multiples of four
   * @param to (columns, rows), rows {@code toStride} apart
   */
  static void transpose(
      float[] from, int fromStride, int rows, int columns, float[] to, int toStride) {
    for (int c = 0; c < columns; c += SIDE) {
      for (int r = 0; r < rows; r += SIDE) {
        int f = r * fromStride + c;
        int t = c * toStride + r;
        FloatVector a = FloatVector.fromArray(QUAD, from, f);
        FloatVector b = FloatVector.fromArray(QUAD, from, f + fromStride);
        FloatVector e = a.blend(b.rearrange(NEXT), ODD);
        FloatVector g = a.rearrange(NEXT).blend(b, ODD);
        a = FloatVector.fromArray(QUAD, from, f + 2 * fromStride);
        b = FloatVector.fromArray(QUAD, from, f + 3 * fromStride);
        FloatVector h = a.blend(b.rearrange(NEXT), ODD);
        FloatVector k = a.rearrange(NEXT).blend(b, ODD);
        e.blend(h.rearrange(NEXT_PAIR), UPPER).intoArray(to, t);
        g.blend(k.rearrange(NEXT_PAIR), UPPER).intoArray(to, t + toStride);
        e.rearrange(NEXT_PAIR).blend(h, UPPER).intoArray(to, t + 2 * toStride);
        g.rearrange(NEXT_PAIR).blend(k, UPPER).intoArray(to, t + 3 * toStride);
      }
    }
  }
}
