package dev.foldmax;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The factory methods, and the choice among backends, with a provider of the test's own. */
class BackendTest {
  private static final Attention CAPPED = Attention.standard().softCap(5);

  private final StubBackend stub = new StubBackend();

  @AfterEach
  void forgetTheStub() {
    StubProvider.availability = new Availability.Absent("a test");
    StubProvider.backend = null;
  }

  private void offerStub() {
    StubProvider.availability = new Availability.Available("a stub");
    StubProvider.backend = stub;
  }

  private static Tensor ones(long... shape) {
    Tensor tensor = Tensor.allocate(DType.F32, shape);
    tensor.fill(1);
    return tensor;
  }

  @Test
  void saysWhatThisMachineOffers() {
    assertThat(Backend.availabilities()).containsKeys("cuda", "cpu", "reference", "stub");
    assertThat(Backend.availabilities().get("reference"))
        .isInstanceOf(Availability.Available.class);
    assertThat(Backend.availabilities().get("stub")).isEqualTo(new Availability.Absent("a test"));
    assertThat(Backend.availabilities().get("cuda"))
        .isInstanceOfSatisfying(
            Availability.Absent.class, a -> assertThat(a.reason()).contains("foldmax-cuda"));
  }

  @Test
  void theCpuIsBestWhereNothingElseIs() {
    try (Backend best = Backend.best()) {
      assertThat(best.name()).isEqualTo("cpu");
      assertThat(best.description()).contains("bit vectors");
    }
  }

  @Test
  void anUnusableProviderIsPassedOver() {
    StubProvider.availability = new Availability.Unusable("the driver is too old");
    try (Backend best = Backend.best()) {
      assertThat(best.name()).isEqualTo("cpu");
    }
  }

  @Test
  void aBackendThatIsNotThereSaysWhatToAdd() {
    assertThatExceptionOfType(BackendUnavailableException.class)
        .isThrownBy(() -> Backend.cuda(0))
        .withMessageContaining("foldmax-cuda");
  }

  @Test
  void threadsMustBePositive() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> Backend.cpu(0))
        .withMessage("threads: must be at least 1, got 0");
    assertThatIllegalArgumentException().isThrownBy(() -> Backend.cpu(Runnable::run, 0));
  }

  @Test
  @SuppressWarnings({"NullAway", "resource"}) // a user's code may not be checked; nothing is opened
  void anExecutorIsNeeded() {
    assertThatNullPointerException().isThrownBy(() -> Backend.cpu(null, 2)).withMessage("executor");
  }

  @Test
  void bestPrefersAProviderAndClosesIt() {
    offerStub();
    Tensor x = ones(2, 3);
    try (Backend best = Backend.best()) {
      assertThat(best.name()).isEqualTo("stub");
      assertThat(best.description()).contains("a stub").contains("cpu");
      best.logSumExp(x, Tensor.allocate(DType.F32, 2));
      assertThat(stub.calls).containsExactly("logSumExp");
    }
    assertThat(stub.closed).isTrue();
  }

  @Test
  void whatTheFirstDeclinesGoesToTheNext() {
    try (Backend reference = Backend.reference();
        Backend best = new FallbackBackend(List.of(stub, reference))) {
      Tensor q = ones(1, 2);
      KeyValues kv = KeyValues.dense(ones(3, 2), ones(3, 2));
      assertThat(best.explain(q, kv, CAPPED).kernel()).startsWith("reference");
      assertThat(best.explain(q, kv, CAPPED).declined())
          .containsExactly(new KernelChoice.Declined("stub", "no soft cap"));
      assertThat(best.attend(q, kv, CAPPED).toFloatArray()).containsExactly(1, 1);
      assertThat(stub.calls).isEmpty();

      assertThat(best.explain(q, kv, Attention.standard()).kernel()).isEqualTo("stub");
      best.attend(q, kv, Attention.standard());
      assertThat(stub.calls).containsExactly("attend");
    }
  }

  @Test
  void rowsGoToTheFirstThatServesTheirType() {
    try (Backend reference = Backend.reference();
        Backend best = new FallbackBackend(List.of(stub, reference))) {
      Tensor doubles = Tensor.allocate(DType.F64, 2, 4);
      assertThat(best.softmax(doubles).toDoubleArray()).containsOnly(0.25);
      assertThat(best.logSoftmax(doubles).toDoubleArray()).containsOnly(-Math.log(4));
      assertThat(best.logSumExp(doubles).toDoubleArray()).containsOnly(Math.log(4));
      assertThat(best.topK(doubles, 1).indices().toLongArray()).containsExactly(0, 0);
      assertThat(best.sample(doubles, Sampling.seeded(1).temperature(0)).toLongArray())
          .containsExactly(0, 0);
      assertThat(stub.calls).isEmpty();
      Tensor floats = ones(2, 4);
      best.softmax(floats);
      best.logSoftmax(floats);
      best.topK(floats, 1);
      best.sample(floats, Sampling.seeded(1));
      assertThat(stub.calls).containsExactly("softmax", "logSoftmax", "topK", "sample");
    }
  }

  @Test
  void nobodyServingIsAnErrorThatSaysWhat() {
    try (Backend alone = new FallbackBackend(List.of(stub))) {
      Tensor q = ones(1, 2);
      KeyValues kv = KeyValues.dense(ones(3, 2), ones(3, 2));
      assertThat(alone.explain(q, kv, CAPPED).isServed()).isFalse();
      assertThatExceptionOfType(UnsupportedOperationException.class)
          .isThrownBy(() -> alone.attend(q, kv, CAPPED))
          .withMessageContaining("soft cap 5.0")
          .withMessageContaining("F32(1, 1, 3, 2)");
    }
  }

  @Test
  void convenienceFormsAllocateTheRightShapes() {
    try (Backend backend = Backend.reference()) {
      Tensor half = ones(2, 3, 4).to(DType.F16);
      assertThat(backend.softmax(half)).hasToString("F16(2, 3, 4)");
      assertThat(backend.logSumExp(half)).hasToString("F32(2, 3)");
      assertThat(backend.logSumExp(half.to(DType.F64))).hasToString("F64(2, 3)");
      assertThat(backend.topK(half, 2).values()).hasToString("F16(2, 3, 2)");
      assertThat(backend.topK(half, 2).indices()).hasToString("I64(2, 3, 2)");
      assertThat(backend.topK(half, 2).probabilities()).hasToString("F32(2, 3, 2)");
      assertThat(backend.sample(half, Sampling.seeded(1))).hasToString("I64(2, 3)");
      assertThat(backend.attend(half, ones(2, 5, 4), ones(2, 5, 7), Attention.standard()))
          .hasToString("F16(2, 3, 7)");
      assertThatIllegalArgumentException()
          .isThrownBy(() -> backend.logSumExp(Tensor.of(new float[1])))
          .withMessage("x: expected at least one dimension, got F32()");
    }
  }
}
