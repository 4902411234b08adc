package dev.foldmax.spark;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.Backend;
import dev.foldmax.SoftmaxState;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class KeyFoldTest {
  @ParameterizedTest
  @ValueSource(floats = {Float.NaN, Float.POSITIVE_INFINITY})
  void aKeyThatIsNoNumberMakesTheRowNan(float poison) {
    try (Backend backend = Backend.cpu()) {
      byte[][] bad = partial(backend, poison, 2);
      byte[][] good = partial(backend, 1, 2);
      for (List<byte[][]> partials :
          List.of(
              List.<byte[][]>of(bad, good),
              List.<byte[][]>of(good, bad),
              List.<byte[][]>of(bad, bad),
              List.<byte[][]>of(bad))) {
        SoftmaxState merged = SoftmaxState.fromBytes(KeyFold.merge(partials)[0]);
        assertThat(merged.output()).containsExactly(Double.NaN, Double.NaN);
        assertThat(merged.logSumExp()).isNaN();
      }
      assertThat(SoftmaxState.fromBytes(KeyFold.merge(List.<byte[][]>of(good, good))[0]).output())
          .containsExactly(3, 4);
    }
  }

  private static byte[][] partial(Backend backend, float... key) {
    KeyFold fold = new KeyFold(backend, 1, new float[] {1, 1}, 1, 2);
    fold.add(
        UnsafeArrayData.fromPrimitiveArray(key),
        UnsafeArrayData.fromPrimitiveArray(new float[] {3, 4}));
    return fold.finish();
  }
}
