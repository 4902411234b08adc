package dev.foldmax.cpu;

/** The unfinished states that tasks leave for one another, in one growing buffer of each type. */
final class Partials {
  private float[][] floats = {};
  private double[][] doubles = {};

  /** Makes room for a number of partials. */
  void reserve(int partials, int size, boolean isFloat64) {
    if (isFloat64) {
      doubles = grown(doubles, partials, size);
    } else {
      floats = grown(floats, partials, size);
    }
  }

  private static float[][] grown(float[][] old, int partials, int size) {
    if (partials == 0 || (old.length >= partials && old[0].length >= size)) {
      return old;
    }
    return new float[Math.max(partials, old.length)]
        [Math.max(size, old.length == 0 ? 0 : old[0].length)];
  }

  private static double[][] grown(double[][] old, int partials, int size) {
    if (partials == 0 || (old.length >= partials && old[0].length >= size)) {
      return old;
    }
    return new double[Math.max(partials, old.length)]
        [Math.max(size, old.length == 0 ? 0 : old[0].length)];
  }

  float[] floats(long index) {
    return floats[(int) index];
  }

  double[] doubles(long index) {
    return doubles[(int) index];
  }
}
