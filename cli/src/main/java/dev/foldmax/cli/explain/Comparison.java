package dev.foldmax.cli.explain;

/**
 * Two computations of one row, compared bit by bit.
 *
 * @param one the first, in words
 * @param other the second, in words
 * @param numbers how many numbers were compared: the results and the logsumexp
 * @param differing how many of them differ in a bit
 * @param largest the largest absolute difference
 */
public record Comparison(String one, String other, int numbers, int differing, double largest) {

  /**
   * Compares two results.
   *
   * @param a the numbers of {@code one}
   * @param b the numbers of {@code other}, as many
   */
  public static Comparison of(String one, float[] a, String other, float[] b) {
    int differing = 0;
    double largest = 0;
    for (int i = 0; i < a.length; i++) {
      if (Float.floatToRawIntBits(a[i]) != Float.floatToRawIntBits(b[i])) {
        differing++;
        largest = Math.max(largest, Math.abs((double) a[i] - b[i]));
      }
    }
    return new Comparison(one, other, a.length, differing, largest);
  }

  /** The same for results in float64. */
  public static Comparison of(String one, double[] a, String other, double[] b) {
    int differing = 0;
    double largest = 0;
    for (int i = 0; i < a.length; i++) {
      if (Double.doubleToRawLongBits(a[i]) != Double.doubleToRawLongBits(b[i])) {
        differing++;
        largest = Math.max(largest, Math.abs(a[i] - b[i]));
      }
    }
    return new Comparison(one, other, a.length, differing, largest);
  }

  /**
   * Folds a row in float32 with its tiles cut into two numbers of parts.
   *
   * @param row of which no score is NaN or +inf
   * @param tile keys of a tile
   */
  public static Comparison ofParts(Row row, int tile, int parts, int otherParts) {
    return of(
        inParts(parts),
        FloatFold.of(row, tile, Format.F32, parts).numbers(),
        inParts(otherParts),
        FloatFold.of(row, tile, Format.F32, otherParts).numbers());
  }

  private static String inParts(int parts) {
    return parts == 1 ? "f32 fold, in one part" : "f32 fold, " + parts + " parts merged";
  }

  /** Whether no bit differs. */
  public boolean isSame() {
    return differing == 0;
  }
}
