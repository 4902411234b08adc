package dev.foldmax;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class SamplingTest {
  /** SplitMix64's finaliser as its authors state it, apart from the code under test. */
  private static long finalise(long z) {
    z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
    z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
    return z ^ (z >>> 31);
  }

  @Test
  void theStreamIsSplitMix64() {
    // The first output of SplitMix64 under seed 0, published with the generator.
    assertThat(Sampling.stream(0, 0)).isEqualTo(finalise(0xe220a8397b1dcdafL));
    for (long seed : new long[] {0, 1, -1, Long.MIN_VALUE, 0x123456789abcdefL}) {
      for (long row = 0; row < 100; row++) {
        long golden = 0x9e3779b97f4a7c15L;
        assertThat(Sampling.stream(seed, row))
            .isEqualTo(finalise(finalise(seed + golden) + row * golden));
      }
    }
  }

  @Test
  void theBitsAreFixedForever() {
    // Draws under a seed must not change from release to release; these were computed by hand.
    assertThat(BITS_OF_STREAM_0)
        .containsExactly(Sampling.bits(0, 0), Sampling.bits(0, 1), Sampling.bits(0, 2));
    long stream = 0x0123456789abcdefL;
    for (long index : new long[] {0, 1, 15, 1L << 31, 1L << 32, (5L << 32) + 7}) {
      assertThat(Integer.toUnsignedLong(Sampling.bits(stream, index)))
          .isEqualTo(bitsIn64(stream, index));
    }
  }

  private static final int[] BITS_OF_STREAM_0 = {
    (int) bitsIn64(0, 0), (int) bitsIn64(0, 1), (int) bitsIn64(0, 2)
  };

  /** The documented mix in 64-bit arithmetic modulo 2^32. */
  private static long bitsIn64(long stream, long index) {
    long mask = 0xffffffffL;
    long x = (index ^ stream) & mask;
    x = ((x ^ (x >> 16)) * 0x21f0aaadL) & mask;
    x = ((x ^ (x >> 15)) * 0xd35a2d97L) & mask;
    x = x ^ (x >> 15);
    x = (x + (stream >>> 32) + (index >>> 32) * 0x9e3779b9L) & mask;
    x = ((x ^ (x >> 16)) * 0x21f0aaadL) & mask;
    x = ((x ^ (x >> 15)) * 0xd35a2d97L) & mask;
    return x ^ (x >> 15);
  }

  @Test
  void uniformLiesStrictlyInsideTheUnitInterval() {
    assertThat((0 + 0.5) * 0x1p-32).isPositive();
    for (long row = 0; row < 50; row++) {
      long stream = Sampling.stream(3, row);
      for (long i = 0; i < 2000; i++) {
        assertThat(Sampling.uniform(stream, i)).isStrictlyBetween(0.0, 1.0);
      }
    }
  }

  @Test
  void numbersAreUniformAlongARowAndDownAColumn() {
    assertThat(chiSquare(i -> Sampling.uniform(Sampling.stream(1, 0), i))).isLessThan(LIMIT);
    assertThat(chiSquare(i -> Sampling.uniform(Sampling.stream(1, i), 0))).isLessThan(LIMIT);
    assertThat(chiSquare(i -> Sampling.uniform(Sampling.stream(i, 0), 0))).isLessThan(LIMIT);
    assertThat(chiSquare(i -> Sampling.uniform(Sampling.stream(1, 0), i << 32))).isLessThan(LIMIT);
  }

  @Test
  void neighboursAreNotCorrelated() {
    int n = 1 << 16;
    double along = 0;
    double down = 0;
    for (int i = 0; i < n; i++) {
      long stream = Sampling.stream(7, i);
      double x = Sampling.uniform(stream, 5) - 0.5;
      along += x * (Sampling.uniform(stream, 6) - 0.5);
      down += x * (Sampling.uniform(Sampling.stream(7, i + 1), 5) - 0.5);
    }
    // Products have variance 1/144; five standard deviations of their mean.
    double bound = 5 / 12.0 / Math.sqrt(n);
    assertThat(Math.abs(along / n)).isLessThan(bound);
    assertThat(Math.abs(down / n)).isLessThan(bound);
  }

  private static final int BINS = 256;

  /** 255 degrees of freedom: mean 255, deviation 22.6; exceeded by chance once in 10^6. */
  private static final double LIMIT = 375;

  private static double chiSquare(java.util.function.LongToDoubleFunction draw) {
    int n = 1 << 16;
    int[] count = new int[BINS];
    for (long i = 0; i < n; i++) {
      count[(int) (draw.applyAsDouble(i) * BINS)]++;
    }
    double expected = (double) n / BINS;
    double sum = 0;
    for (int c : count) {
      sum += (c - expected) * (c - expected) / expected;
    }
    return sum;
  }

  @Test
  void everyMethodChangesOneThing() {
    SplittableRandom random = new SplittableRandom(1);
    long seed = random.nextLong();
    assertThat(Sampling.seeded(seed)).isEqualTo(new Sampling(1, 0, 1, 0, seed, 0));
    assertThat(Sampling.seeded(5).temperature(0.5).topK(40).topP(0.9).minP(0.05).firstRow(12))
        .isEqualTo(new Sampling(0.5, 40, 0.9, 0.05, 5, 12));
  }

  @Test
  void wrongArgumentsAreNamed() {
    Sampling sampling = Sampling.seeded(1);
    for (double wrong : new double[] {-1, Double.NaN, Double.POSITIVE_INFINITY}) {
      assertThatIllegalArgumentException()
          .isThrownBy(() -> sampling.temperature(wrong))
          .withMessage("temperature: must be finite and at least 0, got " + wrong);
    }
    for (double wrong : new double[] {0, -0.1, 1.1, Double.NaN}) {
      assertThatIllegalArgumentException()
          .isThrownBy(() -> sampling.topP(wrong))
          .withMessage("topP: must lie in (0, 1], got " + wrong);
    }
    for (double wrong : new double[] {-0.1, 1.1, Double.NaN}) {
      assertThatIllegalArgumentException()
          .isThrownBy(() -> sampling.minP(wrong))
          .withMessage("minP: must lie in [0, 1], got " + wrong);
    }
    assertThatIllegalArgumentException()
        .isThrownBy(() -> sampling.topK(-1))
        .withMessage("topK: must be at least 0, got -1");
  }
}
