package dev.foldmax.cli.explain;

import dev.foldmax.Attention;
import dev.foldmax.Rescale;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;

/**
 * A row folded tile after tile, in float64, by the five lines of {@link dev.foldmax.SoftmaxState},
 * keeping every number on the way.
 *
 * @param tile how many keys a tile has
 * @param dialect when the state is corrected
 * @param tau the threshold of {@link Rescale#LAZY} in base 2
 * @param steps one for each tile, hidden ones included, and one for a sink
 * @param max m at the end
 * @param sum l at the end
 * @param output the first components of O / l at the end
 */
public record RowTrace(
    int tile,
    Rescale dialect,
    double tau,
    List<Step> steps,
    double max,
    double sum,
    List<Double> output) {

  /** How many components of values are kept: as many as a line can show. */
  public static final int COMPONENTS = 3;

  /** Where there are more tiles than this, each keeps only a few keys. */
  private static final int MANY_TILES = 512;

  private static final int KEYS_OF_FEW_TILES = 8;
  private static final int KEYS_OF_MANY_TILES = 3;

  /**
   * Folds a row.
   *
   * @param row of which no score is NaN or +inf
   * @param tile keys of a tile, at least 1
   * @param dialect when to correct
   * @param tau the threshold of LAZY in base 2, 0 to {@link Attention#MAX_TAU}
   */
  public static RowTrace of(Row row, int tile, Rescale dialect, double tau) {
    return new Fold(row, tile, dialect, tau).run();
  }

  /** The logsumexp; -inf where nothing is visible. */
  public double logSumExp() {
    return sum == 0 ? Double.NEGATIVE_INFINITY : max + Math.log(sum);
  }

  /** By how much a score must exceed m to raise it, natural: 0 but for LAZY. */
  public double threshold() {
    return dialect == Rescale.LAZY ? tau * Math.log(2) : 0;
  }

  /** How often the maximum rose above another one. */
  public int corrections() {
    return (int) steps.stream().filter(Step::corrects).count();
  }

  /** The state under way. */
  private static final class Fold {
    private final Row row;
    private final int tile;
    private final Rescale dialect;
    private final double tau;
    private final double threshold;
    private final double[] value;
    private final double[] output;
    private final int keysKept;
    private final List<Step> steps = new ArrayList<>();
    private double max = Double.NEGATIVE_INFINITY;
    private double sum;

    Fold(Row row, int tile, Rescale dialect, double tau) {
      this.row = row;
      this.tile = tile;
      this.dialect = dialect;
      this.tau = tau;
      this.threshold = dialect == Rescale.LAZY ? tau * Math.log(2) : 0;
      this.value = new double[row.values().dimension()];
      this.output = new double[value.length];
      this.keysKept = row.keys() / tile > MANY_TILES ? KEYS_OF_MANY_TILES : KEYS_OF_FEW_TILES;
    }

    RowTrace run() {
      for (int begin = 0; begin < row.keys(); begin += tile) {
        addTile(begin, Math.min(begin + tile, row.keys()));
      }
      if (row.sink() != Double.NEGATIVE_INFINITY) {
        addSink();
      }
      List<Double> result = first(output).stream().map(o -> sum == 0 ? 0 : o / sum).toList();
      return new RowTrace(tile, dialect, tau, withShares(), max, sum, result);
    }

    private void addTile(int begin, int end) {
      double tileMax = Double.NEGATIVE_INFINITY;
      int visible = 0;
      for (int j = begin; j < end; j++) {
        tileMax = Math.max(tileMax, row.score(j));
        visible += row.score(j) == Double.NEGATIVE_INFINITY ? 0 : 1;
      }
      double newMax = raised(tileMax);
      double tileSum = 0;
      double[] tileValues = new double[output.length];
      for (int j = begin; j < end; j++) {
        if (row.score(j) != Double.NEGATIVE_INFINITY) {
          double p = Math.exp(row.score(j) - newMax);
          tileSum += p;
          row.values().read(j, value);
          for (int d = 0; d < value.length; d++) {
            tileValues[d] += p * value[d];
          }
        }
      }
      update(begin, end, visible, tileMax, newMax, tileSum, tileValues, largest(begin, end));
    }

    private void addSink() {
      double newMax = raised(row.sink());
      double p = Math.exp(row.sink() - newMax);
      int end = row.keys();
      update(end, end, 1, row.sink(), newMax, p, new double[output.length], List.of());
    }

    /** Line 1, in the dialect. */
    private double raised(double candidate) {
      double least = max == Double.NEGATIVE_INFINITY ? max : max + threshold;
      return candidate > least ? candidate : max;
    }

    /** Lines 2, 4 and 5. */
    private void update(
        int begin,
        int end,
        int visible,
        double tileMax,
        double newMax,
        double tileSum,
        double[] tileValues,
        List<Key> largest) {
      double correction = newMax == max ? 1 : Math.exp(max - newMax);
      List<Double> before = first(output);
      double newSum = sum * correction + tileSum;
      for (int d = 0; d < output.length; d++) {
        output[d] = output[d] * correction + tileValues[d];
      }
      steps.add(
          new Step(
              begin,
              end,
              visible,
              tileMax,
              max,
              newMax,
              correction,
              tileSum,
              sum,
              newSum,
              first(tileValues),
              before,
              first(output),
              0,
              largest));
      max = newMax;
      sum = newSum;
    }

    private List<Double> first(double[] components) {
      return Arrays.stream(components).limit(COMPONENTS).boxed().toList();
    }

    private List<Key> largest(int begin, int end) {
      Comparator<Key> byScore = Comparator.comparingDouble(Key::score);
      PriorityQueue<Key> kept = new PriorityQueue<>(byScore);
      for (int j = begin; j < end; j++) {
        if (row.score(j) == Double.NEGATIVE_INFINITY) {
          continue;
        }
        if (kept.size() < keysKept) {
          kept.add(new Key(j, row.score(j), 0));
        } else if (row.score(j) > kept.element().score()) {
          kept.remove();
          kept.add(new Key(j, row.score(j), 0));
        }
      }
      return kept.stream().sorted(byScore.reversed().thenComparingInt(Key::index)).toList();
    }

    /** The steps with what only the end tells: the share of each tile and key. */
    private List<Step> withShares() {
      return steps.stream()
          .map(
              step ->
                  new Step(
                      step.begin(),
                      step.end(),
                      step.visible(),
                      step.tileMax(),
                      step.maxBefore(),
                      step.maxAfter(),
                      step.correction(),
                      step.tileSum(),
                      step.sumBefore(),
                      step.sumAfter(),
                      step.tileValues(),
                      step.outputBefore(),
                      step.outputAfter(),
                      step.tileSum() == 0
                          ? 0
                          : step.tileSum() * Math.exp(step.maxAfter() - max) / sum,
                      step.largest().stream()
                          .map(k -> new Key(k.index(), k.score(), Math.exp(k.score() - max) / sum))
                          .toList()))
          .toList();
    }
  }
}
