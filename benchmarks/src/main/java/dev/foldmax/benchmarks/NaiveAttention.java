package dev.foldmax.benchmarks;

import dev.foldmax.benchmarks.NaivePool.Task;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import org.jspecify.annotations.Nullable;

/**
 * Attention in float32 as one writes it first: a query's scores over all of its keys by dot
 * products, softmax over them in three passes, and the sum of values by axpy. One query at a time
 * where keys and values are float32 in heap arrays; otherwise up to 16 queries share each block of
 * keys that is converted or copied.
 */
final class NaiveAttention {
  private static final int BLOCK = 64;
  private static final int ROWS_OF_CONVERTED = 16;

  private final AttentionCase shape;
  private final NaivePool pool;
  private final float[] q; // (heads, queries, dim)
  private final StoredRows keys; // (keyHeads, keys, dim)
  private final StoredRows values; // (keyHeads, keys, dim)
  private final Extras extras;
  private final int rowsPerTask;
  private final float[][][] scores; // (workers)(rowsPerTask)(keys)
  private final float[][] scratch; // (workers)(BLOCK, dim)

  /**
   * What variants add to the scores; each null where there is none.
   *
   * @param bias (heads, queries, keys)
   * @param visible (queries, keys)
   * @param slopes (heads)
   * @param softCap 0 for none
   */
  @SuppressWarnings("ArrayRecordComponent") // handed on, never compared
  record Extras(
      float @Nullable [] bias,
      boolean @Nullable [] visible,
      float @Nullable [] slopes,
      float softCap) {}

  NaiveAttention(
      AttentionCase shape,
      NaivePool pool,
      float[] q,
      StoredRows keys,
      StoredRows values,
      Extras extras) {
    this.shape = shape;
    this.pool = pool;
    this.q = q;
    this.keys = keys;
    this.values = values;
    this.extras = extras;
    this.rowsPerTask = keys.isConverted() ? Math.min(shape.queries(), ROWS_OF_CONVERTED) : 1;
    this.scores = new float[pool.threads()][rowsPerTask][shape.keys()];
    this.scratch = new float[pool.threads()][BLOCK * shape.dim()];
  }

  /** Writes the result into {@code out}, (heads, queries, dim). */
  void attend(float[] out) {
    int blocks = Math.ceilDiv(shape.queries(), rowsPerTask);
    Task task =
        (index, worker) -> {
          int first = index % blocks * rowsPerTask;
          int end = Math.min(shape.queries(), first + rowsPerTask);
          attendRows(index / blocks, first, end, out, scores[worker], scratch[worker]);
        };
    pool.run(shape.heads() * blocks, task);
  }

  private void attendRows(
      int head, int first, int end, float[] out, float[][] rowScores, float[] block) {
    int keyHead = head / (shape.heads() / shape.keyHeads());
    // Where keys are causal, the first query's begins first and the last query's end last.
    int keyBegin = shape.begin(first);
    int keyEnd = shape.end(end - 1);
    for (int b = keyBegin; b < keyEnd; b += BLOCK) {
      int n = Math.min(BLOCK, keyEnd - b);
      int element = (keyHead * shape.keys() + b) * shape.dim();
      float[] k = keys.read(element, n * shape.dim(), block);
      for (int i = first; i < end; i++) {
        score(head, keyHead, i, b, n, k, keys.position(element), rowScores[i - first]);
      }
    }
    for (int i = first; i < end; i++) {
      float[] p = rowScores[i - first];
      int from = shape.begin(i);
      int to = shape.end(i);
      modify(head, i, p);
      float max = NaiveVectors.max(p, from, to);
      float sum = NaiveVectors.exponentials(p, from, to, max, p, from);
      NaiveVectors.affine(p, from, to, 1 / sum, 0, p, from);
    }
    int o = (head * shape.queries() + first) * shape.dim();
    Arrays.fill(out, o, o + (end - first) * shape.dim(), 0);
    for (int b = keyBegin; b < keyEnd; b += BLOCK) {
      int n = Math.min(BLOCK, keyEnd - b);
      int element = (keyHead * shape.keys() + b) * shape.dim();
      float[] v = values.read(element, n * shape.dim(), block);
      for (int i = first; i < end; i++) {
        addValues(head, keyHead, i, b, n, v, values.position(element), rowScores[i - first], out);
      }
    }
  }

  private void score(
      int head, int keyHead, int i, int b, int n, float[] k, int position, float[] rowScores) {
    int dim = shape.dim();
    int query = (head * shape.queries() + i) * dim;
    float scale = (float) shape.scale();
    int to = Math.min(b + n, shape.end(i));
    for (int j = Math.max(b, shape.begin(i)); j < to; j++) {
      float dot = NaiveVectors.dot(q, query, k, position + (j - b) * dim, dim);
      rowScores[j] = dot * (scale * keys.scale(keyHead * shape.keys() + j));
    }
  }

  private void modify(int head, int i, float[] rowScores) {
    int n = shape.keys();
    if (extras.softCap() != 0) {
      NaiveVectors.softCap(rowScores, 0, n, extras.softCap());
    }
    float[] bias = extras.bias();
    if (bias != null) {
      NaiveVectors.axpy(1, bias, (head * shape.queries() + i) * n, rowScores, 0, n);
    }
    float[] slopes = extras.slopes();
    if (slopes != null) {
      float slope = slopes[head];
      int position = i + n - shape.queries();
      for (int j = 0; j < n; j++) { // C2 turns it into vectors
        rowScores[j] -= slope * Math.abs(position - j);
      }
    }
    boolean[] visible = extras.visible();
    if (visible != null) {
      hide(rowScores, visible, i * n, n);
    }
  }

  private static void hide(float[] rowScores, boolean[] visible, int begin, int n) {
    FloatVector hidden = FloatVector.broadcast(NaiveVectors.F32, Float.NEGATIVE_INFINITY);
    int j = 0;
    for (; j <= n - NaiveVectors.V; j += NaiveVectors.V) {
      VectorMask<Float> seen = VectorMask.fromArray(NaiveVectors.F32, visible, begin + j);
      hidden
          .blend(FloatVector.fromArray(NaiveVectors.F32, rowScores, j), seen)
          .intoArray(rowScores, j);
    }
    for (; j < n; j++) {
      rowScores[j] = visible[begin + j] ? rowScores[j] : Float.NEGATIVE_INFINITY;
    }
  }

  private void addValues(
      int head,
      int keyHead,
      int i,
      int b,
      int n,
      float[] v,
      int position,
      float[] weights,
      float[] out) {
    int dim = shape.dim();
    int o = (head * shape.queries() + i) * dim;
    int to = Math.min(b + n, shape.end(i));
    for (int j = Math.max(b, shape.begin(i)); j < to; j++) {
      float weight = weights[j] * values.scale(keyHead * shape.keys() + j);
      NaiveVectors.axpy(weight, v, position + (j - b) * dim, out, o, dim);
    }
  }
}
