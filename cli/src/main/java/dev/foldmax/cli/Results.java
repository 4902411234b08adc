package dev.foldmax.cli;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import dev.foldmax.io.MappedOutput;
import dev.foldmax.io.SafeTensors;
import dev.foldmax.io.SafeTensors.Description;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The results of a job. Each is computed where it will lie: in the mapped file that it is for,
 * under a temporary name until {@link #commit}. One that is for no file lies in memory, or, where
 * it is too large for that, in a file that is never given a name.
 */
final class Results implements AutoCloseable {
  /** The most that a result for no file takes of the memory outside the heap. */
  private static final long MOST_IN_MEMORY = 256L << 20;

  private static final int CACHE_LINE = 64;

  /** Files under way, whichever thread made them. */
  private static final Set<MappedOutput> UNDER_WAY = ConcurrentHashMap.newKeySet();

  private final Arena arena = Arena.ofShared();
  private final Map<OutputFile, MappedOutput> files = new LinkedHashMap<>();
  private final List<MappedOutput> unnamed = new ArrayList<>();
  private final Map<OutputFile, Collection<String>> contents;
  private final Map<String, Tensor> tensors = new LinkedHashMap<>();

  /**
   * Makes the files.
   *
   * @param contents the names of the tensors that each file is to have, exactly one for an .npy
   *     file
   * @param descriptions of all tensors, by name
   */
  Results(Map<OutputFile, Collection<String>> contents, Map<String, Description> descriptions)
      throws IOException {
    this.contents = contents;
    try {
      for (Map.Entry<OutputFile, Collection<String>> entry : contents.entrySet()) {
        open(entry.getKey(), entry.getValue(), descriptions);
      }
      for (Map.Entry<String, Description> entry : descriptions.entrySet()) {
        if (!tensors.containsKey(entry.getKey())) {
          tensors.put(entry.getKey(), unnamed(entry.getKey(), entry.getValue()));
        }
      }
    } catch (Throwable e) {
      try (this) {
        throw e;
      }
    }
  }

  private void open(
      OutputFile file, Collection<String> names, Map<String, Description> descriptions)
      throws IOException {
    Map<String, Description> own = new LinkedHashMap<>(descriptions);
    own.keySet().retainAll(names);
    MappedOutput output = file.create(own);
    UNDER_WAY.add(output);
    files.put(file, output);
    for (String name : names) {
      tensors.putIfAbsent(name, tensor(file, name));
    }
  }

  private Tensor tensor(OutputFile file, String name) {
    MappedOutput output = files.get(file);
    if (output == null) {
      throw new IllegalStateException("not open: " + file);
    }
    return file.isSafeTensors() ? output.tensor(name) : output.tensor();
  }

  private Tensor unnamed(String name, Description description) throws IOException {
    long[] shape = description.shape().stream().mapToLong(Long::longValue).toArray();
    long bytes = description.bytes();
    if (bytes <= MOST_IN_MEMORY) {
      return Tensor.of(arena.allocate(bytes, CACHE_LINE), description.dtype(), shape);
    }
    Path place = Path.of(System.getProperty("java.io.tmpdir"), "foldmax.safetensors");
    MappedOutput output = SafeTensors.create(place, Map.of(name, description), Map.of());
    UNDER_WAY.add(output);
    unnamed.add(output);
    return output.tensor(name);
  }

  /** The description of a result, whose size is checked. */
  static Description describe(DType dtype, long... shape) {
    try {
      return Description.of(dtype, shape);
    } catch (ArithmeticException e) {
      throw new Failure(
          "a result of shape " + Quantity.shape(shape) + " has more bytes than 64 bits can count",
          e);
    }
  }

  /** A result to compute; valid until this is closed. */
  Tensor get(String name) {
    Tensor tensor = tensors.get(name);
    if (tensor == null) {
      throw new IllegalArgumentException("no result " + name);
    }
    return tensor;
  }

  /** All results to compute, by name. */
  Map<String, Tensor> all() {
    return tensors;
  }

  /** Brings the files to the disk and gives them their names; reports each. */
  void commit(Report report, Progress progress) throws IOException {
    List<String> written = new ArrayList<>();
    for (Map.Entry<OutputFile, MappedOutput> entry : files.entrySet()) {
      OutputFile file = entry.getKey();
      Map<String, Tensor> of = new LinkedHashMap<>();
      for (String name : contents.getOrDefault(file, List.of())) {
        Tensor copy = tensor(file, name);
        if (copy != get(name)) {
          copy.copyFrom(get(name));
        }
        of.put(name, copy);
      }
      entry.getValue().commit();
      written.add(file.path().toString());
      progress.reach((double) written.size() / files.size());
      report.line("wrote", file.describe(of));
    }
    report.field("written", written);
  }

  /** Removes what is under way, for a process that ends now. */
  static void discardAll() {
    for (MappedOutput output : UNDER_WAY) {
      try {
        output.discard();
      } catch (IOException e) {
        // There is nobody left to tell.
      }
    }
  }

  @Override
  public void close() throws IOException {
    arena.close();
    List<MappedOutput> all = new ArrayList<>(files.values());
    all.addAll(unnamed);
    IOException failure = null;
    for (MappedOutput output : all) {
      try {
        output.close();
      } catch (IOException e) {
        failure = e;
      }
      UNDER_WAY.remove(output);
    }
    if (failure != null) {
      throw failure;
    }
  }
}
