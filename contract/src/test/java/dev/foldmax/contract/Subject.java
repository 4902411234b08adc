package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KernelChoice;
import java.util.Set;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Assumptions;

/** A backend under test. Each chapter of the contract is an interface on top of this one. */
interface Subject {
  /** A backend that is open for the whole test class. */
  Backend backend();

  /** The same kind of backend on a number of threads; the caller closes it. */
  Backend open(int threads);

  /** The same kind of backend on an executor's threads; the caller closes it. */
  Backend open(Executor executor, int parallelism);

  /** The sentences with which the backend may decline an attention; any other fails the test. */
  default Set<String> declines() {
    return Set.of();
  }

  /**
   * The 16-bit type to which the backend rounds a problem's weights before they multiply values, as
   * matrix units need; null where it keeps them in float32.
   */
  default @Nullable DType weightType(Problem problem) {
    return null;
  }

  /**
   * How many times fewer data a test takes, 1 for all: scalar backends and repeated runs of the
   * suite at other vector widths take fewer.
   */
  default int thrift() {
    return Integer.getInteger("foldmax.contract.thrift", 1);
  }

  /** The most multiply-adds that a single call of a test may take; larger ones are skipped. */
  default long mostWork() {
    return thrift() == 1 ? Long.MAX_VALUE : 4_000_000;
  }

  /** Runs a call, or skips the test if the backend declines it for a reason on its list. */
  default Outcome run(Backend backend, Call call) {
    Problem problem = call.problem();
    Assumptions.assumeTrue(
        problem.work() <= mostWork(),
        () -> "%d multiply-adds are too many for %s".formatted(problem.work(), backend.name()));
    KernelChoice choice = backend.explain(call.q(), call.keyValues(), problem.attention());
    if (!choice.isServed()) {
      assertThat(choice.declined())
          .as("reasons to decline %s", problem)
          .isNotEmpty()
          .allMatch(declined -> declines().contains(declined.reason()));
      Assumptions.abort(choice.declined().getFirst().reason());
    }
    return call.run(backend);
  }

  default Outcome run(Call call) {
    return run(backend(), call);
  }
}
