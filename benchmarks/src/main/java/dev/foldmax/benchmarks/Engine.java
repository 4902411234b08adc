package dev.foldmax.benchmarks;

/** Somebody who computes cases. Computations are used by one thread, the one that made them. */
interface Engine {
  /** Prepares an attention for a number of threads at work. */
  Computation prepare(AttentionInputs inputs, int threads);

  /** Prepares a verb on rows. */
  Computation prepare(RowInputs inputs, int threads);

  /** Prepares a merge. */
  Computation prepare(MergeInputs inputs, int threads);
}
