package dev.foldmax.cli.explain;

/**
 * A key of a row.
 *
 * @param index its position
 * @param score natural
 * @param weight its share of the result, 0 to 1
 */
public record Key(int index, double score, double weight) {}
