package dev.foldmax.contract;

import dev.foldmax.Backend;
import java.util.concurrent.Executor;
import jdk.incubator.vector.VectorShape;
import org.junit.jupiter.api.Assumptions;

/** At the vector width that the property foldmax.vectorBits asks for, else the machine's widest. */
class CpuContractTest extends BackendContract {
  @Override
  public Backend open(int threads) {
    assumeWidth();
    return Backend.cpu(threads);
  }

  @Override
  public Backend open(Executor executor, int parallelism) {
    assumeWidth();
    return Backend.cpu(executor, parallelism);
  }

  private static void assumeWidth() {
    int widest = VectorShape.preferredShape().vectorBitSize();
    int asked = Integer.getInteger("foldmax.vectorBits", widest);
    Assumptions.assumeTrue(
        asked <= widest,
        () -> "this machine has vectors of %d bits, not %d".formatted(widest, asked));
  }
}
