package dev.foldmax.cpu;

import java.util.Arrays;

/**
 * The loops of {@link FloatPanel} and {@link FloatPacking} in plain Java, with the same bits: each
 * lane goes through the same operations in the same order, {@code Math.fma} for multiply-adds and
 * the scalar twin of the exponential. They serve until the vector kernels are compiled, see {@link
 * PrefillWarmUp}: what the interpreter takes half a microsecond for is here a few instructions of
 * it, and the JIT compiler has these loops compiled in a moment.
 */
final class PlainPanel {
  private static final int W = FloatPanel.W;
  private static final int GROUP = FloatPanel.GROUP;
  private static final int KEY_STRIDE = FloatPanel.KEY_STRIDE;

  private PlainPanel() {}

  /** See {@link FloatPacking#packKeys}. */
  static void packKeys(float[] from, int f0, int stride, int n, int dims, float[] to, int t0) {
    for (int j = 0; j < n; j++) {
      System.arraycopy(from, f0 + j * stride, to, t0 + j * KEY_STRIDE, dims);
    }
  }

  /** See {@link FloatPacking#packValues}; for one group. */
  static void packValues(float[] from, int f0, int stride, int n, int width, float[] to, int t0) {
    for (int j = 0; j < n; j++) {
      for (int d = 0; d < width; d++) {
        to[t0 + j * GROUP + d] = from[f0 + j * stride + d];
      }
    }
  }

  /** See {@link FloatPacking#transpose}. */
  static void transpose(
      float[] from, int fromStride, int rows, int columns, float[] to, int toStride) {
    for (int c = 0; c < columns; c++) {
      for (int r = 0; r < rows; r++) {
        to[c * toStride + r] = from[r * fromStride + c];
      }
    }
  }

  /** See {@link FloatPanel#scores}; for any number of keys, rounded up to a multiple of three. */
  static void scores(
      float[] k, int k0, int keys, float[] q, int q0, int dims, float[] s, boolean resume) {
    if (!resume) {
      Arrays.fill(s, 0, (keys + 2) * W, 0);
    }
    for (int j = 0; j < keys; j += 3) {
      for (int lane = 0; lane < W; lane++) {
        addThree(q, q0 + lane, dims, k, k0 + j * KEY_STRIDE, KEY_STRIDE, 1, s, j * W + lane);
      }
    }
  }

  /** See {@link FloatPanel#values6}; for {@code width} dimensions. */
  static void values(
      float[] v, int v0, int width, float[] p, int keys, float[] o, int o0, float[] state) {
    for (int lane = 0; lane < W; lane++) {
      int at = o0 + lane;
      for (int d = 0; d < width; d++) {
        o[at + d * W] *= state[FloatPanel.CORRECTION + lane];
      }
      int d = 0;
      for (; d < width - 2; d += 3) {
        addThree(p, lane, keys, v, v0 + d, 1, GROUP, o, at + d * W);
      }
      for (; d < width; d++) {
        addOne(p, lane, keys, v, v0 + d, GROUP, o, at + d * W);
      }
    }
  }

  /**
   * Adds a lane's products to three sums at once, for the sake of the multiply-add's latency:
   * {@code sums[at + i * W] += sum over j of x[x0 + j * W] * factors[f0 + i * next + j * step]}.
   */
  private static void addThree(
      float[] x, int x0, int n, float[] factors, int f0, int next, int step, float[] sums, int at) {
    float a = sums[at];
    float b = sums[at + W];
    float c = sums[at + 2 * W];
    for (int j = 0; j < n; j++) {
      float y = x[x0 + j * W];
      int f = f0 + j * step;
      a = Math.fma(factors[f], y, a);
      b = Math.fma(factors[f + next], y, b);
      c = Math.fma(factors[f + 2 * next], y, c);
    }
    sums[at] = a;
    sums[at + W] = b;
    sums[at + 2 * W] = c;
  }

  private static void addOne(
      float[] x, int x0, int n, float[] factors, int f0, int step, float[] sums, int at) {
    float sum = sums[at];
    for (int j = 0; j < n; j++) {
      sum = Math.fma(factors[f0 + j * step], x[x0 + j * W], sum);
    }
    sums[at] = sum;
  }

  /** See {@link FloatPanel#tileMax}. */
  static void tileMax(float[] s, int keys, float[] state) {
    for (int lane = 0; lane < W; lane++) {
      float max = state[FloatPanel.MAX + lane];
      for (int j = 0; j < keys; j++) {
        float x = s[j * W + lane];
        max = x <= max ? max : x;
      }
      state[FloatPanel.NEW_MAX + lane] = max;
    }
  }

  /** See {@link FloatPanel#raiseMax}; for all lanes. */
  static void raiseMax(float[] state, float threshold, float factor, float factorLow, float least) {
    for (int lane = 0; lane < W; lane++) {
      float old = state[FloatPanel.MAX + lane];
      float candidate = state[FloatPanel.NEW_MAX + lane];
      float c = 1;
      if (candidate > old + threshold) {
        state[FloatPanel.MAX + lane] = candidate;
        c = Exponential.pow2(old - candidate, factor, factorLow, least);
      }
      state[FloatPanel.CORRECTION + lane] = c;
      state[FloatPanel.SUM + lane] *= c;
    }
  }

  /** See {@link FloatPanel#weigh}; for all lanes. */
  static void weigh(
      float[] s, int keys, float[] state, float factor, float factorLow, float least) {
    for (int lane = 0; lane < W; lane++) {
      float m = state[FloatPanel.MAX + lane];
      float max = m == Float.NEGATIVE_INFINITY ? 0 : m;
      float sum = 0;
      for (int i = lane; i < keys * W; i += W) {
        s[i] = Exponential.pow2(s[i] - max, factor, factorLow, least);
        sum += s[i];
      }
      state[FloatPanel.SUM + lane] += sum;
    }
  }

  /** See {@link FloatPanel#hideOutside}; for all lanes. */
  static void hideOutside(float[] s, int keys, float[] bounds) {
    for (int j = 0; j < keys; j++) {
      for (int lane = 0; lane < W; lane++) {
        if (j < bounds[lane] || j >= bounds[W + lane]) {
          s[j * W + lane] = Float.NEGATIVE_INFINITY;
        }
      }
    }
  }

  /** See {@link FloatScores#scale}. */
  static void scale(float[] s, int n, float scale) {
    for (int i = 0; i < n; i++) {
      s[i] *= scale;
    }
  }
}
