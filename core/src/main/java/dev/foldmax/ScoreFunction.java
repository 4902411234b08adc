package dev.foldmax;

/**
 * A change of scores by the user, after scale, soft cap, bias and ALiBi and before the mask. It
 * sees one tile at a time, is called from several threads at once and must treat every score on its
 * own: which tiles a row is cut into is not promised. Only backends that run on the JVM serve it.
 */
@FunctionalInterface
public interface ScoreFunction {
  /** Replaces the scores of the tile. The tile object is valid during the call only. */
  void apply(ScoreTile tile);

  /** A score function written for a single score. */
  @FunctionalInterface
  interface Elementwise {
    /**
     * The new score.
     *
     * @param score the natural (not base 2) score so far
     * @param batch the sequence's index in the batch
     * @param head the query head
     * @param query the query's index in its sequence
     * @param key the key's position
     */
    double apply(double score, int batch, int head, long query, long key);
  }

  /** The score function that applies {@code function} to each score of a tile. */
  static ScoreFunction elementwise(Elementwise function) {
    return tile -> {
      for (int i = 0; i < tile.queries(); i++) {
        for (int j = 0; j < tile.keys(); j++) {
          double score = tile.get(i, j);
          tile.set(
              i,
              j,
              function.apply(
                  score, tile.batch(), tile.head(i), tile.query(i), tile.keyBegin() + j));
        }
      }
    };
  }
}
