package dev.foldmax.cli;

import static dev.foldmax.cli.Cli.assertSame;
import static dev.foldmax.cli.Cli.random;
import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.Alignment;
import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Mask;
import dev.foldmax.Tensor;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The comparison with the reference, and the parts into which a job can be cut. */
class CheckTest {
  private final Backend reference = Backend.reference();
  private final Progress progress = Progress.silent();
  private final AttendJob job = job();

  private static AttendJob job() {
    Tensor visible = Tensor.allocate(DType.BOOL, 3, 1, 9, 11);
    for (long i = 0; i < visible.elements(); i++) {
      visible.setAt(i, i % 5 == 0 ? 0 : 1);
    }
    Attention everything =
        Attention.standard()
            .mask(Mask.of(visible).and(Mask.window(6, 3)).and(Mask.prefix(2)))
            .softCap(5)
            .bias(random(4, DType.F32, 6, 9, 1))
            .alibi(random(5, DType.F32, 3, 6), Alignment.TOP_LEFT)
            .sinks(random(6, DType.F32, 6));
    return new AttendJob(
        random(1, DType.F32, 3, 6, 9, 8),
        random(2, DType.F32, 3, 2, 11, 8),
        random(3, DType.F32, 3, 2, 11, 4),
        random(7, DType.F32, 3, 2, 11),
        random(8, DType.F32, 3, 2, 11),
        everything,
        Tensor.allocate(DType.F32, 3, 6, 9, 4),
        Tensor.allocate(DType.F32, 3, 6, 9));
  }

  @AfterEach
  void close() {
    progress.close();
    reference.close();
  }

  private AttendJob elsewhere() {
    return job.into(
        Tensor.allocate(DType.F32, job.out().shape()),
        Tensor.allocate(DType.F32, job.lse().shape()));
  }

  @ParameterizedTest
  @ValueSource(doubles = {1, 2, 4, 6, 100})
  void partsGiveTheWhole(double parts) {
    AttendJob cut = elsewhere();

    job.run(reference);
    cut.runInParts(reference, parts, progress);

    assertSame(cut.out(), job.out());
    assertSame(cut.lse(), job.lse());
  }

  @Test
  void rowsGiveTheWhole() {
    job.run(reference);

    for (int b = 0; b < 3; b++) {
      for (int h = 0; h < 6; h++) {
        AttendJob head = job.part(b, b + 1, h, h + 1);
        for (int i = 0; i < 9; i++) {
          Tensor out = Tensor.allocate(DType.F32, 1, 1, 1, 4);
          Tensor lse = Tensor.allocate(DType.F32, 1, 1, 1);
          Check.row(head, i, out, lse).run(reference);
          assertSame(out, head.out().slice(2, i, i + 1));
          assertSame(lse, head.lse().slice(2, i, i + 1));
        }
      }
    }
  }

  @Test
  void takesASampleOfALargeJob() {
    job.run(reference);

    Check all = new Check(job, null).run(progress);
    Check some = new Check(job, null, 20 * 11 * 13).run(progress);

    assertThat(all.isComplete()).isTrue();
    assertThat(all.rows()).isEqualTo(162);
    assertThat(some.isComplete()).isFalse();
    assertThat(some.rows()).isEqualTo(20);
    assertThat(all.failures()).isEmpty();
    assertThat(some.failures()).isEmpty();
    assertThat(some.output().largest()).isPositive().isLessThanOrEqualTo(all.output().largest());
  }

  @Test
  void noticesOneWrongElement() {
    job.run(reference);
    job.out().set(job.out().get(2, 5, 8, 3) + 1e-4, 2, 5, 8, 3);

    // The last row is part of every sample.
    for (double most : new double[] {1, 1e9}) {
      Check check = new Check(job, null, most).run(progress);
      assertThat(check.failures())
          .singleElement()
          .asString()
          .startsWith("the output differs from the reference's, largest error 1.0e-04");
    }
  }

  @Test
  void noticesAWrongLogSumExp() {
    job.run(reference);
    job.lse().set(Double.NaN, 1, 1, 1);

    assertThat(new Check(job, null).run(progress).failures())
        .singleElement()
        .asString()
        .startsWith("the logsumexp differs from the reference's");
  }

  @Test
  void hiddenValuesDoNotLoosenTheTolerance() {
    job.v().set(1e30, 0, 0, 0, 0);
    AttendJob hidden =
        new AttendJob(
            job.q(),
            job.k(),
            job.v(),
            null,
            null,
            Attention.standard().bias(hiding(0, 11)),
            job.out(),
            job.lse());
    hidden.run(reference);
    job.out().set(job.out().get(0, 0, 0, 0) + 1e-3, 0, 0, 0, 0);

    assertThat(new Check(hidden, null).run(progress).failures()).hasSize(1);
  }

  private static Tensor hiding(int key, int keys) {
    Tensor bias = Tensor.allocate(DType.F32, keys);
    bias.set(Double.NEGATIVE_INFINITY, key);
    return bias;
  }

  @Test
  void numbersThatAreNoneAgreeOnlyWithTheirLike() {
    Errors loose = new Errors(true);
    loose.add(Double.NaN, Double.POSITIVE_INFINITY, 0);
    assertThat(loose.passed()).isTrue();
    loose.add(1, Double.NaN, 1);
    assertThat(loose.passed()).isFalse();
    Errors strict = new Errors(false);
    strict.add(Double.NEGATIVE_INFINITY, Double.NEGATIVE_INFINITY, 0);
    strict.add(Double.NaN, Double.NaN, 0);
    assertThat(strict.passed()).isTrue();
    strict.add(Double.NaN, Double.NEGATIVE_INFINITY, 0);
    assertThat(strict.passed()).isFalse();
  }

  @Test
  void knowsTheUlpsOfAllTypes() {
    assertThat(List.of(DType.F64, DType.F32, DType.F16, DType.BF16))
        .extracting(type -> Magnitudes.ulp(1.5, type))
        .containsExactly(0x1p-52, 0x1p-23, 0x1p-10, 0x1p-7);
    assertThat(Magnitudes.ulp(0, DType.F16)).isEqualTo(0x1p-24);
    assertThat(Magnitudes.ulp(0x1p-20, DType.F16)).isEqualTo(0x1p-24);
  }
}
