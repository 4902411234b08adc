package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * CUDA's run-time compiler, bound to a library that {@link NvrtcLibrary} found. See the NVRTC
 * manual for what each function does. Safe for several threads: NVRTC is.
 */
final class Nvrtc implements KernelCompiler {
  private static final System.Logger LOG = System.getLogger("dev.foldmax.cuda");
  private static final int LONGEST_TEXT = 256;

  /** From this capability on, code for the device itself may use all that the device has. */
  private static final int LEAST_SPECIFIC_CAPABILITY = 90;

  private final SymbolLookup library;
  private final MethodHandle getErrorString;
  private final MethodHandle createProgram;
  private final MethodHandle compileProgram;
  private final MethodHandle destroyProgram;
  private final MethodHandle getLogSize;
  private final MethodHandle getLog;
  private final MethodHandle getCubinSize;
  private final MethodHandle getCubin;
  private final MethodHandle getPtxSize;
  private final MethodHandle getPtx;
  private final int version;
  private final int[] architectures;

  /**
   * Binds.
   *
   * @throws UnsatisfiedLinkError if the library is not NVRTC, or too old
   */
  @SuppressWarnings("restricted") // the purpose of this module
  Nvrtc(SymbolLookup library) {
    this.library = library;
    this.getErrorString =
        Linker.nativeLinker()
            .downcallHandle(
                library
                    .find("nvrtcGetErrorString")
                    .orElseThrow(() -> new UnsatisfiedLinkError("nvrtcGetErrorString")),
                FunctionDescriptor.of(ADDRESS, JAVA_INT));
    this.createProgram =
        bind("nvrtcCreateProgram", ADDRESS, ADDRESS, ADDRESS, JAVA_INT, ADDRESS, ADDRESS);
    this.compileProgram = bind("nvrtcCompileProgram", JAVA_LONG, JAVA_INT, ADDRESS);
    this.destroyProgram = bind("nvrtcDestroyProgram", ADDRESS);
    this.getLogSize = bind("nvrtcGetProgramLogSize", JAVA_LONG, ADDRESS);
    this.getLog = bind("nvrtcGetProgramLog", JAVA_LONG, ADDRESS);
    this.getCubinSize = bind("nvrtcGetCUBINSize", JAVA_LONG, ADDRESS);
    this.getCubin = bind("nvrtcGetCUBIN", JAVA_LONG, ADDRESS);
    this.getPtxSize = bind("nvrtcGetPTXSize", JAVA_LONG, ADDRESS);
    this.getPtx = bind("nvrtcGetPTX", JAVA_LONG, ADDRESS);
    this.version = readVersion();
    this.architectures = readArchitectures();
  }

  private MethodHandle bind(String function, MemoryLayout... parameters) {
    return NativeLibraries.bind(library, function, new Linker.Option[0], parameters);
  }

  private int readVersion() {
    MethodHandle function = bind("nvrtcVersion", ADDRESS, ADDRESS);
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment major = arena.allocate(JAVA_INT);
      MemorySegment minor = arena.allocate(JAVA_INT);
      check("nvrtcVersion", () -> (int) function.invokeExact(major, minor));
      return 1000 * major.get(JAVA_INT, 0) + 10 * minor.get(JAVA_INT, 0);
    }
  }

  private int[] readArchitectures() {
    MethodHandle count = bind("nvrtcGetNumSupportedArchs", ADDRESS);
    MethodHandle list = bind("nvrtcGetSupportedArchs", ADDRESS);
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment number = arena.allocate(JAVA_INT);
      check("nvrtcGetNumSupportedArchs", () -> (int) count.invokeExact(number));
      MemorySegment all = arena.allocate(JAVA_INT, number.get(JAVA_INT, 0));
      check("nvrtcGetSupportedArchs", () -> (int) list.invokeExact(all));
      return all.toArray(JAVA_INT);
    }
  }

  /** The version as 1000 * major + 10 * minor. */
  int versionNumber() {
    return version;
  }

  @Override
  public String version() {
    return "NVRTC " + DriverLibrary.words(version);
  }

  @Override
  public Target target(int capability) {
    return target(capability, architectures);
  }

  /**
   * The target for a capability: the device's own code where the compiler knows it, else PTX of the
   * latest architecture before it, which the driver compiles.
   */
  static Target target(int capability, int[] architectures) {
    if (Arrays.stream(architectures).anyMatch(known -> known == capability)) {
      String specific = capability >= LEAST_SPECIFIC_CAPABILITY ? "a" : "";
      return new Target("--gpu-architecture=sm_" + capability + specific, false);
    }
    int latest =
        Arrays.stream(architectures)
            .filter(known -> known < capability)
            .max()
            .orElseThrow(
                () ->
                    new CudaException(
                        "NVRTC: knows no architecture up to sm_"
                            + capability
                            + ", only "
                            + Arrays.toString(architectures),
                        0));
    return new Target("--gpu-architecture=compute_" + latest, true);
  }

  @Override
  public byte[] compile(KernelSource source, Target target, List<String> options) {
    List<String> all = new ArrayList<>(options);
    all.add(target.option());
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment program = arena.allocate(JAVA_LONG);
      create(arena, source, program);
      try {
        return compile(arena, source, target, all, program.get(JAVA_LONG, 0));
      } finally {
        check("nvrtcDestroyProgram", () -> (int) destroyProgram.invokeExact(program));
      }
    }
  }

  private void create(Arena arena, KernelSource source, MemorySegment program) {
    MemorySegment text = arena.allocateFrom(source.text());
    MemorySegment name = arena.allocateFrom(source.name());
    List<String> names = List.copyOf(source.headers().keySet());
    MemorySegment includeNames = strings(arena, names);
    MemorySegment headers = strings(arena, names.stream().map(source.headers()::get).toList());
    int count = names.size();
    check(
        "nvrtcCreateProgram",
        () -> (int) createProgram.invokeExact(program, text, name, count, headers, includeNames));
  }

  private byte[] compile(
      Arena arena, KernelSource source, Target target, List<String> options, long program) {
    MemorySegment arguments = strings(arena, options);
    int count = options.size();
    int code =
        NativeLibraries.call(() -> (int) compileProgram.invokeExact(program, count, arguments));
    String log =
        new String(bytes("log", program, getLogSize, getLog), StandardCharsets.UTF_8)
            .replace("\0", "")
            .strip();
    if (code != 0) {
      throw new CudaException(
          "%s: %s could not compile it with %s: %s\n%s"
              .formatted(source.name(), version(), options, describe(code), log),
          code);
    }
    if (!log.isEmpty()) {
      LOG.log(System.Logger.Level.DEBUG, source.name() + " " + options + ": " + log);
    }
    return target.isPtx()
        ? bytes("PTX", program, getPtxSize, getPtx)
        : bytes("CUBIN", program, getCubinSize, getCubin);
  }

  private static MemorySegment strings(Arena arena, List<String> texts) {
    MemorySegment array = arena.allocate(ADDRESS, texts.size());
    for (int i = 0; i < texts.size(); i++) {
      array.setAtIndex(ADDRESS, i, arena.allocateFrom(texts.get(i)));
    }
    return array;
  }

  private byte[] bytes(String what, long program, MethodHandle size, MethodHandle get) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment length = arena.allocate(JAVA_LONG);
      check("nvrtcGet" + what + "Size", () -> (int) size.invokeExact(program, length));
      MemorySegment all = arena.allocate(length.get(JAVA_LONG, 0));
      check("nvrtcGet" + what, () -> (int) get.invokeExact(program, all));
      return all.toArray(JAVA_BYTE);
    }
  }

  private void check(String function, NativeLibraries.Native call) {
    int code = NativeLibraries.call(call);
    if (code != 0) {
      throw new CudaException(function + ": " + describe(code), code);
    }
  }

  @SuppressWarnings("restricted") // the compiler's own constant, ended by a zero
  private String describe(int code) {
    try {
      MemorySegment text = (MemorySegment) getErrorString.invokeExact(code);
      return text.reinterpret(LONGEST_TEXT).getString(0) + " (" + code + ")";
    } catch (Throwable e) {
      throw new AssertionError("a native call cannot throw", e);
    }
  }
}
