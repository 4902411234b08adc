package dev.foldmax.examples.decoder;

import java.util.SplittableRandom;

/** Weights that a seed decides, since this example trains nothing and downloads nothing. */
final class Weights {
  private final SplittableRandom random;

  Weights(long seed) {
    random = new SplittableRandom(seed);
  }

  /** A layer from {@code in} to {@code out} numbers that keeps their size about as it is. */
  Linear linear(int in, int out) {
    return new Linear(gaussian(in * out, 1 / Math.sqrt(in)), out);
  }

  /** Factors around 1. */
  RmsNorm norm(int size) {
    float[] factors = gaussian(size, 0.1);
    for (int i = 0; i < size; i++) {
      factors[i] += 1;
    }
    return new RmsNorm(factors);
  }

  /** Normally distributed numbers. */
  float[] gaussian(int count, double deviation) {
    float[] numbers = new float[count];
    for (int i = 0; i < count; i++) {
      numbers[i] = (float) (random.nextGaussian() * deviation);
    }
    return numbers;
  }
}
