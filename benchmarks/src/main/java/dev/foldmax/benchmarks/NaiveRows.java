package dev.foldmax.benchmarks;

import dev.foldmax.DType;
import dev.foldmax.Sampling;
import dev.foldmax.benchmarks.NaivePool.Range;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;

/**
 * The verbs on rows as one writes them first: a pass for the maximum, one for the exponentials and
 * their sum, one for the result. Rows of bfloat16 are widened into scratch first and narrowed last.
 * For finite logits.
 */
final class NaiveRows {
  private static final VectorSpecies<Integer> INTS = IntVector.SPECIES_PREFERRED;
  private static final VectorSpecies<Short> SHORTS =
      VectorSpecies.of(short.class, VectorShape.forBitSize(INTS.vectorBitSize() / 2));

  private final int rows;
  private final int columns;
  private final NaivePool pool;
  private final float[][] scratch; // (workers)(columns)
  private final LargestHeap[] heaps; // (workers)

  NaiveRows(int rows, int columns, int k, NaivePool pool) {
    this.rows = rows;
    this.columns = columns;
    this.pool = pool;
    this.scratch = new float[pool.threads()][columns];
    this.heaps = new LargestHeap[pool.threads()];
    for (int i = 0; i < heaps.length; i++) {
      heaps[i] = new LargestHeap(k);
    }
  }

  /** Calls {@code body} for the first element of each row. */
  private void forEachRow(RowBody body) {
    Range range =
        (begin, end, worker) -> {
          for (int r = begin; r < end; r++) {
            body.run(r, r * columns, worker);
          }
        };
    pool.runRanges(rows, range);
  }

  /** Work on a row that begins at an element. */
  @FunctionalInterface
  private interface RowBody {
    void run(int row, int begin, int worker);
  }

  /** Softmax of each row into {@code out}, (rows, columns). */
  void softmax(StoredRows x, float[] out) {
    forEachRow(
        (row, begin, worker) -> softmaxRow(read(x, begin, worker), x.position(begin), out, begin));
  }

  /** The same, rounded to bfloat16. */
  void softmax(StoredRows x, short[] out) {
    forEachRow(
        (row, begin, worker) -> {
          softmaxRow(read(x, begin, worker), x.position(begin), scratch[worker], 0);
          narrow(scratch[worker], out, begin);
        });
  }

  private float[] read(StoredRows x, int begin, int worker) {
    return x.read(begin, columns, scratch[worker]);
  }

  private void softmaxRow(float[] x, int begin, float[] out, int outBegin) {
    float max = NaiveVectors.max(x, begin, begin + columns);
    float sum = NaiveVectors.exponentials(x, begin, begin + columns, max, out, outBegin);
    NaiveVectors.affine(out, outBegin, outBegin + columns, 1 / sum, 0, out, outBegin);
  }

  /** The logarithm of the softmax of each row into {@code out}, (rows, columns). */
  void logSoftmax(StoredRows x, float[] out) {
    forEachRow(
        (row, begin, worker) ->
            logSoftmaxRow(read(x, begin, worker), x.position(begin), out, begin));
  }

  /** The same, rounded to bfloat16. */
  void logSoftmax(StoredRows x, short[] out) {
    forEachRow(
        (row, begin, worker) -> {
          logSoftmaxRow(read(x, begin, worker), x.position(begin), scratch[worker], 0);
          narrow(scratch[worker], out, begin);
        });
  }

  private void logSoftmaxRow(float[] x, int begin, float[] out, int outBegin) {
    float lse = logSumExpOfRow(x, begin);
    NaiveVectors.affine(x, begin, begin + columns, 1, -lse, out, outBegin);
  }

  /** The logarithm of the sum of exponentials of each row into {@code out}, (rows). */
  void logSumExp(StoredRows x, float[] out) {
    forEachRow(
        (row, begin, worker) ->
            out[row] = logSumExpOfRow(read(x, begin, worker), x.position(begin)));
  }

  private float logSumExpOfRow(float[] x, int begin) {
    float max = NaiveVectors.max(x, begin, begin + columns);
    float sum = NaiveVectors.sumOfExponentials(x, begin, begin + columns, max);
    return max + (float) Math.log(sum);
  }

  /** The largest of each row with their probabilities, largest first; outputs of (rows, k). */
  void topK(StoredRows x, float[] values, long[] indices, float[] probabilities) {
    forEachRow(
        (row, begin, worker) -> {
          float[] logits = read(x, begin, worker);
          int first = x.position(begin);
          float max = NaiveVectors.max(logits, first, first + columns);
          float sum = NaiveVectors.sumOfExponentials(logits, first, first + columns, max);
          LargestHeap heap = heaps[worker];
          heap.collect(logits, first, first + columns);
          for (int o = (row + 1) * heap.k() - 1; o >= row * heap.k(); o--) {
            values[o] = heap.leastValue();
            indices[o] = heap.leastIndex();
            probabilities[o] = (float) Math.exp(values[o] - max) / sum;
            heap.removeLeast();
          }
        });
  }

  /**
   * Draws an index from each row's softmax: the first at which the running sum of exponentials
   * exceeds a uniform number times the whole sum.
   */
  void sample(StoredRows x, long seed, long[] indices) {
    forEachRow(
        (row, begin, worker) ->
            indices[row] =
                sampleRow(
                    read(x, begin, worker),
                    x.position(begin),
                    Sampling.uniform(Sampling.stream(seed, row), 0),
                    scratch[worker]));
  }

  private int sampleRow(float[] x, int begin, double uniform, float[] weights) {
    float max = NaiveVectors.max(x, begin, begin + columns);
    float sum = NaiveVectors.exponentials(x, begin, begin + columns, max, weights, 0);
    double left = uniform * sum;
    for (int i = 0; i < columns; i++) {
      left -= weights[i];
      if (left < 0) {
        return i;
      }
    }
    return columns - 1; // the sum was rounded otherwise
  }

  /** Rounds a row to bfloat16, to nearest with ties to even; for finite numbers. */
  private void narrow(float[] wide, short[] out, int begin) {
    int v = INTS.length();
    int i = 0;
    for (; i <= columns - v; i += v) {
      IntVector bits = FloatVector.fromArray(NaiveVectors.F32, wide, i).reinterpretAsInts();
      IntVector odd = bits.lanewise(VectorOperators.LSHR, 16).and(1);
      ((ShortVector)
              bits.add(odd)
                  .add(0x7fff)
                  .lanewise(VectorOperators.LSHR, 16)
                  .convertShape(VectorOperators.I2S, SHORTS, 0))
          .intoArray(out, begin + i);
    }
    for (; i < columns; i++) {
      out[begin + i] = DType.floatToBf16(wide[i]);
    }
  }
}
