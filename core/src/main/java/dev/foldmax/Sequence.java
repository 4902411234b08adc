package dev.foldmax;

/**
 * What a mask may know of the sequence it is applied to.
 *
 * @param batch the sequence's index in the batch
 * @param queries the number of its queries
 * @param firstKey the position of its first key: 0, unless a ring buffer has dropped older ones
 * @param endKey one past the position of its last key
 */
public record Sequence(int batch, long queries, long firstKey, long endKey) {}
