package dev.foldmax.cuda;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** Code for a device: from the disk, or compiled and then kept there. */
final class CodeProvider {
  private static final System.Logger LOG = System.getLogger("dev.foldmax.cuda");

  private final KernelCompiler compiler;
  private final CodeCache cache;
  private final KernelCompiler.Target target;

  CodeProvider(KernelCompiler compiler, CodeCache cache, int capability) {
    this.compiler = compiler;
    this.cache = cache;
    this.target = compiler.target(capability);
  }

  /** The code of a source under some macros. */
  byte[] get(String name, Map<String, Integer> macros) {
    KernelSource source = KernelSource.load(name);
    List<String> options = options(macros);
    String key = key(source, options);
    Optional<byte[]> kept = cache.read(key);
    if (kept.isPresent()) {
      return kept.get();
    }
    long start = System.nanoTime();
    byte[] code = compiler.compile(source, target, options);
    LOG.log(
        System.Logger.Level.DEBUG,
        () ->
            "compiled %s %s in %d ms"
                .formatted(name, options, (System.nanoTime() - start) / 1_000_000));
    cache.write(key, code);
    return code;
  }

  /** The options of a compilation, the same for the same macros. */
  static List<String> options(Map<String, Integer> macros) {
    List<String> options = new ArrayList<>();
    options.add("--std=c++17");
    options.add("--fmad=false"); // kernels say what is fused: else bits would hang on the compiler
    new TreeMap<>(macros).forEach((macro, value) -> options.add("-D" + macro + "=" + value));
    return options;
  }

  private String key(KernelSource source, List<String> options) {
    Digest digest =
        new Digest()
            .add(compiler.version())
            .add(target.option())
            .add(String.join(" ", options))
            .add(source.name())
            .add(source.text());
    source.headers().forEach((name, text) -> digest.add(name).add(text));
    return digest.hex();
  }
}
