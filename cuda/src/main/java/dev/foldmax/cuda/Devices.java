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

  /** What to say of a device that does not suffice; empty for others. */
  static Optional<String> unsuited(Device device) {
    String name = "cuda device " + device.number() + " (" + device.name() + ")";
    if (device.capability() < Device.LEAST_CAPABILITY) {
      return Optional.of(
          name
              + " has compute capability "
              + device.capabilityWords()
              + ", and 8.0 (Ampere) or later is needed");
    }
    return device.hasPools()
        ? Optional.empty()
        : Optional.of(
            name
                + " has no memory pools here, which some virtual GPUs lack; ask for a profile with"
                + " unified memory");
  }
}
