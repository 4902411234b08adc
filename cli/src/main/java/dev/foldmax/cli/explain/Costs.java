package dev.foldmax.cli.explain;

import dev.foldmax.Rescale;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * What the dialects cost on this machine, measured by doing what they do on the maxima of a head: a
 * test, and where it says so an exponential and the multiplications of the sum and the output. That
 * is lines 1, 2 and the corrections of 4 and 5, on one thread, in plain Java loops that the JIT
 * compiler turns into vectors. Products, weights and memory, which no dialect changes, are not in
 * it.
 *
 * @param nanoseconds for each of {@link Dialect#ALL}, the time of a visible tile of a row: the
 *     quickest of several rounds
 */
public record Costs(List<Double> nanoseconds) {
  /** Times closer than this are not told apart. */
  private static final double CLOSE = 1.05;

  /** Half of them let the compiler come to its best code. */
  private static final int ROUNDS = 24;

  private static final long NANOSECONDS_OF_ROUND = 2_000_000;

  /** Measures, in about a third of a second. */
  public static Costs measure(Head head) {
    List<Replay> replays = Dialect.ALL.stream().map(dialect -> new Replay(head, dialect)).toList();
    double[] best = new double[replays.size()];
    Arrays.fill(best, Double.POSITIVE_INFINITY);
    // Rounds alternate between dialects, so that all of them meet the same disturbances.
    for (int round = 0; round < ROUNDS; round++) {
      for (int i = 0; i < best.length; i++) {
        best[i] = Math.min(best[i], replays.get(i).nanosecondsOfTile());
      }
    }
    return new Costs(Arrays.stream(best).boxed().toList());
  }

  /** The dialects that cost least: one, or several that are not told apart. */
  public List<Dialect> favoured() {
    double least = nanoseconds.stream().mapToDouble(Double::doubleValue).min().orElse(0);
    List<Dialect> favoured = new ArrayList<>();
    for (int i = 0; i < nanoseconds.size(); i++) {
      if (nanoseconds.get(i) <= least * CLOSE) {
        favoured.add(Dialect.ALL.get(i));
      }
    }
    return favoured;
  }

  /** One dialect, played on a head again and again. */
  private static final class Replay {
    private final float[][] maxima; // (rows, visible tiles), natural
    private final long tiles;
    private final boolean always;
    private final float threshold;
    private final float[] output; // (dimension + 1): O, and l

    Replay(Head head, Dialect dialect) {
      this.maxima =
          Arrays.stream(head.tileMaxima())
              .map(
                  row -> {
                    double[] visible =
                        Arrays.stream(row).filter(m -> m != Double.NEGATIVE_INFINITY).toArray();
                    float[] rounded = new float[visible.length];
                    for (int t = 0; t < rounded.length; t++) {
                      rounded[t] = (float) visible[t];
                    }
                    return rounded;
                  })
              .toArray(float[][]::new);
      this.tiles = head.visibleTiles();
      this.always = dialect.rescale() == Rescale.ALWAYS;
      this.threshold = (float) (dialect.tau() * Math.log(2));
      this.output = new float[head.multiplicationsOfCorrection()];
    }

    double nanosecondsOfTile() {
      if (tiles == 0) {
        return 0;
      }
      long begin = System.nanoTime();
      long elapsed;
      long passes = 0;
      do {
        for (float[] row : maxima) {
          play(row);
        }
        passes++;
        elapsed = System.nanoTime() - begin;
      } while (elapsed < NANOSECONDS_OF_ROUND);
      return (double) elapsed / (passes * tiles);
    }

    private void play(float[] row) {
      Arrays.fill(output, 1);
      float max = row.length == 0 ? 0 : row[0];
      for (int t = 1; t < row.length; t++) {
        float tileMax = row[t];
        if (always) {
          float newMax = Math.max(max, tileMax);
          correct((float) Math.exp(max - newMax));
          max = newMax;
        } else if (tileMax > max + threshold) {
          correct((float) Math.exp(max - tileMax));
          max = tileMax;
        }
      }
    }

    private void correct(float c) {
      for (int d = 0; d < output.length; d++) {
        output[d] *= c;
      }
    }
  }
}
