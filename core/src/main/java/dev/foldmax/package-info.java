/**
 * Online softmax and exact attention: one mergeable state (m, l, O), from a SIMD lane to a cluster.
 *
 * <p>Read in this order: {@link dev.foldmax.SoftmaxState}, the algorithm itself; {@link
 * dev.foldmax.Rescale}; {@link dev.foldmax.Tensor}; {@link dev.foldmax.Attention} and {@link
 * dev.foldmax.Mask}; {@link dev.foldmax.KeyValues}; {@link dev.foldmax.Backend}, the verbs; {@link
 * dev.foldmax.AttentionPartial}, what one machine sends to another.
 *
 * <p>What a call costs, for rows of n elements, and for Lq queries over Lk visible keys of
 * dimensions Dqk and Dv:
 *
 * <table>
 *   <caption>Costs of the verbs</caption>
 *   <tr><th>verb<th>arithmetic<th>reads and writes<th>memory beside the tensors
 *   <tr><td>{@code logSumExp}<td>an exponential an element<td>the row once
 *       <td>a piece of the row, a thread
 *   <tr><td>{@code softmax}, {@code logSoftmax}<td>an exponential an element, or two
 *       <td>the row once or twice, the result once<td>the same
 *   <tr><td>{@code topK}<td>an exponential and a comparison an element
 *       <td>the row once, k results<td>k elements a row in work
 *   <tr><td>{@code sample}<td>the same, and the draws<td>the row once or twice, one index
 *       <td>the candidates that topK and topP leave
 *   <tr><td>{@code attend}<td>{@code 2 Lq Lk (Dqk + Dv)} operations and {@code Lq Lk} exponentials a
 *       query head<td>q and the output once; keys and values once for each block of queries, which
 *       is once where there are few queries
 *       <td>tiles and partial states, never {@code Lq Lk} scores
 *   <tr><td>{@code merge}<td>an exponential a row and partial<td>every partial once, the result once
 *       <td>none
 * </table>
 *
 * <p>Scratch memory belongs to the backend and is used again; views of tensors copy nothing.
 */
@NullMarked
package dev.foldmax;

import org.jspecify.annotations.NullMarked;
