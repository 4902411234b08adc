package dev.foldmax.examples.minilm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The encoder's parts, by hand and against the definition. */
class LayersTest {
  @Test
  void linearIsAMatrixProductPlusABias() {
    int rows = 5;
    int in = 12;
    int out = 7;
    Random random = new Random(20260101);
    float[] x = gaussians(random, rows * in);
    float[] weight = gaussians(random, in * out);
    float[] bias = gaussians(random, out);

    float[] y = new Linear(weight, bias).apply(x);

    assertThat(y).hasSize(rows * out);
    for (int r = 0; r < rows; r++) {
      for (int j = 0; j < out; j++) {
        double expected = bias[j];
        for (int i = 0; i < in; i++) {
          expected += (double) x[r * in + i] * weight[i * out + j];
        }
        assertThat(y[r * out + j]).isCloseTo((float) expected, within(1e-5f));
      }
    }
  }

  @Test
  void linearRefusesAWeightThatDoesNotFitItsBias() {
    assertThatThrownBy(() -> new Linear(new float[10], new float[5]))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("multiple of 4 and out = 5, got 10 elements");
  }

  @Test
  void layerNormGivesMeanZeroAndVarianceOneBeforeWeightAndBias() {
    LayerNorm norm = new LayerNorm(new float[] {1, 1, 1, 2}, new float[] {0, 0, 0, 10});

    // Mean 3, variance 4; then a row of equal numbers, whose variance is 0.
    float[] x = norm.apply(new float[] {1, 1, 5, 5, 7, 7, 7, 7});

    assertThat(x).containsExactly(new float[] {-1, -1, 1, 12, 0, 0, 0, 10}, within(1e-6f));
  }

  @Test
  void layerNormAddsTheResidualFirst() {
    LayerNorm norm = new LayerNorm(new float[] {1, 1}, new float[] {0, 0});

    float[] x = norm.applyToSum(new float[] {1, 0}, new float[] {1, 4});

    assertThat(x).containsExactly(new float[] {-1, 1}, within(1e-6f));
  }

  /** The values of Abramowitz and Stegun's table 7.1, and beyond it. */
  @ParameterizedTest
  @CsvSource({
    "0, 0",
    "1e-8, 1.1283791671e-8",
    "0.5, 0.5204998778",
    "1, 0.8427007929",
    "-1, -0.8427007929",
    "2, 0.9953222650",
    "3, 0.9999779095",
    "3.9999, 0.9999999846",
    "4, 1",
    "-1e30, -1"
  })
  void errorFunctionIsAsTabulated(double x, double expected) {
    assertThat(Gelu.erf(x)).isCloseTo(expected, within(2e-10));
  }

  @Test
  void geluIsExactNotTheTanhApproximation() {
    // x * Phi(x) with Phi(1) = 0.84134475, Phi(2) = 0.97724987; the approximation gives 0.84119199.
    assertThat(Gelu.apply(new float[] {0, 1, -1, 2, 20, -20}))
        .containsExactly(
            new float[] {0, 0.8413447f, -0.1586553f, 1.9544997f, 20, 0}, within(1e-7f));
  }

  @Test
  void poolingAveragesRealTokensAlone() {
    TokenBatch tokens = TokenBatch.of(List.of(new long[] {5, 6}, new long[] {7}));
    float[] states = {0, 2, 6, 6, 0, -3, 99, 99}; // (2, 2, 2), the last of them padding

    SentenceVectors vectors = SentenceVectors.pool(states, tokens);

    assertThat(vectors.values()).containsExactly(new float[] {0.6f, 0.8f, 0, -1}, within(1e-7f));
    assertThat(vectors.cosine(0, vectors, 1)).isCloseTo(-0.8, within(1e-7));
  }

  @Test
  void batchPadsToTheLongestAndMasksThePadding() {
    TokenBatch tokens = TokenBatch.of(List.of(new long[] {5}, new long[] {6, 7, 8}));

    assertThat(tokens.ids()).containsExactly(5, 0, 0, 6, 7, 8);
    assertThat(tokens.lengths()).containsExactly(1, 3);
    assertThat(tokens.mask().shape()).containsExactly(2, 1, 1, 3);
    assertThat(tokens.mask().toFloatArray()).containsExactly(1, 0, 0, 1, 1, 1);
  }

  private static float[] gaussians(Random random, int n) {
    float[] values = new float[n];
    for (int i = 0; i < n; i++) {
      values[i] = (float) random.nextGaussian();
    }
    return values;
  }
}
