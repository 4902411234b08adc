package dev.foldmax.benchmarks.natives;

import java.lang.foreign.AddressLayout;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;

/** The functions of a shared library, as method handles. */
@SuppressWarnings("restricted") // native code is what this is for
final class NativeFunctions {
  static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;
  static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG;
  static final ValueLayout.OfDouble DOUBLE = ValueLayout.JAVA_DOUBLE;
  static final AddressLayout POINTER = ValueLayout.ADDRESS;

  private static final Linker LINKER = Linker.nativeLinker();

  private final Path file;
  private final SymbolLookup symbols;

  private NativeFunctions(Path file, SymbolLookup symbols) {
    this.file = file;
    this.symbols = symbols;
  }

  /** Loads a library and those that it needs; they stay loaded. */
  static NativeFunctions load(Path file) {
    return new NativeFunctions(file, SymbolLookup.libraryLookup(file, Arena.global()));
  }

  /** A function that returns {@code result}. */
  MethodHandle function(String name, MemoryLayout result, MemoryLayout... parameters) {
    return handle(find(name), FunctionDescriptor.of(result, parameters));
  }

  /** A function that returns nothing. */
  MethodHandle procedure(String name, MemoryLayout... parameters) {
    return handle(find(name), FunctionDescriptor.ofVoid(parameters));
  }

  /** The function at an address. */
  static MethodHandle handle(MemorySegment address, FunctionDescriptor descriptor) {
    return LINKER.downcallHandle(address, descriptor);
  }

  /** A function of the C library. */
  static MethodHandle standard(String name, FunctionDescriptor descriptor) {
    return handle(LINKER.defaultLookup().findOrThrow(name), descriptor);
  }

  private MemorySegment find(String name) {
    return symbols
        .find(name)
        .orElseThrow(() -> new IllegalStateException(file + " has no function " + name));
  }

  /** What a failed call is reported as: a method handle may throw anything, ours throw nothing. */
  static IllegalStateException failed(String what, Throwable cause) {
    if (cause instanceof Error error) {
      throw error;
    }
    return new IllegalStateException("calling " + what + " failed", cause);
  }
}
