package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import ai.onnxruntime.OnnxJavaType;
import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import dev.foldmax.Alignment;
import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.Mask;
import dev.foldmax.Phase;
import dev.foldmax.Tensor;
import dev.foldmax.TopK;
import java.nio.ByteBuffer;
import java.nio.FloatBuffer;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.TestInstance;

/**
 * ONNX Runtime's operators Attention (opset 23), Softmax, LogSoftmax, ReduceLogSumExp and TopK as
 * an oracle of other hands. Both compute in float32, so they agree to a tolerance.
 *
 * <p>Where the definitions differ the matrix stays away: a row that sees no key (the operator does
 * not promise zeros), a soft cap beside a mask (the operator caps what is already biased), and rows
 * of -inf, NaN or infinities.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class OnnxRuntimeTest {
  private static final double TOLERANCE = 2e-5;

  private final OrtEnvironment environment = OrtEnvironment.getEnvironment();
  private List<Backend> backends = List.of();

  @BeforeAll
  void openBackends() {
    backends = List.of(Backend.reference(), Backend.cpu(2));
  }

  @AfterAll
  void closeBackends() {
    backends.forEach(Backend::close);
  }

  private static float[] numbers(long seed, int count) {
    SplittableRandom random = new SplittableRandom(seed);
    float[] numbers = new float[count];
    for (int i = 0; i < count; i++) {
      numbers[i] = (float) random.nextGaussian();
    }
    return numbers;
  }

  /** Runs a model and gives its outputs, flat, as float64. */
  private List<double[]> run(OnnxModel model, Map<String, OnnxTensor> inputs) throws OrtException {
    try (OrtSession.SessionOptions options = new OrtSession.SessionOptions()) {
      options.setIntraOpNumThreads(1);
      try (OrtSession session = environment.createSession(model.toBytes(), options);
          OrtSession.Result result = session.run(inputs)) {
        List<double[]> outputs = new ArrayList<>();
        for (Map.Entry<String, ?> output : result) {
          OnnxTensor tensor = (OnnxTensor) output.getValue();
          outputs.add(
              tensor.getInfo().type == OnnxJavaType.INT64
                  ? Arrays.stream(longs(tensor.getLongBuffer())).asDoubleStream().toArray()
                  : doubles(tensor.getFloatBuffer()));
        }
        return outputs;
      }
    } finally {
      inputs.values().forEach(OnnxTensor::close);
    }
  }

  private static double[] doubles(FloatBuffer buffer) {
    double[] all = new double[buffer.remaining()];
    for (int i = 0; i < all.length; i++) {
      all[i] = buffer.get(i);
    }
    return all;
  }

  private static long[] longs(LongBuffer buffer) {
    long[] all = new long[buffer.remaining()];
    buffer.get(all);
    return all;
  }

  private OnnxTensor tensor(float[] numbers, long... shape) throws OrtException {
    return OnnxTensor.createTensor(environment, FloatBuffer.wrap(numbers), shape);
  }

  private static void assertNear(Tensor actual, double[] expected, String what) {
    double[] numbers = actual.toDoubleArray();
    assertThat(numbers).hasSameSizeAs(expected);
    double largest = 0;
    for (int i = 0; i < numbers.length; i++) {
      assertThat(expected[i]).as("ONNX Runtime's number %d", i).isFinite();
      double error = Math.abs(numbers[i] - expected[i]) / (1 + Math.abs(expected[i]));
      largest = Double.isNaN(error) ? error : Math.max(largest, error);
    }
    assertThat(largest).as("the largest difference of %s", what).isLessThan(TOLERANCE);
  }

  // Attention

  /** What of the definition a case uses. */
  private enum Feature {
    PLAIN,
    SCALE,
    SOFT_CAP,
    CAUSAL,
    BIAS,
    BOOLEAN_MASK
  }

  /** A shape: sequences, query heads, key heads, queries, keys, Dqk, Dv. */
  private record Shape(int batch, int queryHeads, int keyHeads, int lq, int lk, int dqk, int dv) {
    @Override
    public String toString() {
      return "%d x (%d, %d), heads %d/%d, dims %d/%d"
          .formatted(batch, lq, lk, queryHeads, keyHeads, dqk, dv);
    }
  }

  private static final List<Shape> SHAPES =
      List.of(
          new Shape(1, 1, 1, 1, 1, 8, 8),
          new Shape(2, 4, 4, 5, 37, 16, 16),
          new Shape(1, 6, 2, 1, 130, 32, 32),
          new Shape(2, 9, 3, 17, 65, 24, 40),
          new Shape(1, 2, 1, 128, 217, 64, 64),
          new Shape(1, 2, 2, 113, 203, 80, 48),
          new Shape(3, 4, 1, 33, 33, 7, 5),
          new Shape(1, 1, 1, 3, 799, 96, 96),
          new Shape(1, 8, 8, 64, 64, 128, 128),
          new Shape(1, 1, 1, 20, 1025, 16, 256));

  @TestFactory
  Stream<DynamicTest> attention() {
    List<DynamicTest> tests = new ArrayList<>();
    for (Shape shape : SHAPES) {
      for (Feature feature : Feature.values()) {
        tests.add(dynamicTest(shape + ", " + feature, () -> attention(shape, feature)));
      }
    }
    return tests.stream();
  }

  private void attention(Shape s, Feature feature) throws OrtException {
    float[] q = numbers(1, s.batch * s.queryHeads * s.lq * s.dqk);
    float[] k = numbers(2, s.batch * s.keyHeads * s.lk * s.dqk);
    float[] v = numbers(3, s.batch * s.keyHeads * s.lk * s.dv);
    long[] qShape = {s.batch, s.queryHeads, s.lq, s.dqk};
    long[] kShape = {s.batch, s.keyHeads, s.lk, s.dqk};
    long[] vShape = {s.batch, s.keyHeads, s.lk, s.dv};
    OnnxModel model =
        new OnnxModel("Attention", 23)
            .input("q", OnnxModel.FLOAT, qShape)
            .input("k", OnnxModel.FLOAT, kShape)
            .input("v", OnnxModel.FLOAT, vShape);
    Map<String, OnnxTensor> inputs = new LinkedHashMap<>();
    inputs.put("q", tensor(q, qShape));
    inputs.put("k", tensor(k, kShape));
    inputs.put("v", tensor(v, vShape));
    Attention definition = define(s, feature, model, inputs);
    model.output("y", OnnxModel.FLOAT, s.batch, s.queryHeads, s.lq, s.dv);
    double[] expected = run(model, inputs).getFirst();
    for (Backend backend : backends) {
      for (Phase phase : Phase.values()) {
        Tensor out =
            backend.attend(
                Tensor.of(q, qShape),
                Tensor.of(k, kShape),
                Tensor.of(v, vShape),
                definition.phase(phase));
        assertNear(out, expected, backend.name() + ", " + phase);
      }
    }
  }

  /** Adds a feature to the operator's model and inputs, and gives it as ours. */
  private Attention define(
      Shape s, Feature feature, OnnxModel model, Map<String, OnnxTensor> inputs)
      throws OrtException {
    long[] maskShape = {s.batch, s.queryHeads, s.lq, s.lk};
    int pairs = s.batch * s.queryHeads * s.lq * s.lk;
    return switch (feature) {
      case PLAIN -> Attention.standard();
      case SCALE -> {
        model.attribute("scale", 0.3f);
        yield Attention.standard().scale(0.3f);
      }
      case SOFT_CAP -> {
        model.attribute("softcap", 1.5f);
        yield Attention.standard().softCap(1.5);
      }
      case CAUSAL -> {
        model.attribute("is_causal", 1);
        yield Attention.standard().mask(Mask.causal(Alignment.TOP_LEFT));
      }
      case BIAS -> {
        float[] bias = numbers(4, pairs);
        model.input("mask", OnnxModel.FLOAT, maskShape);
        inputs.put("mask", tensor(bias, maskShape));
        yield Attention.standard().bias(Tensor.of(bias, maskShape));
      }
      case BOOLEAN_MASK -> {
        SplittableRandom random = new SplittableRandom(5);
        boolean[] open = new boolean[pairs];
        ByteBuffer bytes = ByteBuffer.allocateDirect(pairs);
        for (int i = 0; i < pairs; i++) {
          open[i] = i % s.lk == 0 || random.nextBoolean(); // every row sees its first key
          bytes.put(i, (byte) (open[i] ? 1 : 0));
        }
        model.input("mask", OnnxModel.BOOL, maskShape);
        inputs.put(
            "mask", OnnxTensor.createTensor(environment, bytes, maskShape, OnnxJavaType.BOOL));
        yield Attention.standard().mask(Mask.of(Tensor.of(open, maskShape)));
      }
    };
  }

  // Rows

  @TestFactory
  Stream<DynamicTest> rows() {
    List<DynamicTest> tests = new ArrayList<>();
    for (int n : new int[] {1, 2, 7, 16, 33, 100, 1023, 1025, 5000}) {
      for (float spread : new float[] {0.1f, 1, 20}) {
        tests.add(dynamicTest("rows of %d, spread %s".formatted(n, spread), () -> rows(n, spread)));
      }
    }
    return tests.stream();
  }

  private void rows(int n, float spread) throws OrtException {
    int rows = 6;
    float[] x = numbers(n, rows * n);
    for (int i = 0; i < x.length; i++) {
      x[i] *= spread;
    }
    double[] softmax = run(map("Softmax", rows, n), Map.of("x", tensor(x, rows, n))).getFirst();
    double[] log = run(map("LogSoftmax", rows, n), Map.of("x", tensor(x, rows, n))).getFirst();
    OnnxModel reduce =
        new OnnxModel("ReduceLogSumExp", 13)
            .input("x", OnnxModel.FLOAT, rows, n)
            .attributeList("axes", -1)
            .attribute("keepdims", 0)
            .output("y", OnnxModel.FLOAT, rows);
    double[] lse = run(reduce, Map.of("x", tensor(x, rows, n))).getFirst();
    Tensor ours = Tensor.of(x, rows, n);
    for (Backend backend : backends) {
      assertNear(backend.softmax(ours), softmax, backend.name() + " softmax");
      assertNear(backend.logSoftmax(ours), log, backend.name() + " logSoftmax");
      assertNear(backend.logSumExp(ours), lse, backend.name() + " logSumExp");
    }
  }

  private static OnnxModel map(String operator, int rows, int n) {
    return new OnnxModel(operator, 13)
        .input("x", OnnxModel.FLOAT, rows, n)
        .attribute("axis", -1)
        .output("y", OnnxModel.FLOAT, rows, n);
  }

  /** With ties everywhere: both put the lower index first. */
  @TestFactory
  Stream<DynamicTest> largest() {
    List<DynamicTest> tests = new ArrayList<>();
    for (int[] pair : new int[][] {{1, 1}, {7, 3}, {64, 64}, {100, 5}, {1025, 40}, {5000, 300}}) {
      tests.add(
          dynamicTest(
              "%d of rows of %d".formatted(pair[1], pair[0]), () -> largest(pair[0], pair[1])));
    }
    return tests.stream();
  }

  private void largest(int n, int k) throws OrtException {
    int rows = 4;
    float[] x = numbers(n, rows * n);
    for (int i = 0; i < x.length; i++) {
      x[i] = (float) Math.rint(4 * x[i]);
    }
    OnnxModel model =
        new OnnxModel("TopK", 11)
            .input("x", OnnxModel.FLOAT, rows, n)
            .input("k", OnnxModel.INT64, 1)
            .attribute("axis", -1)
            .output("values", OnnxModel.FLOAT, rows, k)
            .output("indices", OnnxModel.INT64, rows, k);
    OnnxTensor count =
        OnnxTensor.createTensor(environment, LongBuffer.wrap(new long[] {k}), new long[] {1});
    List<double[]> expected = run(model, Map.of("x", tensor(x, rows, n), "k", count));
    for (Backend backend : backends) {
      TopK ours = backend.topK(Tensor.of(x, rows, n), k);
      assertThat(ours.values().toDoubleArray()).as(backend.name()).isEqualTo(expected.get(0));
      assertThat(ours.indices().toDoubleArray()).as(backend.name()).isEqualTo(expected.get(1));
    }
  }
}
