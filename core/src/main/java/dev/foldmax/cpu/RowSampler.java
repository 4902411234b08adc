package dev.foldmax.cpu;

import dev.foldmax.Sampling;

/**
 * How one call draws from its rows: either the few largest elements of a row are selected first,
 * and the draw is among them, or the draw streams over the whole row.
 */
final class RowSampler {
  /** Up to this length all elements are sorted for topP, which is as fast as the search. */
  private static final int SORTED = 512;

  private final Elements logits;
  private final Sampling sampling;
  private final long n;
  private final int k;

  RowSampler(Elements logits, Sampling sampling, long n) {
    this.logits = logits;
    this.sampling = sampling;
    this.n = n;
    this.k = selected(sampling, n);
  }

  private static int selected(Sampling sampling, long n) {
    if (sampling.temperature() == 0) {
      return 1;
    }
    if (sampling.topK() > 0 && sampling.topK() < n) {
      if (sampling.topK() > Selection.MAX_K) {
        throw new IllegalArgumentException(
            "topK: at most " + Selection.MAX_K + " on the CPU, got " + sampling.topK());
      }
      return (int) sampling.topK();
    }
    return sampling.topP() < 1 && n <= SORTED ? (int) n : 0;
  }

  /** How many elements have to be selected before {@link #drawSelected}; 0 to draw from all. */
  int k() {
    return k;
  }

  /** Whether the draw needs the whole row's nucleus. */
  boolean needsNucleus() {
    return k == 0 && sampling.topP() < 1;
  }

  /** Draws from a row. */
  long draw(RowPass pass, long row) {
    if (n == 0) {
      return RowDraw.NONE;
    }
    if (k > 0) {
      Selection selection = pass.selection();
      selection.clear(k);
      pass.select(logits, row, n, selection);
      return drawSelected(selection, pass.draw(), row);
    }
    RowDraw draw = pass.draw();
    if (start(draw, pass, row, pass.max(logits, row, 0, n))) {
      draw.add(pass, logits, row, 0, n);
    }
    return draw.winner();
  }

  /**
   * Starts a draw from all elements.
   *
   * @return false if the row has no distribution, as far as that is known
   */
  boolean start(RowDraw draw, RowPass pass, long row, double max) {
    draw.start(sampling, sampling.firstRow() + row, max);
    if (Double.isInfinite(max)) {
      return false;
    }
    if (needsNucleus()) {
      if (!pass.nucleus().find(pass, logits, row, n, max, sampling)) {
        return false;
      }
      draw.restrict(pass.nucleus());
    }
    return true;
  }

  /** Draws from the largest elements of a row. */
  long drawSelected(Selection selection, RowDraw draw, long row) {
    selection.sort();
    double max = selection.elementAt(0);
    if (Double.isNaN(max) || Double.isInfinite(max)) {
      return RowDraw.NONE;
    }
    if (sampling.temperature() == 0) {
      return selection.indexAt(0);
    }
    draw.start(sampling, sampling.firstRow() + row, max);
    int kept = kept(selection, max);
    for (int i = 0; i < kept; i++) {
      draw.offer(selection.elementAt(i), selection.indexAt(i));
    }
    return draw.winner();
  }

  /** How many of the selected elements it takes to reach topP of their weights. */
  private int kept(Selection selection, double max) {
    int size = selection.size();
    if (sampling.topP() == 1) {
      return size;
    }
    double sum = 0;
    for (int i = 0; i < size; i++) {
      sum += weight(selection, i, max);
    }
    double reached = 0;
    for (int i = 0; i < size; i++) {
      reached += weight(selection, i, max);
      if (reached >= sampling.topP() * sum) {
        return i + 1;
      }
    }
    return size;
  }

  private double weight(Selection selection, int i, double max) {
    return Math.exp((selection.elementAt(i) - max) / sampling.temperature());
  }
}
