package dev.foldmax.benchmarks.gpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.foldmax.DType;
import org.junit.jupiter.api.Test;

/** Lines of the script's. */
class RequestTest {
  @Test
  void aVerbAndValues() {
    Request request = Request.of(" prepare case=a  keys=8192 type=bf16 ");
    assertThat(request.verb()).isEqualTo("prepare");
    assertThat(request.text("case")).isEqualTo("a");
    assertThat(request.number("keys")).isEqualTo(8192);
    assertThat(request.number("page", 0)).isZero();
    assertThat(request.constant(DType.class, "type")).isEqualTo(DType.BF16);
    assertThat(request.has("page")).isFalse();
  }

  @Test
  void whatIsMissingIsNamed() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Request.of("time case=a").number("heat"))
        .withMessageContaining("time")
        .withMessageContaining("heat");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Request.of("time case"))
        .withMessageContaining("case");
  }

  @Test
  void timesOfSeveralCallsAreDivided() {
    Prepared.Times times = Prepared.Times.of(new double[] {30, 10, 20, 40}, 10);
    assertThat(times).isEqualTo(new Prepared.Times(2.5, 1, 4, 4));
  }
}
