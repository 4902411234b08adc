/**
 * Softmax aggregates for Spark SQL, and attention over a Dataset of keys and values.
 *
 * <p>Costs: every function reads its rows once. The state of a group is 16 bytes for {@code
 * log_sum_exp}, 24 for {@code softmax_avg} of numbers, {@code 28 + 8 D} for vectors of dimension D,
 * and k rows for {@code softmax_top_k}; that is what a shuffle moves for each group and partition.
 * {@link dev.foldmax.spark.DatasetAttention} keeps a block of keys and values and the states of its
 * queries in each task, whatever the size of the partition.
 */
@NullMarked
package dev.foldmax.spark;

import org.jspecify.annotations.NullMarked;
