package dev.foldmax.cuda;

import dev.foldmax.Availability;
import dev.foldmax.Backend;
import dev.foldmax.BackendProvider;
import dev.foldmax.BackendUnavailableException;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** Offers the NVIDIA GPUs of this machine as the backend {@code cuda}. */
public final class CudaProvider implements BackendProvider {
  /** For {@link java.util.ServiceLoader}. */
  public CudaProvider() {}

  @Override
  public String name() {
    return "cuda";
  }

  @Override
  public Availability availability() {
    try {
      return probe();
    } catch (CudaException e) {
      return new Availability.Unusable("the NVIDIA driver fails: " + e.getMessage());
    } catch (LinkageError e) { // a function is missing, or native access was forbidden
      Throwable reason = e.getCause() == null ? e : e.getCause();
      return new Availability.Unusable(
          "the NVIDIA driver cannot be bound: "
              + (reason instanceof UnsatisfiedLinkError ? reason.getMessage() : reason));
    }
  }

  private static Availability probe() {
    Optional<String> denied = DriverLibrary.denied();
    if (denied.isPresent()) {
      return new Availability.Unusable(denied.get());
    }
    if (!DriverLibrary.isPresent()) {
      return new Availability.Absent(DriverLibrary.absent());
    }
    int version = DriverLibrary.version();
    Optional<String> tooOld = DriverLibrary.tooOld(version);
    if (tooOld.isPresent()) {
      return new Availability.Unusable(tooOld.get());
    }
    int devices = Devices.count();
    if (devices == 0) {
      return new Availability.Absent(Devices.NONE);
    }
    Device first = Device.of(0);
    Optional<String> unsuited = Devices.unsuited(first);
    if (unsuited.isPresent()) {
      return new Availability.Unusable(unsuited.get());
    }
    NvrtcLibrary.Found found = NvrtcLibrary.found(version);
    String problem = found.problem();
    return problem != null
        ? new Availability.Unusable(problem)
        : new Availability.Available(describe(first, devices, version, found.nvrtc()));
  }

  private static String describe(
      Device device, int devices, int driverVersion, @Nullable Nvrtc nvrtc) {
    return "%s, compute capability %s, %d GiB; driver of CUDA %s, %s%s"
        .formatted(
            device.name(),
            device.capabilityWords(),
            device.memoryBytes() >> 30,
            DriverLibrary.words(driverVersion),
            nvrtc == null ? "" : nvrtc.version(),
            devices == 1 ? "" : "; devices 0 to " + (devices - 1));
  }

  @Override
  public Backend open(int device) {
    switch (availability()) {
      case Availability.Available available -> {}
      case Availability.Absent absent -> throw new BackendUnavailableException(absent.reason());
      case Availability.Unusable unusable ->
          throw new BackendUnavailableException(unusable.reason());
    }
    int devices = Devices.count();
    if (device < 0 || device >= devices) {
      throw new BackendUnavailableException(
          "no cuda device " + device + ": this machine has " + devices + ", numbered from 0");
    }
    Device opened = Device.of(device);
    Optional<String> unsuited = Devices.unsuited(opened);
    if (unsuited.isPresent()) {
      throw new BackendUnavailableException(unsuited.get());
    }
    NvrtcLibrary.Found found = NvrtcLibrary.found(DriverLibrary.version());
    Nvrtc nvrtc = found.nvrtc();
    if (nvrtc == null) {
      throw new BackendUnavailableException(String.valueOf(found.problem()));
    }
    return new CudaBackend(new Workplace(opened, nvrtc, CodeCache.ofUser()));
  }
}
