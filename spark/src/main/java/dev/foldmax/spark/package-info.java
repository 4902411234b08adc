/** Softmax aggregates for Spark SQL, and attention over a Dataset of keys and values. */
@NullMarked
package dev.foldmax.spark;

import org.jspecify.annotations.NullMarked;
