package dev.foldmax.cuda;

/** The head dimensions that kernels are compiled for; a call takes the next larger one. */
final class HeadDimensions {
  private static final int[] SMALL = {16, 32, 64, 96, 128, 192, 256};
  private static final int STEP = 128;

  private HeadDimensions() {}

  /**
   * The smallest compiled dimension that holds another.
   *
   * @param dimension at least 0
   */
  static int roundUp(int dimension) {
    for (int compiled : SMALL) {
      if (dimension <= compiled) {
        return compiled;
      }
    }
    return Math.ceilDiv(dimension, STEP) * STEP;
  }
}
