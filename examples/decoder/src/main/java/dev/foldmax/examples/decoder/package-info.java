/**
 * A complete small decoder: RMSNorm, rotary positions, grouped query heads, sliding windows in
 * every other layer, SwiGLU, and a KV cache in one of the layouts that engines use. Its weights are
 * seeded random numbers, so it says nothing of interest, but it says the same whatever its cache
 * and however its prompt is cut.
 *
 * <p>In reading order: {@code GenerateTokens} is the program; {@code Decoder} is the model, a stack
 * of {@code DecoderLayer}s; {@code SelfAttention} is where Foldmax is called; {@code KvCache} says
 * what it needs of a cache, and {@code LayerCache}, {@code SharedBufferCache}, {@code PagedCache},
 * {@code RingCache} and {@code MappedFileCache} are five; {@code Linear}, {@code RmsNorm} and
 * {@code Rotary} are the rest.
 */
@NullMarked
package dev.foldmax.examples.decoder;

import org.jspecify.annotations.NullMarked;
