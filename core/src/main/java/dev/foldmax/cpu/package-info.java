/**
 * The CPU backend on the Vector API. For attention read {@code AttentionKernels}, the tasks of a
 * call; {@code TileEngine}, the order of the fold; then {@code FloatPrefill}, {@code FloatDecode}
 * in its two forms {@code FloatKeyLanes} and {@code FloatDimLanes}, and {@code DoubleAttention},
 * the five lines over tiles, with their leaf loops beside them. For rows read {@code RowKernels}
 * and {@code RowPass}.
 */
@NullMarked
package dev.foldmax.cpu;

import org.jspecify.annotations.NullMarked;
