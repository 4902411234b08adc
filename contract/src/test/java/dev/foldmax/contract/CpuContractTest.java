package dev.foldmax.contract;

import dev.foldmax.Backend;
import java.util.concurrent.Executor;

/** At the width that the property foldmax.vectorBits asks for, else the machine's. */
class CpuContractTest extends BackendContract {
  @Override
  public Backend open(int threads) {
    return Backend.cpu(threads);
  }

  @Override
  public Backend open(Executor executor, int parallelism) {
    return Backend.cpu(executor, parallelism);
  }
}
