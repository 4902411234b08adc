package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.util.Optional;

/**
 * The driver's library, as far as can be told before any of its functions is bound: whether it is
 * there, and how old it is. {@link CudaDriver} may be touched only if it is there and {@link
 * #tooOld} has nothing to say.
 */
final class DriverLibrary {
  /** The oldest driver whose functions suffice: those of CUDA 12.0. */
  static final int LEAST_VERSION = 12_000;

  private static final String NAME = NativeLibraries.onWindows() ? "nvcuda.dll" : "libcuda.so.1";

  private static final Optional<SymbolLookup> LIBRARY;
  private static final boolean DENIED;

  static {
    Optional<SymbolLookup> library = Optional.empty();
    boolean denied = false;
    try {
      library = NativeLibraries.open(NAME);
    } catch (IllegalCallerException e) { // --illegal-native-access=deny
      denied = true;
    }
    LIBRARY = library;
    DENIED = denied;
  }

  private DriverLibrary() {}

  /** What to say where the JVM lets this module call no native code; else empty. */
  static Optional<String> denied() {
    Module module = DriverLibrary.class.getModule();
    return DENIED
        ? Optional.of(
            "native access is denied: start java with --enable-native-access="
                + (module.isNamed() ? module.getName() : "ALL-UNNAMED"))
        : Optional.empty();
  }

  /** Whether there is a driver, of whatever age. */
  static boolean isPresent() {
    return LIBRARY.isPresent();
  }

  /** The library, which must be present. */
  static SymbolLookup lookup() {
    return LIBRARY.orElseThrow(() -> new IllegalStateException(absent()));
  }

  /** The version of CUDA that the driver supports, as 1000 * major + 10 * minor. */
  static int version() {
    MethodHandle function =
        NativeLibraries.bind(lookup(), "cuDriverGetVersion", new Linker.Option[0], ADDRESS);
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment version = arena.allocate(JAVA_INT);
      int code = NativeLibraries.call(() -> (int) function.invokeExact(version));
      return code == 0 ? version.get(JAVA_INT, 0) : 0;
    }
  }

  /** What to say where there is no driver. */
  static String absent() {
    return "no NVIDIA driver: "
        + NAME
        + " was not found; install the driver of CUDA "
        + words(LEAST_VERSION)
        + " or later (release 525 or later)";
  }

  /** What to say of a driver that is too old; empty for one that is not. */
  static Optional<String> tooOld(int version) {
    return version >= LEAST_VERSION
        ? Optional.empty()
        : Optional.of(
            "the NVIDIA driver is too old: it supports CUDA "
                + words(version)
                + ", and "
                + words(LEAST_VERSION)
                + " is needed; update the driver (release 525 or later)");
  }

  /** A version in the usual form, such as 12.4. */
  static String words(int version) {
    return version / 1000 + "." + version % 1000 / 10;
  }
}
