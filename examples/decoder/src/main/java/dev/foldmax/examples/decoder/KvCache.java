package dev.foldmax.examples.decoder;

import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;

/**
 * The keys and values of the tokens so far, of one sequence. A step of the decoder writes its
 * tokens into every layer, and then advances.
 *
 * <p>The model rounds keys and values to what float16 can hold, so that caches of float16 and of
 * float32 hold the same numbers.
 */
abstract class KvCache implements AutoCloseable {
  private final ModelShape shape;
  private int length;

  KvCache(ModelShape shape) {
    this.shape = shape;
  }

  /** How many tokens there are. */
  final int length() {
    return length;
  }

  final ModelShape shape() {
    return shape;
  }

  /**
   * Writes keys and values of the tokens that come next, from position {@link #length} on.
   *
   * @param keys (tokens, key heads, dim)
   * @param values (tokens, key heads, dim)
   * @return where the layer's keys and values lie, those just written included: a view
   */
  abstract KeyValues write(int layer, Tensor keys, Tensor values);

  /** Counts tokens that have been written to every layer. */
  void advance(int tokens) {
    length += tokens;
  }

  /** Forgets the tokens from position {@code to} on, such as drafts that were not accepted. */
  void truncate(int to) {
    if (to < 0 || to > length) {
      throw new IllegalArgumentException("to: expected 0 to " + length + ", got " + to);
    }
    length = to;
  }

  /** The position after the tokens of a step, if there is room for them. */
  final int endOf(Tensor keys, int capacity) {
    long end = length + keys.shape(0);
    if (end > capacity) {
      throw new IllegalStateException(
          "the cache holds " + capacity + " tokens, " + end + " were to be held");
    }
    return (int) end;
  }

  /** Frees what the garbage collector does not. */
  @Override
  public void close() {}
}
