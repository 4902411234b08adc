package dev.foldmax.cpu;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import dev.foldmax.TopK;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.DoubleUnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class RowKernelsTest {
  private static final double INF = Double.POSITIVE_INFINITY;
  private static final double NAN = Double.NaN;

  private final Backend reference = Backend.reference();
  private final Backend one = Backend.cpu(1);
  private final Backend three = Backend.cpu(3);

  @AfterAll
  void close() {
    one.close();
    three.close();
  }

  static Stream<Arguments> typesAndLengths() {
    List<Integer> lengths = new ArrayList<>(IntStream.rangeClosed(0, 17).boxed().toList());
    lengths.addAll(List.of(31, 32, 33, 47, 48, 49, 63, 64, 65, 70, 1023, 1024, 1025));
    lengths.addAll(List.of(RowPass.BLOCK - 1, RowPass.BLOCK, RowPass.BLOCK + 1));
    lengths.addAll(List.of(RowPass.SPAN, RowPass.SPAN + 1, 2 * RowPass.SPAN + 70));
    return Stream.of(DType.F64, DType.F32, DType.F16, DType.BF16)
        .flatMap(dtype -> lengths.stream().map(n -> Arguments.of(dtype, n)));
  }

  @ParameterizedTest
  @MethodSource("typesAndLengths")
  void agreesWithTheReference(DType dtype, int n) {
    int rows = n >= RowPass.SPAN ? 1 : 3;
    Tensor x = random(dtype, n, rows, n);
    Tensor expected = Tensor.allocate(DType.F64, rows, n);
    Tensor out = Tensor.allocate(dtype, rows, n);
    DType wide = dtype == DType.F64 ? DType.F64 : DType.F32;

    reference.softmax(x, expected);
    three.softmax(x, out);
    assertClose(out, expected, 0);
    Tensor wideOut = Tensor.allocate(wide, rows, n);
    three.softmax(x, wideOut);
    assertClose(wideOut, expected, 0);

    reference.logSoftmax(x, expected);
    three.logSoftmax(x, out);
    assertClose(out, expected, 2);

    Tensor lse = Tensor.allocate(DType.F64, rows);
    reference.logSumExp(x, lse);
    assertClose(three.logSumExp(x), lse, 1);

    int k = Math.min(n, 5);
    TopK top = three.topK(x, k);
    TopK expectedTop = reference.topK(x, k);
    assertThat(top.indices().toLongArray()).isEqualTo(expectedTop.indices().toLongArray());
    assertBitsEqual(top.values(), expectedTop.values());
    assertClose(top.probabilities(), expectedTop.probabilities(), 0);
  }

  @ParameterizedTest
  @MethodSource("typesAndLengths")
  void bitsDependOnTheRowAlone(DType dtype, int n) {
    Tensor x = random(dtype, n, 3, n);
    List<Tensor> expected = allVerbs(one, x, 0);
    assertSameBits(allVerbs(three, x, 0), expected);
    for (Tensor copy : copies(x)) {
      assertSameBits(allVerbs(one, copy, 0), expected);
    }
    for (int row = 0; row < 3; row++) {
      List<Tensor> alone = allVerbs(three, x.slice(0, row, row + 1), row);
      for (int verb = 0; verb < alone.size(); verb++) {
        assertBitsEqual(alone.get(verb), expected.get(verb).slice(0, row, row + 1));
      }
    }
    for (Tensor out : copies(x)) {
      if (!out.segment().isReadOnly() && (n <= 1 || out.stride(1) > 0)) {
        three.softmax(x, out);
        assertBitsEqual(out, expected.getFirst());
        out.copyFrom(x);
        one.softmax(out, out);
        assertBitsEqual(out, expected.getFirst());
        out.copyFrom(x);
        three.logSoftmax(out, out);
        assertBitsEqual(out, expected.get(1));
      }
    }
  }

  private static List<Tensor> allVerbs(Backend backend, Tensor x, long firstRow) {
    long k = Math.min(7, x.shape(-1));
    TopK top = backend.topK(x, (int) k);
    Sampling sampling = Sampling.seeded(3).temperature(0.7).firstRow(firstRow);
    return List.of(
        backend.softmax(x),
        backend.logSoftmax(x),
        backend.logSumExp(x),
        top.values(),
        top.indices(),
        top.probabilities(),
        backend.sample(x, sampling));
  }

  /** The same elements off the heap, unaligned, read-only, and with gaps. */
  private static List<Tensor> copies(Tensor x) {
    long rows = x.shape(0);
    long n = x.shape(1);
    long bytes = rows * n * x.dtype().bytes();
    MemorySegment odd = Arena.ofAuto().allocate(bytes + 9).asSlice(1);
    MemorySegment oddBytes = MemorySegment.ofArray(new byte[(int) bytes + 9]).asSlice(3);
    List<Tensor> copies = new ArrayList<>();
    copies.add(Tensor.of(Arena.ofAuto().allocate(bytes + 64, 64), x.dtype(), x.shape()));
    copies.add(Tensor.of(odd, x.dtype(), x.shape()));
    copies.add(Tensor.of(oddBytes, x.dtype(), x.shape()));
    copies.add(Tensor.allocate(x.dtype(), n, rows).permute(1, 0));
    copies.add(Tensor.allocate(x.dtype(), rows, n + 3).slice(1, 1, n + 1));
    copies.forEach(copy -> copy.copyFrom(x));
    copies.add(Tensor.of(x.segment().asReadOnly(), x.dtype(), x.shape()));
    return copies;
  }

  @ParameterizedTest
  @EnumSource(names = {"F64", "F32", "F16", "BF16"})
  void edgesGiveWhatTheReferenceGives(DType dtype) {
    double[][] rows = {
      {-INF, -INF, -INF},
      {-INF, 1, -INF},
      {NAN, 1, 2},
      {-INF, NAN, -INF},
      {INF, 1, 2},
      {INF, -INF, INF},
      {INF, NAN, 1},
      {0.0, -0.0, 0.0},
      {-60000, -60000, -59999},
      {30000, 0, -30000}
    };
    for (int length : new int[] {3, 70, RowPass.BLOCK + 3, RowPass.SPAN + 5}) {
      for (int at : new int[] {0, length - 3}) {
        for (double[] row : rows) {
          Tensor x = Tensor.allocate(dtype, 1, length);
          x.fill(row[row.length - 1]);
          for (int i = 0; i < row.length; i++) {
            x.set(row[i], 0, at + i);
          }
          Tensor expected = Tensor.allocate(DType.F64, 1, length);
          for (Backend cpu : List.of(one, three)) {
            reference.softmax(x, expected);
            assertClose(cpu.softmax(x), expected, 0);
            reference.logSoftmax(x, expected);
            assertClose(cpu.logSoftmax(x), expected, 2);
            Tensor lse = Tensor.allocate(DType.F64, 1);
            reference.logSumExp(x, lse);
            assertClose(cpu.logSumExp(x), lse, 1);
            TopK top = cpu.topK(x, 3);
            TopK expectedTop = reference.topK(x, 3);
            assertThat(top.indices().toLongArray()).isEqualTo(expectedTop.indices().toLongArray());
            assertBitsEqual(top.values(), expectedTop.values());
            assertClose(top.probabilities(), expectedTop.probabilities(), 0);
            for (double temperature : new double[] {0, 1}) {
              for (double topP : new double[] {1, 0.5}) {
                Sampling sampling = Sampling.seeded(9).temperature(temperature).topP(topP);
                assertThat(cpu.sample(x, sampling).toLongArray())
                    .isEqualTo(reference.sample(x, sampling).toLongArray());
              }
            }
          }
        }
      }
    }
  }

  @Test
  void aLongRowOfEqualElementsIsExactToTwoUlp() {
    int n = (1 << 24) + 3;
    Tensor x = Tensor.of(new float[n], 1, n);
    float weight = (float) (1.0 / n);
    assertThat(three.logSumExp(x).get(0)).isEqualTo((float) Math.log(n));
    three.softmax(x, x);
    for (float p : x.toFloatArray()) {
      if (Math.abs(p - weight) > 2 * Math.ulp(weight)) {
        assertThat(p).isEqualTo(weight);
      }
    }
  }

  @Test
  void anOutputMayHaveAnotherType() {
    for (DType from : List.of(DType.F64, DType.F32, DType.F16, DType.BF16)) {
      for (DType to : List.of(DType.F64, DType.F32, DType.F16, DType.BF16)) {
        Tensor x = random(from, 5, 2, 5001);
        Tensor expected = Tensor.allocate(DType.F64, 2, 5001);
        reference.softmax(x, expected);
        Tensor out = Tensor.allocate(to, 2, 5001);
        one.softmax(x, out);
        assertClose(out, expected, 0, from == DType.F64 ? 1e-12 : 3e-7);
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"F64", "F32", "F16", "BF16"})
  void topKOfAnySize(DType dtype) {
    // Rounded to a few values, there are many ties.
    for (DoubleUnaryOperator rounding :
        List.<DoubleUnaryOperator>of(v -> v, v -> Math.rint(v), v -> 0 * v)) {
      for (int n : new int[] {1, 33, 1000, 40_000}) {
        int rows = n > 1000 ? 1 : 2;
        Tensor x = random(dtype, n, rows, n);
        for (int i = 0; i < rows * n; i++) {
          x.setAt(i, rounding.applyAsDouble(x.at(i)));
        }
        for (int k : new int[] {1, 2, 31, 1000, 40_000}) {
          if (k <= n) {
            TopK expected = reference.topK(x, k);
            Tensor values = Tensor.allocate(dtype, rows, k);
            Tensor indices = Tensor.allocate(DType.I32, rows, k);
            for (Backend cpu : List.of(one, three)) {
              cpu.topK(x, values, indices, null);
              assertThat(indices.toLongArray()).isEqualTo(expected.indices().toLongArray());
              assertBitsEqual(values, expected.values());
            }
          }
        }
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"F64", "F32", "F16", "BF16"})
  void drawsAsTheReference(DType dtype) {
    Random random = new Random(11);
    for (int n : new int[] {1, 7, 100, 513, 4097, 33_000}) {
      int rows = n > 500 ? 2 : 40;
      Tensor x = random(dtype, n, rows, n);
      for (int i = n > 10_000 ? 24 : 0; i < 32; i++) {
        Sampling sampling =
            new Sampling(
                new double[] {1, 0.3, 2, 100}[i & 3],
                (i & 4) == 0 ? 0 : 1 + random.nextInt(n),
                (i & 8) == 0 ? 1 : random.nextDouble(0.05, 1),
                (i & 16) == 0 ? 0 : Math.pow(random.nextDouble(), 4),
                random.nextLong(),
                random.nextLong(1000));
        long[] expected = reference.sample(x, sampling).toLongArray();
        assertThat(one.sample(x, sampling).toLongArray()).as("%s", sampling).isEqualTo(expected);
        assertThat(three.sample(x, sampling).toLongArray()).as("%s", sampling).isEqualTo(expected);
      }
    }
  }

  @Test
  void drawsAtExtremeTemperatures() {
    Tensor x = Tensor.of(new float[] {3e38f, -3e38f, 1, 1e-40f, -1}, 1, 5).expand(50, 5);
    for (double temperature : new double[] {1e-300, 1e-42, 1e-20, 1e20, 1e39, 1e300}) {
      Sampling sampling = Sampling.seeded(1).temperature(temperature);
      assertThat(one.sample(x, sampling).toLongArray())
          .isEqualTo(reference.sample(x, sampling).toLongArray());
    }
  }

  @Test
  void noElementArrivesBeforeItsBound() {
    int n = RowPass.BLOCK;
    float[] differences = new float[n];
    for (int i = 0; i < n; i++) {
      differences[i] = -30f * i / n;
    }
    float[] bounds = new float[n];
    float[] lanes = new float[RaceBounds.V];
    for (long first : new long[] {0, 1L << 33, 12345L * n, 77L * n, (1L << 32) - n}) {
      for (long row = -40; row < 40; row++) {
        long stream = row << 29;
        RaceBounds.bounds(stream, first, n, differences, 0.9f, -29, new int[n], bounds, lanes);
        for (int i = 0; i < n; i++) {
          double u = Sampling.uniform(stream, first + i);
          double weight = Math.exp((double) differences[i] * 0.9f);
          double bound = differences[i] < -29 ? INF : (u + u * u / 2) / weight;
          double latest = -Math.log1p(-u) / weight * (1 + RaceBounds.ERROR / 2);
          boolean isTight = bounds[i] >= bound * (1 - 1e-4) - 0x1p-32 / weight;
          if (!isTight || !(bounds[i] <= latest || bound == INF)) {
            assertThat((double) bounds[i]).as("%d of %d", i, stream).isEqualTo(bound);
          }
        }
      }
    }
  }

  @Test
  void aNucleusOfTiesKeepsTheLowerIndices() {
    int n = 10_000;
    float[] row = new float[n];
    for (int i = 0; i < n; i++) {
      row[i] = i % 5 == 0 ? 1 : -i % 3;
    }
    Tensor x = Tensor.of(row, 1, n).expand(30, n);
    for (double topP : new double[] {1e-9, 0.1, 0.25, 0.5, 0.51, 0.9, 0.999999}) {
      Sampling sampling = Sampling.seeded(4).topP(topP);
      assertThat(one.sample(x, sampling).toLongArray())
          .isEqualTo(reference.sample(x, sampling).toLongArray());
    }
  }

  @ParameterizedTest
  @CsvSource({"F64, 3", "F32, 3", "F16, 3", "BF16, 3", "F64, 19", "F32, 19", "BF16, 19"})
  void mergesAsTheReference(DType dtype, int count) {
    for (int dim : new int[] {0, 1, 17, 64, 5000}) {
      List<Tensor> outputs = new ArrayList<>();
      List<Tensor> lses = new ArrayList<>();
      DType wide = dtype == DType.F64 ? DType.F64 : DType.F32;
      for (int i = 0; i < count; i++) {
        outputs.add(random(dtype, i, 6, dim));
        lses.add(random(wide, i + 9, 6));
      }
      // Row 0: nothing lives; row 1: one partial; row 2: a NaN; row 3: garbage beside -inf.
      for (int i = 0; i < count; i++) {
        lses.get(i).set(-INF, 0);
        lses.get(i).set(i == 1 ? -3 : -INF, 1);
      }
      lses.get(2).set(NAN, 2);
      lses.get(0).set(-INF, 3);
      outputs.getFirst().slice(0, 3, 4).fill(NAN);
      Tensor out = Tensor.allocate(dtype, 6, dim);
      Tensor lse = Tensor.allocate(wide, 6);
      Tensor expected = Tensor.allocate(DType.F64, 6, dim);
      Tensor expectedLse = Tensor.allocate(DType.F64, 6);
      reference.merge(outputs, lses, expected, expectedLse);
      one.merge(outputs, lses, out, lse);
      assertClose(out, expected, 40);
      assertClose(lse, expectedLse, 1);
      assertBitsEqual(out.slice(0, 1, 2), outputs.get(1).slice(0, 1, 2));
      assertThat(lse.get(1)).isEqualTo(-3.0);
      // In place.
      three.merge(outputs, lses, outputs.get(2), lses.get(2));
      assertBitsEqual(outputs.get(2), out);
      assertBitsEqual(lses.get(2), lse);
    }
  }

  private static Tensor random(DType dtype, long seed, long... shape) {
    Tensor x = Tensor.allocate(dtype, shape);
    Random random = new Random(seed);
    for (long i = 0; i < x.elements(); i++) {
      x.setAt(i, random.nextInt(50) == 0 ? -INF : 3 * random.nextGaussian());
    }
    return x;
  }

  private static void assertClose(Tensor actual, Tensor expected, double scale) {
    double relative =
        switch (actual.dtype()) {
          case F64 -> 4e-12;
          case F32 -> 3e-7;
          default -> 0;
        };
    assertClose(actual, expected, scale, relative);
  }

  /** Within a relative error, also of the scale, and a rounding to the actual type. */
  private static void assertClose(Tensor actual, Tensor expected, double scale, double relative) {
    double rounding =
        switch (actual.dtype()) {
          case F16 -> 0x1.01p-11;
          case BF16 -> 0x1.01p-8;
          case F32 -> relative < 1e-11 ? 0x1p-24 : 0;
          default -> 0;
        };
    // Subnormal results of the exponential may be flushed to 0.
    double tiny = actual.dtype() == DType.F16 ? 0x1p-25 : 0x1p-125;
    double[] a = actual.toDoubleArray();
    double[] e = expected.toDoubleArray();
    for (int i = 0; i < e.length; i++) {
      boolean isSame = Double.compare(a[i], e[i]) == 0;
      // The rounding of x - max in float32, which peers have as well.
      double difference = relative < 1e-11 ? 0 : 0x1p-24 * Math.abs(Math.log(Math.abs(e[i])));
      double error = (relative + rounding + difference) * Math.abs(e[i]) + relative * scale + tiny;
      if (!isSame && !(Math.abs(a[i] - e[i]) <= error)) {
        assertThat(a[i]).as("element %d of %s", i, actual).isCloseTo(e[i], within(error));
      }
    }
  }

  private static void assertSameBits(List<Tensor> actual, List<Tensor> expected) {
    for (int i = 0; i < expected.size(); i++) {
      assertBitsEqual(actual.get(i), expected.get(i));
    }
  }

  private static void assertBitsEqual(Tensor actual, Tensor expected) {
    assertThat(actual.dtype()).isEqualTo(expected.dtype());
    assertThat(bytes(actual)).isEqualTo(bytes(expected));
  }

  private static byte[] bytes(Tensor x) {
    return x.copy().segment().toArray(JAVA_BYTE);
  }
}
