/**
 * How fast Foldmax is, beside a well-written naive version and beside what the machine can do.
 *
 * <p>{@link dev.foldmax.benchmarks.Table} measures {@link dev.foldmax.benchmarks.Catalogue}'s lines
 * and writes the tables. The benchmarks are plain JMH and can be run as such. The naive versions
 * are what a competent engineer writes first with the Vector API: scores materialised row by row,
 * softmax in three passes. They keep none of the edge rules that the backends keep.
 */
@NullMarked
package dev.foldmax.benchmarks;

import org.jspecify.annotations.NullMarked;
