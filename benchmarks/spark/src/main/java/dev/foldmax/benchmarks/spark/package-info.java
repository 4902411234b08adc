/** Foldmax's Spark aggregates beside Spark's own. */
@NullMarked
package dev.foldmax.benchmarks.spark;

import org.jspecify.annotations.NullMarked;
