package dev.foldmax;

/**
 * A rectangle of scores in a kernel's scratch memory, as a {@link ScoreFunction} sees it. Its rows
 * are queries, possibly of several heads that share their keys; its columns are consecutive keys.
 */
public interface ScoreTile {
  /** The sequence's index in the batch. */
  int batch();

  /** The number of rows. */
  int queries();

  /** The number of columns. */
  int keys();

  /** The query head of row {@code i}. */
  int head(int i);

  /** The index, in its sequence, of the query of row {@code i}. */
  long query(int i);

  /** The position of the key of column 0; column {@code j} is at {@code keyBegin() + j}. */
  long keyBegin();

  /** The natural score of row {@code i} and column {@code j}. */
  double get(int i, int j);

  /** Sets a score; it is rounded to the kernel's accumulation type. */
  void set(int i, int j, double score);
}
