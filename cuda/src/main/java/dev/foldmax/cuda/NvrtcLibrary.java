package dev.foldmax.cuda;

import java.io.IOException;
import java.lang.foreign.SymbolLookup;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Finds NVRTC: where the property {@code foldmax.nvrtc} or the variable {@code FOLDMAX_NVRTC} says
 * (a file or its folder), where the system looks for libraries, in the folders of CUDA toolkits,
 * and in those of pip's packages.
 */
final class NvrtcLibrary {
  /** What to install, most usual ways first. */
  static final String ADVICE =
      "install it with the CUDA toolkit (package cuda-nvrtc-%1$d-0 of NVIDIA's repositories, or pip"
          + " install nvidia-cuda-nvrtc%2$s), or name the library by -Dfoldmax.nvrtc=<file>";

  private static final int THIRTEEN = 13_000;

  /** A compiler, or the sentence that says why there is none. */
  record Found(@Nullable Nvrtc nvrtc, @Nullable String problem) {}

  private NvrtcLibrary() {}

  /** What {@link #find} found, looked for once. */
  private static @Nullable Found known;

  /** The compiler of this process, or why there is none; a search that failed is made again. */
  static synchronized Found found(int driverVersion) {
    Found found = known;
    if (found == null || found.nvrtc == null) {
      found = find(driverVersion);
      known = found;
    }
    return found;
  }

  /** The first library of the search that suits the driver. */
  private static Found find(int driverVersion) {
    String tooNew = null;
    for (String name : candidates(driverVersion, System::getProperty, System::getenv)) {
      openBuiltins(name);
      Optional<SymbolLookup> library = NativeLibraries.open(name);
      if (library.isEmpty()) {
        continue;
      }
      Nvrtc nvrtc;
      try {
        nvrtc = new Nvrtc(library.get());
      } catch (UnsatisfiedLinkError e) {
        return new Found(null, name + " is not NVRTC 12.0 or later: " + e.getMessage());
      }
      if (nvrtc.versionNumber() / 1000 <= driverVersion / 1000) {
        return new Found(nvrtc, null);
      }
      tooNew = nvrtc.version() + " (" + name + ")";
    }
    String named = named(System::getProperty, System::getenv);
    return new Found(
        null, named != null && tooNew == null ? notThere(named) : problem(driverVersion, tooNew));
  }

  /**
   * Opens the library that NVRTC asks for by its name alone, from the folder where NVRTC itself
   * lies: the system does not look there, but takes what is open already.
   */
  private static void openBuiltins(String name) {
    Path folder = Path.of(name).getParent();
    if (folder != null) {
      String builtins =
          NativeLibraries.onWindows() ? "nvrtc-builtins64_*.dll" : "libnvrtc-builtins.so.*";
      children(folder, builtins).forEach(file -> NativeLibraries.open(file.toString()));
    }
  }

  /** Why there is no compiler where the user said. */
  static String notThere(String named) {
    return "no NVRTC: "
        + named
        + ", which foldmax.nvrtc or FOLDMAX_NVRTC names, is neither a library that can be opened"
        + " nor a folder with one";
  }

  /**
   * Why there is no compiler.
   *
   * @param tooNew one that was found but is of a later major version than the driver, or null
   */
  static String problem(int driverVersion, @Nullable String tooNew) {
    int major = Math.min(driverVersion, THIRTEEN) / 1000;
    String advice = ADVICE.formatted(major, major >= THIRTEEN / 1000 ? "" : "-cu" + major);
    return tooNew == null
        ? "no NVRTC: CUDA's run-time compiler was not found; " + advice
        : tooNew
            + " is too new for the driver, which supports CUDA "
            + DriverLibrary.words(driverVersion)
            + ": update the driver, or get NVRTC "
            + major
            + ": "
            + advice;
  }

  /** Names and paths to try, in order, each once. */
  static Set<String> candidates(
      int driverVersion,
      Function<String, @Nullable String> properties,
      Function<String, @Nullable String> variables) {
    List<String> names = fileNames(driverVersion, NativeLibraries.onWindows());
    Set<String> all = new LinkedHashSet<>();
    String named = named(properties, variables);
    if (named == null) {
      all.addAll(names);
      addFiles(all, folders(variables), names);
    } else if (Files.isDirectory(Path.of(named))) { // who names a library wants no other
      addFiles(all, List.of(Path.of(named)), names);
    } else {
      all.add(named);
    }
    return all;
  }

  /** The file or folder that the user names, or null. */
  private static @Nullable String named(
      Function<String, @Nullable String> properties, Function<String, @Nullable String> variables) {
    for (String told :
        new String[] {properties.apply("foldmax.nvrtc"), variables.apply("FOLDMAX_NVRTC")}) {
      if (told != null && !told.isBlank()) {
        return told;
      }
    }
    return null;
  }

  private static List<String> fileNames(int driverVersion, boolean windows) {
    List<String> names = new ArrayList<>();
    if (driverVersion >= THIRTEEN) {
      names.add(windows ? "nvrtc64_130_0.dll" : "libnvrtc.so.13");
    }
    names.add(windows ? "nvrtc64_120_0.dll" : "libnvrtc.so.12");
    if (!windows) {
      names.add("libnvrtc.so");
    }
    return names;
  }

  private static void addFiles(Set<String> all, List<Path> folders, List<String> names) {
    for (String name : names) {
      for (Path folder : folders) {
        Path file = folder.resolve(name);
        if (Files.isRegularFile(file)) {
          all.add(file.toString());
        }
      }
    }
  }

  private static List<Path> folders(Function<String, @Nullable String> variables) {
    List<Path> roots = new ArrayList<>();
    for (String variable : new String[] {"CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"}) {
      String root = variables.apply(variable);
      if (root != null && !root.isBlank()) {
        roots.add(Path.of(root));
      }
    }
    roots.add(Path.of("/usr/local/cuda"));
    roots.addAll(children(Path.of("/usr/local"), "cuda-*"));
    roots.add(Path.of("/opt/cuda"));
    List<Path> folders = new ArrayList<>();
    for (Path root : roots) {
      for (String inside :
          new String[] {"lib64", "lib", "targets/x86_64-linux/lib", "bin", "bin/x64"}) {
        folders.add(root.resolve(inside));
      }
    }
    for (Path packages : pythonPackages(variables)) {
      Path nvidia = packages.resolve("nvidia");
      folders.add(nvidia.resolve("cu13/lib"));
      folders.add(nvidia.resolve("cuda_nvrtc/lib"));
      folders.add(nvidia.resolve("cuda_nvrtc/bin"));
    }
    return folders;
  }

  private static List<Path> pythonPackages(Function<String, @Nullable String> variables) {
    List<Path> prefixes = new ArrayList<>();
    for (String variable : new String[] {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
      String prefix = variables.apply(variable);
      if (prefix != null && !prefix.isBlank()) {
        prefixes.add(Path.of(prefix));
      }
    }
    prefixes.add(Path.of(System.getProperty("user.home", "/"), ".local"));
    prefixes.add(Path.of("/usr/local"));
    prefixes.add(Path.of("/usr"));
    List<Path> packages = new ArrayList<>();
    for (Path prefix : prefixes) {
      packages.add(prefix.resolve("Lib/site-packages"));
      for (Path python : children(prefix.resolve("lib"), "python3*")) {
        packages.add(python.resolve("site-packages"));
        packages.add(python.resolve("dist-packages"));
      }
    }
    return packages;
  }

  /** The entries of a folder that match, latest version first; none if it cannot be read. */
  private static List<Path> children(Path folder, String glob) {
    List<Path> found = new ArrayList<>();
    try (DirectoryStream<Path> stream = Files.newDirectoryStream(folder, glob)) {
      stream.forEach(found::add);
    } catch (IOException e) {
      return List.of();
    }
    found.sort(Comparator.reverseOrder());
    return found;
  }
}
