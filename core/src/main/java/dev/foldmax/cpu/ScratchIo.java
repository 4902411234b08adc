package dev.foldmax.cpu;

import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import dev.foldmax.spi.PartialStates;
import org.jspecify.annotations.Nullable;

/**
 * Moves rows between tensors and an engine's scratch. Kernels work on arrays alone: the same
 * micro-kernel over memory segments was measured at 33 GFLOP/s against 88 over {@code float[]}
 * (AVX2, JDK 25), and a tile is read many times for each time it is copied. It also makes one
 * kernel serve every type, layout and stride.
 *
 * @param <A> the scratch: {@code float[]} or {@code double[]}
 */
abstract class ScratchIo<A> {
  /**
   * Reads {@code n} elements that lie {@code stride} apart.
   *
   * @param offset of the first, in elements
   */
  abstract void read(Tensor tensor, long offset, long stride, int n, A to, int at);

  /** Writes {@code n} elements {@code stride} apart, each rounded once. */
  abstract void write(A from, int at, int n, Tensor tensor, long offset, long stride);

  /** x = x * factor. */
  abstract void multiply(A x, int at, int n, double factor);

  /**
   * x = x / divisor + 0, which turns -0 into 0: a sum that underflowed to -0 and one that a hidden
   * key's zero was added to agree.
   *
   * @return whether all are finite
   */
  abstract boolean divide(A x, int at, int n, double divisor);

  /** Sets elements to 0. */
  abstract void clear(A x, int at, int n);

  /**
   * Reads {@code n} elements that lie side by side, each multiplied by {@code scale}, which is 1
   * where there are no scales.
   */
  abstract void readRun(Elements from, long offset, int n, double scale, A to, int at);

  /**
   * Reads the keys at the positions {@code begin} to {@code begin + n}, multiplied by their scales,
   * to rows {@code stride} apart from {@code at}.
   */
  final void readKeys(TileEngine engine, long begin, int n, A to, int at, int stride) {
    Tensor scales = engine.call().keyValues().keyScales();
    readRows(
        engine, engine.keyElements(), scales, begin, n, engine.call().keyDim(), to, at, stride);
  }

  /** As {@link #readKeys}, of the values. */
  final void readValues(TileEngine engine, long begin, int n, A to, int at, int stride) {
    Tensor scales = engine.call().keyValues().valueScales();
    readRows(
        engine, engine.valueElements(), scales, begin, n, engine.call().valueDim(), to, at, stride);
  }

  private void readRows(
      TileEngine engine,
      Elements elements,
      @Nullable Tensor scales,
      long begin,
      int n,
      int dims,
      A to,
      int at,
      int stride) {
    KeyValues kv = engine.call().keyValues();
    int b = engine.batch();
    int head = engine.keyHead();
    Tensor tensor = elements.tensor();
    long rowStride = tensor.stride(2);
    boolean sideBySide = tensor.stride(3) == 1 || dims == 1;
    boolean whole = scales == null && sideBySide && stride == dims && rowStride == dims;
    long end = begin + n;
    int done = at;
    for (long position = begin; position < end; ) {
      int run = (int) kv.run(b, position, end);
      long block = kv.block(b, position);
      long row = kv.row(b, position);
      long from = block * tensor.stride(0) + head * tensor.stride(1) + row * rowStride;
      if (whole) {
        readRun(elements, from, run * dims, 1, to, done);
      } else {
        for (int j = 0; j < run; j++) {
          double scale =
              scales == null
                  ? 1
                  : scales.at(
                      block * scales.stride(0)
                          + head * scales.stride(1)
                          + (row + j) * scales.stride(2));
          int place = done + j * stride;
          if (sideBySide) {
            readRun(elements, from + j * rowStride, dims, scale, to, place);
          } else {
            read(tensor, from + j * rowStride, tensor.stride(3), dims, to, place);
            multiply(to, place, dims, scale);
          }
        }
      }
      done += run * stride;
      position += run;
    }
  }

  /** Reads the query of a row. */
  final void readQuery(TileEngine engine, int r, A to, int at) {
    AttentionCall call = engine.call();
    Tensor q = call.q();
    long offset =
        call.queryBlock(engine.batch()) * q.stride(0)
            + engine.head(r) * q.stride(1)
            + (call.firstQueryRow(engine.batch()) + engine.query(r)) * q.stride(2);
    read(q, offset, q.stride(3), call.keyDim(), to, at);
  }

  /**
   * Ends a row: output O / l and logsumexp m + ln(l), the sink joined in, written where they
   * belong; or its state, where others are to go on.
   *
   * @param m the maximum, in the engine's unit of scores
   * @param o the row's O from {@code at}; overwritten
   * @return false if the output is not finite though the sum is
   */
  final boolean finish(TileEngine engine, int r, double m, double l, A o, int at) {
    AttentionCall call = engine.call();
    int b = engine.batch();
    int head = engine.head(r);
    PartialStates states = engine.states();
    if (states != null) {
      return keep(states, engine.piece(), states.row(b, head, engine.query(r)), m, l, o, at);
    }
    Tensor out = call.out();
    Tensor lse = call.lse();
    long block = call.queryBlock(b);
    long query = call.firstQueryRow(b) + engine.query(r);
    return finish(
        m * engine.scoreUnit(),
        l,
        call.sink(head),
        o,
        at,
        call.valueDim(),
        out,
        block * out.stride(0) + head * out.stride(1) + query * out.stride(2),
        lse,
        lse == null ? 0 : block * lse.stride(0) + head * lse.stride(1) + query * lse.stride(2));
  }

  /** Writes a row's state; returns as {@link #finish}. Dividing by 1 changes no number. */
  private boolean keep(PartialStates states, int piece, long row, double m, double l, A o, int at) {
    Tensor outputs = states.outputs();
    int n = (int) outputs.shape(-1);
    boolean finite = divide(o, at, n, 1);
    states.set(piece, row, m, l);
    write(o, at, n, outputs, states.outputOffset(piece, row), 1);
    return finite || Double.isNaN(l);
  }

  /**
   * Ends a row whose state is known.
   *
   * @param m the maximum, natural; not read if the sum is 0
   * @param o the row's O, {@code n} elements from {@code at}; overwritten
   * @param outOffset where the output's elements begin, {@code out.stride(-1)} apart
   * @param lseOffset where the logsumexp goes, if it is wanted
   * @return false if the output is not finite though the sum is
   */
  final boolean finish(
      double m,
      double l,
      double sink,
      A o,
      int at,
      int n,
      Tensor out,
      long outOffset,
      @Nullable Tensor lse,
      long lseOffset) {
    double max = l == 0 ? Double.NEGATIVE_INFINITY : m;
    double sum = l;
    double divisor = l;
    if (sink != Double.NEGATIVE_INFINITY) {
      double joint = sink > max ? sink : max;
      double kept = joint == max ? 1 : Math.exp(max - joint);
      sum = l * kept + Math.exp(sink - joint);
      divisor = sum / kept;
      max = joint;
    }
    boolean finite = true;
    if (divisor == 0) {
      clear(o, at, n);
    } else {
      finite = divide(o, at, n, divisor);
    }
    write(o, at, n, out, outOffset, out.stride(-1));
    if (lse != null) {
      lse.setAt(lseOffset, sum == 0 ? Double.NEGATIVE_INFINITY : max + Math.log(sum));
    }
    return finite || Double.isNaN(divisor);
  }
}
