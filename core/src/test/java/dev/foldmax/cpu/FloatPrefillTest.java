package dev.foldmax.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.Attention;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Phase;
import dev.foldmax.Rescale;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Random;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class FloatPrefillTest {
  private static final int QUERIES = 37;

  /** Several tiles, and a part of one. */
  private static final int KEYS = 450;

  static Stream<Arguments> attentionsAndDims() {
    int[][] dims = {{1, 1}, {3, 7}, {16, 19}, {64, 64}, {128, 40}, {130, 200}};
    return attentions().entrySet().stream()
        .flatMap(
            entry ->
                Stream.of(dims)
                    .map(d -> Arguments.of(entry.getKey(), entry.getValue(), d[0], d[1])));
  }

  private static Map<String, Attention> attentions() {
    Random random = new Random(1);
    Tensor bias = gaussian(random, QUERIES, KEYS);
    Tensor keyBias = gaussian(random, 1, KEYS);
    Tensor visible = Tensor.allocate(DType.BOOL, QUERIES, KEYS);
    Tensor visibleKeys = Tensor.allocate(DType.BOOL, 1, KEYS);
    for (int i = 0; i < QUERIES * KEYS; i++) {
      visible.setAt(i, random.nextInt(3) == 0 ? 0 : 1);
      visibleKeys.setAt(i % KEYS, random.nextInt(3) == 0 ? 0 : 1);
      if (random.nextInt(9) == 0) {
        bias.setAt(i, Double.NEGATIVE_INFINITY);
        keyBias.setAt(i % KEYS, Double.NEGATIVE_INFINITY);
      }
    }
    Attention standard = Attention.standard();
    Map<String, Attention> all = new LinkedHashMap<>();
    all.put("full", standard);
    all.put("always rescaled", standard.rescale(Rescale.ALWAYS));
    all.put("lazy", standard.rescale(Rescale.LAZY));
    all.put("causal", Attention.causal());
    all.put("window", standard.mask(Mask.window(60, 9)));
    all.put("boolean mask", standard.mask(Mask.of(visible)));
    all.put("mask of keys", standard.mask(Mask.of(visibleKeys).and(Mask.causal())));
    all.put("bias", standard.bias(bias));
    all.put("bias of keys", standard.bias(keyBias));
    all.put("ALiBi", standard.alibi(Tensor.of(new float[] {0.3f}, 1)));
    all.put("negative scale", standard.scale(-0.7));
    return all;
  }

  @ParameterizedTest
  @MethodSource("attentionsAndDims")
  void plainLoopsGiveTheBitsOfVectors(String name, Attention attention, int keyDim, int valueDim) {
    Random random = new Random(keyDim);
    Tensor q = gaussian(random, QUERIES, keyDim);
    Tensor keys = gaussian(random, KEYS, keyDim);
    Tensor values = gaussian(random, KEYS, valueDim);
    assertThat(fold(FloatPrefill.Loops.PLAIN, q, keys, values, attention))
        .as(name)
        .containsExactly(fold(FloatPrefill.Loops.VECTORS, q, keys, values, attention));
  }

  @Test
  void plainLoopsGiveTheBitsOfVectorsAlsoForOddNumbers() {
    Random random = new Random(2);
    Tensor q = gaussian(random, QUERIES, 8);
    Tensor keys = gaussian(random, KEYS, 8);
    Tensor values = gaussian(random, KEYS, 8);
    float[] odd = {
      Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY, -0f, 1e30f, -1e30f, 1e-40f
    };
    for (int i = 0; i < odd.length; i++) {
      keys.setAt(100 + 50L * i, odd[i]);
      values.setAt(120 + 50L * i, odd[i]);
      q.setAt(20 + 30L * i, odd[i]);
    }
    assertThat(fold(FloatPrefill.Loops.PLAIN, q, keys, values, Attention.causal()))
        .containsExactly(fold(FloatPrefill.Loops.VECTORS, q, keys, values, Attention.causal()));
  }

  /** The bits of the output and of the logsumexps; those of any NaN are one and the same. */
  private static int[] fold(
      FloatPrefill.Loops loops, Tensor q, Tensor keys, Tensor values, Attention attention) {
    Tensor out = Tensor.allocate(DType.F32, 1, 1, QUERIES, values.shape(-1));
    Tensor lse = Tensor.allocate(DType.F32, 1, 1, QUERIES);
    AttentionCall call =
        AttentionCall.of(
            q, KeyValues.dense(keys, values), attention.phase(Phase.PREFILL), out, lse);
    FloatPrefill engine = new FloatPrefill(loops);
    KeyValues kv = call.keyValues();
    engine.setCall(call, Elements.of(kv.keys()), Elements.of(kv.values()));
    int most = engine.maxRows(call, 0);
    for (int first = 0; first < QUERIES; first += most) {
      engine.start(0, 0, 1, first, Math.min(most, QUERIES - first));
      engine.foldKeys(Long.MIN_VALUE, Long.MAX_VALUE);
      if (!engine.finish()) {
        engine.refoldCarefully(Long.MIN_VALUE, Long.MAX_VALUE);
        engine.finish();
      }
    }
    return IntStream.concat(bits(out), bits(lse)).toArray();
  }

  private static IntStream bits(Tensor tensor) {
    return IntStream.range(0, (int) tensor.elements())
        .map(i -> Float.floatToIntBits((float) tensor.at(i)));
  }

  private static Tensor gaussian(Random random, int rows, int dims) {
    float[] x = new float[rows * dims];
    for (int i = 0; i < x.length; i++) {
      x[i] = (float) random.nextGaussian();
    }
    return Tensor.of(x, 1, 1, rows, dims);
  }
}
