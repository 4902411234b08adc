package dev.foldmax.cuda;

import dev.foldmax.Availability;
import dev.foldmax.Backend;
import org.junit.jupiter.api.Assumptions;

/** A device for a test, or the sentence with which the test is skipped. */
final class Gpu {
  private Gpu() {}

  static CudaBackend open() {
    assume();
    return (CudaBackend) Backend.cuda(0);
  }

  static void assume() {
    switch (new CudaProvider().availability()) {
      case Availability.Available available -> {}
      case Availability.Absent absent -> Assumptions.abort(absent.reason());
      case Availability.Unusable unusable -> Assumptions.abort(unusable.reason());
    }
  }
}
