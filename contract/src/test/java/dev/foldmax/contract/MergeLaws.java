package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Partial results of disjoint keys merge into the result over all of them. */
interface MergeLaws extends Subject {
  List<DType> FLOATS = List.of(DType.F32, DType.F16, DType.BF16, DType.F64);

  @TestFactory
  default Stream<DynamicTest> splitsGiveTheWhole() {
    List<DynamicTest> tests = new ArrayList<>();
    for (int keys : new int[] {1, 2, 3, 32, 63, 64, 65, 108, 113, 640, 1024, 4097}) {
      for (int splits : new int[] {1, 2, 3, 5, 17, 32, 97, 133}) {
        Problem problem = Problem.seeded(keys).heads(6, 2).lengths(2, 1, keys).dims(8);
        tests.add(
            dynamicTest(
                "%d splits of %s".formatted(splits, problem), () -> assertSplits(problem, splits)));
      }
    }
    return tests.stream();
  }

  private void assertSplits(Problem problem, int splits) {
    int keys = problem.keys(0);
    List<Tensor> outputs = new ArrayList<>();
    List<Tensor> lses = new ArrayList<>();
    for (int n = 0; n < splits; n++) {
      int from = (int) ((long) keys * n / splits);
      int to = (int) ((long) keys * (n + 1) / splits);
      Call part = Call.plain(problem.keyRange(from, to));
      assertThat(run(part).lse).hasSize(problem.rows());
      outputs.add(part.out());
      lses.add(part.lse());
    }
    Call whole = Call.plain(problem);
    Tensor out = Tensor.allocate(DType.F32, whole.out().shape());
    Tensor lse = Tensor.allocate(DType.F32, whole.lse().shape());
    backend().merge(outputs, lses, out, lse);
    Accuracy.assertRight(problem, weightType(problem), whole.read(out, lse));
  }

  @Test
  default void twoEmptyPartialsAreEmpty() {
    for (DType type : FLOATS) {
      Tensor zeros = Tensor.allocate(type, 3, 64);
      Tensor none = Tensor.allocate(DType.F32, 3);
      none.fill(Double.NEGATIVE_INFINITY);
      Tensor out = Memory.HEAP.block(5, type, 3, 64).view();
      Tensor lse = Memory.HEAP.block(5, DType.F32, 3).view();
      backend().merge(List.of(zeros, zeros), List.of(none, none), out, lse);
      assertThat(out.toDoubleArray()).containsOnly(0);
      assertThat(lse.toDoubleArray()).containsOnly(Double.NEGATIVE_INFINITY);
    }
  }

  /** Beside garbage of logsumexp -inf a partial keeps every bit, the signs of zeros included. */
  @TestFactory
  default Stream<DynamicTest> aPartialBesideEmptyOnesKeepsItsBits() {
    List<DynamicTest> tests = new ArrayList<>();
    for (DType type : FLOATS) {
      for (Memory memory : Memory.values()) {
        for (int at = 0; at < 3; at++) {
          int place = at;
          tests.add(
              dynamicTest(
                  "%s in %s, partial %d of 3".formatted(type, memory, at),
                  () -> keepsItsBits(type, memory, place)));
        }
      }
    }
    return tests.stream();
  }

  private void keepsItsBits(DType type, Memory memory, int at) {
    for (int dim : new int[] {1, 7, 64, 67}) {
      SplittableRandom random = new SplittableRandom(dim);
      double[] numbers = new double[4 * dim];
      Arrays.setAll(numbers, i -> i % 5 == 0 ? -0.0 : Twin.round(random.nextGaussian(), type));
      double[] sums = {0, -0.0, -87.5, 1e30f};
      List<Tensor> outputs = new ArrayList<>();
      List<Tensor> lses = new ArrayList<>();
      for (int n = 0; n < 3; n++) {
        double garbage = n == 0 ? Double.NaN : Double.POSITIVE_INFINITY;
        Tensor output = memory.block(garbage, type, 4, dim).view();
        Tensor lse = memory.block(Double.NEGATIVE_INFINITY, DType.F32, 4).view();
        if (n == at) {
          output.copyFrom(Tensor.of(numbers, 4, dim));
          lse.copyFrom(Tensor.of(sums, 4));
        }
        outputs.add(output);
        lses.add(lse);
      }
      Tensor out = memory.block(9, type, 4, dim).view();
      Tensor lse = memory.block(9, DType.F32, 4).view();
      backend().merge(outputs, lses, out, lse);
      assertThat(out.toDoubleArray()).isEqualTo(numbers);
      assertThat(lse.toDoubleArray()).isEqualTo(sums);
    }
  }

  @Test
  default void nanInAPartialStaysInItsRow() {
    Tensor a = Tensor.of(new float[] {1, 2, 3, 4, 5, 6}, 3, 2);
    Tensor b = Tensor.of(new float[] {7, Float.NaN, 9, 10, 11, 12}, 3, 2);
    Tensor lseA = Tensor.of(new float[] {0, 0, 0}, 3);
    Tensor lseB = Tensor.of(new float[] {0, 0, Float.NaN}, 3);
    Tensor out = Tensor.allocate(DType.F32, 3, 2);
    Tensor lse = Tensor.allocate(DType.F32, 3);
    backend().merge(List.of(a, b), List.of(lseA, lseB), out, lse);
    float[] merged = out.toFloatArray();
    assertThat(merged[0]).isEqualTo(4);
    assertThat(merged[1]).isNaN();
    assertThat(merged[2]).isEqualTo(6);
    assertThat(merged[3]).isEqualTo(7);
    assertThat(merged[4]).isNaN();
    assertThat(merged[5]).isNaN();
    assertThat(lse.get(2)).isNaN();
    assertThat(lse.get(0)).isCloseTo(Math.log(2), within(1e-6));
  }

  @Test
  default void theOutputMayBeOneOfThePartials() {
    for (int at = 0; at < 2; at++) {
      SplittableRandom random = new SplittableRandom(at);
      List<Tensor> outputs = new ArrayList<>();
      List<Tensor> lses = new ArrayList<>();
      for (int n = 0; n < 2; n++) {
        float[] numbers = new float[5 * 33];
        float[] sums = new float[5];
        for (int i = 0; i < numbers.length; i++) {
          numbers[i] = (float) random.nextGaussian();
        }
        for (int i = 0; i < sums.length; i++) {
          sums[i] = (float) random.nextGaussian();
        }
        outputs.add(Tensor.of(numbers, 5, 33));
        lses.add(Tensor.of(sums, 5));
      }
      Tensor out = Tensor.allocate(DType.F32, 5, 33);
      Tensor lse = Tensor.allocate(DType.F32, 5);
      backend().merge(outputs, lses, out, lse);
      backend().merge(outputs, lses, outputs.get(at), lses.get(at));
      assertThat(outputs.get(at).toFloatArray()).isEqualTo(out.toFloatArray());
      assertThat(lses.get(at).toFloatArray()).isEqualTo(lse.toFloatArray());
    }
  }

  @Test
  default void partialsMayDifferFarInSize() {
    Tensor small = Tensor.of(new float[] {1, 2}, 1, 2);
    Tensor large = Tensor.of(new float[] {3, 4}, 1, 2);
    for (float far : new float[] {200, 1e30f, Float.MAX_VALUE}) {
      Tensor out = Tensor.allocate(DType.F32, 1, 2);
      Tensor lse = Tensor.allocate(DType.F32, 1);
      backend()
          .merge(
              List.of(small, large),
              List.of(Tensor.of(new float[] {-far}, 1), Tensor.of(new float[] {far}, 1)),
              out,
              lse);
      assertThat(out.toFloatArray()).containsExactly(3, 4);
      assertThat(lse.toFloatArray()).containsExactly(far);
    }
  }
}
