package dev.foldmax.cli.explain;

import dev.foldmax.Rescale;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The rows around the one that is explained: those of its head, or of its tensor; all, or evenly
 * spaced ones where these are many. It holds the maximum of each tile of each row, which is all
 * that the dialects see.
 */
public final class Head {
  private final long rows;
  private final List<Long> numbers;
  private final double[][] tileMaxima;
  private final boolean[] isNaN;
  private final int dimension;

  /**
   * A head.
   *
   * @param rows how many there are
   * @param numbers which of them are looked at, ascending
   * @param tileMaxima (numbers, tiles), natural; -inf for a tile without a visible key; a row with
   *     a NaN or +inf is NaN, and counts nowhere
   * @param dimension of the values; a correction takes one multiplication more, for the sum
   */
  public Head(long rows, List<Long> numbers, double[][] tileMaxima, int dimension) {
    if (numbers.size() != tileMaxima.length) {
      throw new IllegalArgumentException(
          "tileMaxima: expected " + numbers.size() + " rows, got " + tileMaxima.length);
    }
    this.rows = rows;
    this.numbers = List.copyOf(numbers);
    this.tileMaxima = tileMaxima.clone();
    this.isNaN = new boolean[tileMaxima.length];
    this.dimension = dimension;
    for (int i = 0; i < tileMaxima.length; i++) {
      isNaN[i] = Arrays.stream(tileMaxima[i]).anyMatch(Row::isBad);
      if (isNaN[i]) {
        double[] nothing = new double[tileMaxima[i].length];
        Arrays.fill(nothing, Double.NEGATIVE_INFINITY);
        this.tileMaxima[i] = nothing;
      }
    }
  }

  /** The maxima of the tiles of a row of scores. */
  public static double[] tileMaxima(double[] scores, int tile) {
    double[] maxima = new double[Math.ceilDiv(scores.length, tile)];
    for (int t = 0; t < maxima.length; t++) {
      maxima[t] = Double.NEGATIVE_INFINITY;
      for (int j = t * tile; j < Math.min((t + 1) * tile, scores.length); j++) {
        maxima[t] = Math.max(maxima[t], scores[j]); // keeps a NaN
      }
    }
    return maxima;
  }

  /** How many rows there are. */
  public long rows() {
    return rows;
  }

  /** Which of them are looked at. */
  public List<Long> numbers() {
    return numbers;
  }

  /** The number of tiles of each row. */
  public int tiles() {
    return tileMaxima.length == 0 ? 0 : tileMaxima[0].length;
  }

  /** The maxima, (numbers, tiles). */
  double[][] tileMaxima() {
    return tileMaxima;
  }

  /** How many of the rows that are looked at are NaN. */
  public int rowsThatAreNaN() {
    int count = 0;
    for (boolean one : isNaN) {
      count += one ? 1 : 0;
    }
    return count;
  }

  /** How many numbers a correction multiplies: the sum and the output. */
  public int multiplicationsOfCorrection() {
    return dimension + 1;
  }

  /** The tiles that have a visible key, of all rows. */
  public long visibleTiles() {
    long visible = 0;
    for (double[] maxima : tileMaxima) {
      for (double tileMax : maxima) {
        visible += tileMax == Double.NEGATIVE_INFINITY ? 0 : 1;
      }
    }
    return visible;
  }

  /** How many tiles correct the state, of all rows. */
  public long corrections(Dialect dialect) {
    long corrections = 0;
    for (double[] maxima : tileMaxima) {
      corrections += dialect.corrections(maxima);
    }
    return corrections;
  }

  /** The number of the row whose maximum rises most often; of several, the first. */
  public long mostRises() {
    Dialect everyRise = new Dialect(Rescale.ON_NEW_MAX, 0);
    int best = 0;
    for (int i = 1; i < tileMaxima.length; i++) {
      if (everyRise.corrections(tileMaxima[i]) > everyRise.corrections(tileMaxima[best])) {
        best = i;
      }
    }
    return numbers.get(best);
  }

  /** How many multiplications these corrections take. */
  public long multiplications(Dialect dialect) {
    return corrections(dialect) * multiplicationsOfCorrection();
  }

  /**
   * Where maxima rose: for each row, and each of some equally wide ranges of tiles, how often; -1
   * for a range without a visible key, -2 for all of a row that is NaN. Ranges hold more than one
   * tile where there are more tiles than columns.
   *
   * @param tilesOfColumn tiles of a range, at least 1
   */
  public List<List<Integer>> rises(int tilesOfColumn) {
    List<List<Integer>> map = new ArrayList<>();
    for (int i = 0; i < tileMaxima.length; i++) {
      double[] maxima = tileMaxima[i];
      List<Integer> columns = new ArrayList<>();
      double max = Double.NEGATIVE_INFINITY;
      for (int begin = 0; begin < maxima.length; begin += tilesOfColumn) {
        int rises = isNaN[i] ? -2 : -1;
        for (int t = begin; t < Math.min(begin + tilesOfColumn, maxima.length); t++) {
          if (maxima[t] == Double.NEGATIVE_INFINITY) {
            continue;
          }
          boolean rose = max != Double.NEGATIVE_INFINITY && maxima[t] > max;
          rises = Math.max(rises, 0) + (rose ? 1 : 0);
          max = maxima[t] > max ? maxima[t] : max;
        }
        columns.add(rises);
      }
      map.add(columns);
    }
    return map;
  }
}
