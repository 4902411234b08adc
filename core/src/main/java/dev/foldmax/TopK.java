package dev.foldmax;

/**
 * The k largest of each row; see {@link Backend#topK(Tensor, int)}.
 *
 * @param values largest first, of shape (..., k)
 * @param indices I64
 * @param probabilities from the softmax over the whole row
 */
public record TopK(Tensor values, Tensor indices, Tensor probabilities) {}
