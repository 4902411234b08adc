package dev.foldmax.contract;

import dev.foldmax.Backend;
import java.util.concurrent.Executor;

class ReferenceContractTest extends BackendContract {
  @Override
  public Backend open(int threads) {
    return Backend.reference();
  }

  @Override
  public Backend open(Executor executor, int parallelism) {
    return Backend.reference();
  }

  /** Its element access is meant to be read, not to be fast. */
  @Override
  public int thrift() {
    return 4;
  }

  @Override
  public long mostWork() {
    return 400_000;
  }
}
