package dev.foldmax.io;

import dev.foldmax.AttentionPartial;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * An {@link AttentionPartial} in a {@code .safetensors} file, memory-mapped: the texts of {@link
 * AttentionPartial#metadata} and the tensors of {@link AttentionPartial#tensors}. Others can read
 * it as what it is; this class reads what {@link #write} has written and refuses a file of which
 * any bit has changed.
 *
 * <p>Thread-safe. The partial's tensors are views of the mapped file, valid until it is closed.
 */
public final class PartialFile implements AutoCloseable {
  private final SafeTensors file;
  private final AttentionPartial partial;

  private PartialFile(SafeTensors file, AttentionPartial partial) {
    this.file = file;
    this.partial = partial;
  }

  /**
   * Opens, maps and checks a file; this reads all of it.
   *
   * @throws FormatException if it is no partial of this version, truncated or altered
   * @throws IOException if it cannot be read
   */
  public static PartialFile open(Path path) throws IOException {
    SafeTensors file = SafeTensors.open(path);
    try {
      return new PartialFile(file, read(path, file));
    } catch (Throwable e) {
      file.close();
      throw e;
    }
  }

  private static AttentionPartial read(Path path, SafeTensors file) throws FormatException {
    if (AttentionPartial.isPartial(file.metadata()) && !file.isAsWritten()) {
      throw new FormatException(path, "was altered: its header is not as it was written");
    }
    try {
      Map<String, Tensor> tensors = new LinkedHashMap<>();
      for (String name : file.names()) {
        tensors.put(name, file.tensor(name));
      }
      return AttentionPartial.of(file.metadata(), tensors);
    } catch (IllegalArgumentException e) {
      throw new FormatException(path, String.valueOf(e.getMessage()), e);
    }
  }

  /**
   * Writes a partial to a new file or in place of one, in one step, as {@link SafeTensors#write}.
   *
   * @throws IOException if the file cannot be written
   */
  public static void write(Path path, AttentionPartial partial) throws IOException {
    SafeTensors.write(path, partial.tensors(), partial.metadata());
  }

  /** The partial; its memory is the file's. */
  public AttentionPartial partial() {
    return partial;
  }

  /** Unmaps the file; the partial's memory is gone. Does nothing when it was closed before. */
  @Override
  public void close() {
    file.close();
  }
}
