package dev.foldmax.cli;

import dev.foldmax.Backend;
import dev.foldmax.cli.explain.Comparison;
import dev.foldmax.cli.explain.Row;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Rows that can be explained, one at a time: those of a head, or of a tensor. */
interface ExplainedRows {
  /** What one of them is called, such as {@code query}. */
  String noun();

  /** What a row has a score for, such as {@code key}. */
  String keyNoun();

  /** How many there are. */
  long rows();

  /** The keys of each. */
  int keys();

  /** The components of a value; 0 without values. */
  int dimension();

  /** Whether kernels compute in float64. */
  boolean isFloat64();

  /** About how many multiply-adds the scores of a row take. */
  double scoreOperations();

  /**
   * The scores of a row as a backend computes them, -inf where a key is hidden.
   *
   * @param cpu a backend on the JVM
   */
  double[] scores(Backend cpu, long row);

  /**
   * A row with what the reference makes of it.
   *
   * @param cpu for its scores in float32
   */
  Row row(Backend cpu, long row);

  /** The output of a backend for a row alone (without values its probabilities), then the lse. */
  double[] compute(Backend backend, long row);

  /**
   * A row alone beside the same row in a call with all others, as a kernel computes both; null
   * where that would take long or the two are not the same arithmetic.
   */
  @Nullable Comparison amongOthers(Backend cpu, long row);

  /**
   * Sentences on numbers that are none.
   *
   * @param row of this
   */
  List<String> trouble(Row row);
}
