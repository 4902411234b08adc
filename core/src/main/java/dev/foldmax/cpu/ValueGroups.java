package dev.foldmax.cpu;

/**
 * How the dimensions of values are cut for the values kernels of {@link FloatPanel}: first groups
 * of six, then of five. Every number of dimensions from 20 up is such a sum; below, a few are
 * padded.
 *
 * @param count the number of groups
 * @param sixes how many of them have six dimensions
 */
record ValueGroups(int count, int sixes) {
  /** The groups for so many dimensions. */
  static ValueGroups of(int dims) {
    int padded = dims;
    while (fives(padded) > count(padded)) {
      padded++;
    }
    int count = count(padded);
    return new ValueGroups(count, count - fives(padded));
  }

  private static int count(int dims) {
    return (dims + 5) / 6;
  }

  private static int fives(int dims) {
    return 6 * count(dims) - dims;
  }

  /** The first dimension of a group. */
  int begin(int group) {
    return 6 * group - Math.max(0, group - sixes);
  }

  /** The number of dimensions, with those of padding. */
  int dims() {
    return begin(count);
  }
}
