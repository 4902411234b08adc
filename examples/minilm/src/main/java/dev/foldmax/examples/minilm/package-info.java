/**
 * all-MiniLM-L6-v2, a sentence encoder, in plain Java with Foldmax's attention.
 *
 * <p>In reading order: {@code MiniLm} is the program; {@code SentenceTokenizer} makes a {@code
 * TokenBatch} of sentences; {@code Encoder} turns it into hidden states, by way of {@code
 * Embeddings}, {@code SelfAttention}, {@code FeedForward} and their {@code Linear} and {@code
 * LayerNorm} parts; {@code SentenceVectors} pools the states. {@code OnnxModel} reads the weights
 * and {@code OnnxRuntime} runs the original model to compare with.
 */
@NullMarked
package dev.foldmax.examples.minilm;

import org.jspecify.annotations.NullMarked;
