/**
 * Online softmax and exact attention: one mergeable state (m, l, O), from a SIMD lane to a cluster.
 *
 * <p>Read in this order: {@link dev.foldmax.SoftmaxState}, the algorithm itself; {@link
 * dev.foldmax.Rescale}; {@link dev.foldmax.Tensor}; {@link dev.foldmax.Attention} and {@link
 * dev.foldmax.Mask}; {@link dev.foldmax.KeyValues}; {@link dev.foldmax.Backend}, the verbs; {@link
 * dev.foldmax.AttentionPartial}, what one machine sends to another.
 *
 * <p>Costs: a softmax row of n elements is read once or twice and written once; attention of Lq
 * queries over Lk keys of dimension D takes {@code 4 Lq Lk D} floating-point operations a head and
 * memory for tiles only, never for {@code Lq x Lk} scores.
 */
@NullMarked
package dev.foldmax;

import org.jspecify.annotations.NullMarked;
