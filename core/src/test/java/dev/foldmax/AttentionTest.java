package dev.foldmax;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.within;

import org.junit.jupiter.api.Test;

class AttentionTest {
  @Test
  void everyMethodReturnsANewDescription() {
    Tensor bias = Tensor.of(new float[4], 2, 2);
    Tensor perHead = Tensor.of(new float[2], 2);
    ScoreFunction function = ScoreFunction.elementwise((s, b, h, i, j) -> s);
    Attention all =
        Attention.standard()
            .scale(0.5)
            .mask(Mask.window(1, 2))
            .softCap(30)
            .bias(bias)
            .alibi(perHead, Alignment.TOP_LEFT)
            .sinks(perHead)
            .scoreFunction(function)
            .lazyRescale(4)
            .phase(Phase.DECODE);
    assertThat(all.scaleFor(64)).isEqualTo(0.5);
    assertThat(all.mask()).isEqualTo(Mask.window(1, 2));
    assertThat(all.softCap()).isEqualTo(30);
    assertThat(all.bias()).isSameAs(bias);
    assertThat(all.alibiSlopes()).isSameAs(perHead);
    assertThat(all.alibiAlignment()).isEqualTo(Alignment.TOP_LEFT);
    assertThat(all.sinks()).isSameAs(perHead);
    assertThat(all.scoreFunction()).isSameAs(function);
    assertThat(all.rescale()).isEqualTo(Rescale.LAZY);
    assertThat(all.tau()).isEqualTo(4);
    assertThat(all.phase()).isEqualTo(Phase.DECODE);

    Attention standard = Attention.standard();
    assertThat(standard.mask()).isEqualTo(Mask.none());
    assertThat(standard.softCap()).isZero();
    assertThat(standard.bias()).isNull();
    assertThat(standard.alibiSlopes()).isNull();
    assertThat(standard.sinks()).isNull();
    assertThat(standard.scoreFunction()).isNull();
    assertThat(standard.rescale()).isNull();
    assertThat(standard.tau()).isEqualTo(Attention.DEFAULT_TAU);
    assertThat(standard.phase()).isEqualTo(Phase.AUTO);
    assertThat(Attention.causal().mask()).isEqualTo(Mask.causal());
  }

  @Test
  void theScaleDefaultsToTheRootOfTheDimension() {
    assertThat(Attention.standard().scaleFor(64)).isEqualTo(0.125);
    assertThat(Attention.standard().scaleFor(3)).isCloseTo(1 / Math.sqrt(3), within(1e-16));
    assertThat(Attention.standard().scaleFor(0)).isEqualTo(1);
    assertThat(Attention.standard().scale(0).scaleFor(64)).isZero();
  }

  @Test
  void wrongArgumentsAreNamed() {
    Attention attention = Attention.standard();
    for (double wrong : new double[] {Double.NaN, Double.POSITIVE_INFINITY}) {
      assertThatIllegalArgumentException()
          .isThrownBy(() -> attention.scale(wrong))
          .withMessage("scale: must be finite, got " + wrong);
    }
    for (double wrong : new double[] {-1, Double.NaN, Double.POSITIVE_INFINITY}) {
      assertThatIllegalArgumentException()
          .isThrownBy(() -> attention.softCap(wrong))
          .withMessageContaining(
              "softCap: must be positive and finite, or 0 for none, got " + wrong);
    }
    for (double wrong : new double[] {-1, Double.NaN, 64.5, Double.POSITIVE_INFINITY}) {
      assertThatIllegalArgumentException()
          .isThrownBy(() -> attention.lazyRescale(wrong))
          .withMessageStartingWith("tau: ")
          .withMessageEndingWith("got " + wrong);
    }
    Tensor booleans = Tensor.of(new boolean[4], 2, 2);
    Tensor deep = Tensor.of(new float[1], 1, 1, 1, 1, 1);
    assertThatIllegalArgumentException()
        .isThrownBy(() -> attention.bias(booleans))
        .withMessageContaining("bias: expected a floating tensor")
        .withMessageContaining("BOOL(2, 2)");
    assertThatIllegalArgumentException().isThrownBy(() -> attention.bias(deep));
    assertThatIllegalArgumentException()
        .isThrownBy(() -> attention.sinks(Tensor.of(new float[4], 2, 2)))
        .withMessageContaining("sinks: expected a floating tensor of shape (query heads)");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> attention.alibi(deep))
        .withMessageContaining("alibi: expected floating slopes");
  }

  @Test
  void printsWhatItComputes() {
    assertThat(Attention.standard().scale(2).softCap(30).sinks(Tensor.of(new float[1], 1)))
        .asString()
        .contains("scale 2.0")
        .contains("soft cap 30.0")
        .contains("sinks")
        .doesNotContain("bias");
  }

  @Test
  void phasesResolveByTheNumberOfQueries() {
    assertThat(Phase.AUTO.resolve(16)).isEqualTo(Phase.DECODE);
    assertThat(Phase.AUTO.resolve(17)).isEqualTo(Phase.PREFILL);
    assertThat(Phase.PREFILL.resolve(1)).isEqualTo(Phase.PREFILL);
    assertThat(Phase.DECODE.resolve(1000)).isEqualTo(Phase.DECODE);
  }
}
