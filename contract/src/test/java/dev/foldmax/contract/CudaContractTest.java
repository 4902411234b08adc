package dev.foldmax.contract;

import dev.foldmax.Availability;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import java.util.Set;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Assumptions;

/** The laws on the first CUDA device; skipped with a sentence where there is none. */
class CudaContractTest extends BackendContract {
  /** All that the backend declines, and why. */
  private static final Set<String> DECLINES =
      Set.of(
          "arithmetic in float64 (queries, keys or values of F64) is left to the CPU",
          "a score function written in Java cannot run on the device",
          "a mask written in Java cannot run on the device",
          "more than 4 boolean masks are not combined");

  private static void assumeDevice() {
    switch (Backend.availabilities().get("cuda")) {
      case Availability.Available available -> {}
      case Availability.Absent absent -> Assumptions.abort(absent.reason());
      case Availability.Unusable unusable -> Assumptions.abort(unusable.reason());
    }
  }

  @Override
  public Backend open(int threads) {
    assumeDevice();
    return new SkippingBackend(Backend.cuda(0), DECLINES);
  }

  @Override
  public Backend open(Executor executor, int parallelism) {
    return open(parallelism);
  }

  @Override
  public Set<String> declines() {
    return DECLINES;
  }

  /** Thrift is for the oracles here, not for the device. */
  @Override
  public long mostWork() {
    return Long.MAX_VALUE;
  }

  @Override
  public @Nullable DType weightType(Problem problem) {
    DType type = problem.queryType();
    boolean is16Bit = type == DType.F16 || type == DType.BF16;
    return is16Bit && problem.keyType() == type ? type : null;
  }
}
