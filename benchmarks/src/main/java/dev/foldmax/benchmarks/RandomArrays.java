package dev.foldmax.benchmarks;

import java.util.SplittableRandom;

/** Seeded numbers of mean 0 and variance 1, evenly spread. */
final class RandomArrays {
  private static final double HALF_WIDTH = Math.sqrt(3);

  private RandomArrays() {}

  /** Float32 numbers. */
  static float[] floats(long seed, int n) {
    SplittableRandom random = new SplittableRandom(seed);
    float[] array = new float[n];
    for (int i = 0; i < n; i++) {
      array[i] = (float) next(random);
    }
    return array;
  }

  /** Float64 numbers. */
  static double[] doubles(long seed, int n) {
    SplittableRandom random = new SplittableRandom(seed);
    double[] array = new double[n];
    for (int i = 0; i < n; i++) {
      array[i] = next(random);
    }
    return array;
  }

  /** 8-bit integers over the whole range but -128; {@link #BYTE_SCALE} gives them variance 1. */
  static byte[] bytes(long seed, int n) {
    SplittableRandom random = new SplittableRandom(seed);
    byte[] array = new byte[n];
    for (int i = 0; i < n; i++) {
      array[i] = (byte) random.nextInt(-127, 128);
    }
    return array;
  }

  /** The factor that gives {@link #bytes} variance 1. */
  static final float BYTE_SCALE = (float) (HALF_WIDTH / 127);

  private static double next(SplittableRandom random) {
    return (2 * random.nextDouble() - 1) * HALF_WIDTH;
  }
}
