package dev.foldmax.cuda;

import java.util.Optional;

/** The devices that the driver shows. */
final class Devices {
  /** What to say where there is a driver and no device. */
  static final String NONE =
      "no GPU: the NVIDIA driver is installed but shows no device (CUDA_VISIBLE_DEVICES may hide"
          + " them)";

  private static final int NO_DEVICE = 100;

  private Devices() {}

  /** How many there are; starts the driver. */
  static int count() {
    try {
      CudaDriver.init();
    } catch (CudaException e) {
      if (e.code() == NO_DEVICE) {
        return 0;
      }
      throw e;
    }
    return CudaDriver.deviceGetCount();
  }

  /** What to say of a device that the kernels are not written for; empty for others. */
  static Optional<String> tooWeak(Device device) {
    return device.capability() >= Device.LEAST_CAPABILITY
        ? Optional.empty()
        : Optional.of(
            "cuda device "
                + device.number()
                + " ("
                + device.name()
                + ") has compute capability "
                + device.capabilityWords()
                + ", and 8.0 (Ampere) or later is needed");
  }
}
