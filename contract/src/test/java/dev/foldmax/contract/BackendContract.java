package dev.foldmax.contract;

import dev.foldmax.Backend;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.TestInstance;

/** The laws that every backend keeps, a chapter an interface. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class BackendContract
    implements AttentionLaws,
        EdgeRules,
        MergeLaws,
        PartialLaws,
        RowInvariance,
        RowLaws,
        SamplingLaws,
        CallLaws {
  private Backend backend;

  @BeforeAll
  void openBackend() {
    backend = open(2);
  }

  @AfterAll
  void closeBackend() {
    if (backend != null) {
      backend.close();
    }
  }

  @Override
  public Backend backend() {
    return backend;
  }
}
