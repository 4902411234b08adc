package dev.foldmax.cli.explain;

import dev.foldmax.Attention;
import dev.foldmax.Rescale;
import java.util.List;

/**
 * When a state is corrected.
 *
 * @param rescale the dialect
 * @param tau the threshold of {@link Rescale#LAZY} in base 2; of no meaning for the others
 */
public record Dialect(Rescale rescale, double tau) {
  /** Those that are compared. */
  public static final List<Dialect> ALL =
      List.of(
          new Dialect(Rescale.ALWAYS, 0),
          new Dialect(Rescale.ON_NEW_MAX, 0),
          new Dialect(Rescale.LAZY, 2),
          new Dialect(Rescale.LAZY, 4),
          new Dialect(Rescale.LAZY, Attention.DEFAULT_TAU),
          new Dialect(Rescale.LAZY, 16));

  /** Its name, such as {@code LAZY, tau 8}. */
  public String label() {
    return rescale == Rescale.LAZY ? "LAZY, tau " + (long) tau : rescale.name();
  }

  /**
   * How many of a row's tiles correct the state. The first visible one never does: there is nothing
   * to correct yet.
   *
   * @param tileMaxima natural; -inf for a tile without a visible key, which no dialect visits
   */
  public int corrections(double[] tileMaxima) {
    double threshold = rescale == Rescale.LAZY ? tau * Math.log(2) : 0;
    double max = Double.NEGATIVE_INFINITY;
    int corrections = 0;
    for (double tileMax : tileMaxima) {
      if (tileMax == Double.NEGATIVE_INFINITY) {
        continue;
      }
      if (max == Double.NEGATIVE_INFINITY) {
        max = tileMax;
      } else if (rescale == Rescale.ALWAYS) {
        corrections++;
        max = Math.max(max, tileMax);
      } else if (tileMax > max + threshold) {
        corrections++;
        max = tileMax;
      }
    }
    return corrections;
  }
}
