package dev.foldmax;

/**
 * A mask of the user's own. It is called from several threads at once and must be a pure function
 * of its arguments. Only backends that run on the JVM serve it.
 */
@FunctionalInterface
public interface MaskFunction {
  /**
   * Whether a query may attend to a key.
   *
   * @param sequence the sequence at hand
   * @param head the query head
   * @param query the query's index in its sequence, 0 for the first of the call
   * @param key the key's position
   */
  boolean visible(Sequence sequence, int head, long query, long key);

  /**
   * What is visible of a tile. Answering NONE or ALL where it is true saves the work of the tile or
   * of masking it; SOME is always right.
   *
   * @param queryBegin the first query, inclusive
   * @param queryEnd one past the last query
   * @param keyBegin the first key, inclusive
   * @param keyEnd one past the last key
   */
  default Coverage coverage(
      Sequence sequence, int head, long queryBegin, long queryEnd, long keyBegin, long keyEnd) {
    return Coverage.SOME;
  }
}
