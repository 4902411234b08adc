package dev.foldmax.cli;

import dev.foldmax.io.SafeTensors;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** The tensors of an attention: which files they are in, and by what names. */
final class TensorOptions {
  @Spec(Spec.Target.MIXEE)
  private CommandSpec spec;

  @Parameters(
      arity = "0..1",
      paramLabel = "FILE",
      description = "A .safetensors file with the tensors.")
  private @Nullable Path file;

  @Option(
      names = "--tensor",
      paramLabel = "ROLE=NAME",
      description =
          "Takes a tensor of FILE that has another name, as --tensor q=query; an empty NAME leaves"
              + " it out, as --tensor bias= does.")
  private List<String> renamed = new ArrayList<>();

  @Option(names = "--q", paramLabel = "NPY", description = "Queries.")
  private @Nullable Path q;

  @Option(names = "--k", paramLabel = "NPY", description = "Keys.")
  private @Nullable Path k;

  @Option(names = "--v", paramLabel = "NPY", description = "Values.")
  private @Nullable Path v;

  @Option(
      names = "--layout",
      paramLabel = "LAYOUT",
      converter = Choice.OfLayout.class,
      completionCandidates = Choice.OfLayout.class,
      description =
          "bhld, or blhd for (batch, length, heads, dim), also known as bhsd and bshd: that of q, k, v, expected and the output;"
              + " the logsumexp's is the same without dim.")
  private Layout layout = Layout.BHLD;

  @Option(
      names = "--bias",
      paramLabel = "NPY",
      description =
          "Numbers to add to the scores; broadcast to (batch, query heads, queries, keys).")
  private @Nullable Path bias;

  @Option(
      names = "--mask",
      paramLabel = "NPY",
      description = "Booleans, true where a key is visible; broadcast as --bias.")
  private @Nullable Path mask;

  @Option(
      names = "--sinks",
      paramLabel = "NPY",
      description = "For each query head the score of one more key, whose value is 0.")
  private @Nullable Path sinks;

  @Option(
      names = "--slopes",
      paramLabel = "NPY",
      description = "ALiBi: the slope of each query head, (query heads) or (batch, query heads).")
  private @Nullable Path slopes;

  @Option(
      names = "--k-scale",
      paramLabel = "NPY",
      description = "The factor of each row of int8 keys, (batch, key heads, keys).")
  private @Nullable Path keyScale;

  @Option(
      names = "--v-scale",
      paramLabel = "NPY",
      description = "The factor of each row of int8 values, (batch, key heads, keys).")
  private @Nullable Path valueScale;

  @Option(
      names = "--expected",
      paramLabel = "NPY",
      description = "The output to expect, for --check.")
  private @Nullable Path expected;

  private Map<Role, Path> byOption() {
    Map<Role, Path> paths = new EnumMap<>(Role.class);
    for (Role role : Role.values()) {
      Path path =
          switch (role) {
            case Q -> q;
            case K -> k;
            case V -> v;
            case BIAS -> bias;
            case MASK -> mask;
            case SINKS -> sinks;
            case SLOPES -> slopes;
            case K_SCALE -> keyScale;
            case V_SCALE -> valueScale;
            case EXPECTED -> expected;
          };
      if (path != null) {
        paths.put(role, path);
      }
    }
    return paths;
  }

  /**
   * Refuses options that contradict each other or lack one another.
   *
   * @param check whether the results will be checked
   */
  void validate(boolean check) {
    Map<Role, Path> options = byOption();
    for (Role role : List.of(Role.Q, Role.K, Role.V)) {
      if (file != null && options.containsKey(role)) {
        throw wrong(
            role.option()
                + " conflicts with "
                + file
                + ", which holds q, k and v"
                + AttentionOptions.causalHint(spec.commandLine()));
      }
      if (file == null && !options.containsKey(role)) {
        throw wrong(
            "missing "
                + role.option()
                + ": give one .safetensors file, or .npy files by --q, --k and --v");
      }
    }
    if (file != null && InputFiles.isNpy(file)) {
      throw wrong(
          "expected a .safetensors file, got " + file + "; .npy files go to --q, --k and --v");
    }
    options.forEach(
        (role, path) -> {
          if (InputFiles.isSafeTensors(path)) {
            throw wrong(role.option() + ": expected an .npy file, got " + path);
          }
        });
    Map<Role, String> names = names();
    if (!check && options.containsKey(Role.EXPECTED)) {
      throw wrong("--expected needs --check, which compares the output with it");
    }
    if (!check && !names.getOrDefault(Role.EXPECTED, "").isEmpty()) {
      throw wrong("--tensor expected=... needs --check, which compares the output with it");
    }
    if (file == null && !names.isEmpty()) {
      throw wrong("--tensor names tensors of a .safetensors file, and none is given");
    }
    names.forEach(
        (role, name) -> {
          if (options.containsKey(role) && !name.isEmpty()) {
            throw wrong("--tensor " + role.tensorName() + "=... conflicts with " + role.option());
          }
        });
  }

  private ParameterException wrong(String message) {
    return new ParameterException(spec.commandLine(), message);
  }

  /** What {@code --tensor} says. */
  private Map<Role, String> names() {
    Map<Role, String> names = new EnumMap<>(Role.class);
    for (String renaming : renamed) {
      int equals = renaming.indexOf('=');
      String name = equals < 0 ? renaming : renaming.substring(0, equals);
      Role role =
          Role.named(equals < 0 ? "" : name)
              .orElseThrow(
                  () ->
                      wrong(
                          "--tensor: expected ROLE=NAME with one of "
                              + Role.names()
                              + " as ROLE, got '"
                              + renaming
                              + "'"));
      if (names.put(role, renaming.substring(equals + 1)) != null) {
        throw wrong("--tensor " + role.tensorName() + "=... is given twice");
      }
    }
    return names;
  }

  /** What {@code --tensor} says where it names one tensor, not one in a role; null without it. */
  @Nullable String soleTensor() {
    if (renamed.isEmpty()) {
      return null;
    }
    if (renamed.size() > 1) {
      throw wrong("--tensor is given twice");
    }
    return renamed.getFirst();
  }

  /** The file with the tensors, or null where options name each. */
  @Nullable Path file() {
    return file;
  }

  /** Whether an option names a file of its own for some role. */
  boolean hasOptions() {
    return !byOption().isEmpty();
  }

  /** Whether an output to expect is given. */
  boolean hasExpected() {
    return expected != null;
  }

  /** All files that will be read. */
  List<Path> paths() {
    List<Path> paths = new ArrayList<>(byOption().values());
    if (file != null) {
      paths.add(file);
    }
    return paths;
  }

  /** The file, or the files of q, k and v, for a title. */
  String title() {
    return file == null ? q + ", " + k + ", " + v : file.toString();
  }

  /**
   * Opens the files and checks their tensors.
   *
   * @param totalKeys how many keys the whole attention has; null for as many as k has
   */
  AttendInputs read(InputFiles files, @Nullable Long totalKeys) throws IOException {
    Map<Role, Source> sources = new EnumMap<>(Role.class);
    Map<Role, Path> options = byOption();
    for (Map.Entry<Role, Path> option : options.entrySet()) {
      Role role = option.getKey();
      sources.put(role, files.npy(option.getValue(), role.tensorName()));
    }
    if (file != null) {
      readFile(file, files.safeTensors(file), sources);
    }
    return new AttendInputs(sources, layout, totalKeys);
  }

  private void readFile(Path path, SafeTensors tensors, Map<Role, Source> sources) {
    Map<Role, String> names = names();
    for (Role role : Role.values()) {
      String name = names.getOrDefault(role, role.tensorName());
      Optional<Source> found = InputFiles.find(tensors, path, name, role.tensorName());
      if (found.isPresent() && sources.put(role, found.get()) != null) {
        throw wrong(
            role.option()
                + " conflicts with the tensor "
                + name
                + " of "
                + path
                + "; --tensor "
                + role.tensorName()
                + "= leaves the latter out");
      }
      boolean needed = role == Role.Q || role == Role.K || role == Role.V;
      boolean asked = names.containsKey(role) && !name.isEmpty();
      if (found.isEmpty() && (needed || asked)) {
        throw new Failure(
            InputFiles.missing(path, name, tensors.names())
                + (asked || tensors.names().isEmpty()
                    ? ""
                    : "; --tensor " + role.tensorName() + "=NAME takes another"));
      }
    }
  }

  /** The order of dimensions in the files. */
  Layout layout() {
    return layout;
  }
}
