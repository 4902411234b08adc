package dev.foldmax.cli.explain;

import java.util.List;

/**
 * What one tile does to the state of a row: the five lines with their numbers, in float64.
 *
 * @param begin the tile's first key
 * @param end one past its last key; {@code begin} for the sink, which is a step of its own
 * @param visible how many of its scores are above -inf; the sink counts as one
 * @param tileMax max(S), -inf where nothing is visible
 * @param maxBefore m
 * @param maxAfter m' of line 1: {@code m} where the dialect keeps a stale maximum
 * @param correction c of line 2: 0 at the first visible tile, exactly 1 where m stays
 * @param tileSum sum(P) of line 3
 * @param sumBefore l
 * @param sumAfter l of line 4
 * @param tileValues the first components of P V of line 5; none for a row without values
 * @param outputBefore the first components of O
 * @param outputAfter the first components of O of line 5
 * @param share the weight that the tile ends with, of all
 * @param largest some of its keys, by score, largest first
 */
public record Step(
    int begin,
    int end,
    int visible,
    double tileMax,
    double maxBefore,
    double maxAfter,
    double correction,
    double tileSum,
    double sumBefore,
    double sumAfter,
    List<Double> tileValues,
    List<Double> outputBefore,
    List<Double> outputAfter,
    double share,
    List<Key> largest) {

  /** Whether this is the sink and no tile of keys. */
  public boolean isSink() {
    return begin == end;
  }

  /** Whether this step corrects what was added before: the maximum rose above another. */
  public boolean corrects() {
    return maxBefore != Double.NEGATIVE_INFINITY && maxAfter > maxBefore;
  }
}
