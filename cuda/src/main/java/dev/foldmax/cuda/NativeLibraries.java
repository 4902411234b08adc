package dev.foldmax.cuda;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Locale;
import java.util.Optional;

/** Opens native libraries and binds their functions. Libraries stay open until the process ends. */
final class NativeLibraries {
  private NativeLibraries() {}

  /** Whether this is Windows, where libraries have other names. */
  static boolean onWindows() {
    return System.getProperty("os.name", "").toLowerCase(Locale.ROOT).startsWith("windows");
  }

  /**
   * Opens a library.
   *
   * @param name a file name, which the system's own search finds, or a path
   */
  @SuppressWarnings("restricted") // the purpose of this module: users enable it by name
  static Optional<SymbolLookup> open(String name) {
    try {
      return Optional.of(SymbolLookup.libraryLookup(name, Arena.global()));
    } catch (IllegalArgumentException e) {
      return Optional.empty();
    }
  }

  /**
   * A handle of a C function that returns an int, as all functions of CUDA do.
   *
   * @throws UnsatisfiedLinkError if the library has no function of this name
   */
  @SuppressWarnings("restricted") // as above
  static MethodHandle bind(
      SymbolLookup library, String function, Linker.Option[] options, MemoryLayout... parameters) {
    return Linker.nativeLinker()
        .downcallHandle(
            library
                .find(function)
                .orElseThrow(() -> new UnsatisfiedLinkError("the library lacks " + function)),
            FunctionDescriptor.of(ValueLayout.JAVA_INT, parameters),
            options);
  }

  /** A native function's body, run by {@link #call}. */
  @FunctionalInterface
  interface Native {
    int call() throws Throwable;
  }

  /** Calls a handle; what a handle itself throws is a fault of the binding. */
  static int call(Native function) {
    try {
      return function.call();
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new AssertionError("a native call cannot throw", e);
    }
  }
}
