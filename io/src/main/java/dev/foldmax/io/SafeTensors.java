package dev.foldmax.io;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;

/**
 * A {@code .safetensors} file, memory-mapped: named tensors that are read from disk when they are
 * first touched.
 *
 * <p>Opening reads and checks the header alone, by the rules of the format: tensors cover the data
 * without overlaps or holes, in any order and aligned or not. Tensors of element types that Foldmax
 * does not have, such as F8_E4M3, are listed and cannot be read; that their shapes fit their
 * offsets is not checked. A file of any size opens in memory that depends on its header, of which
 * at most 100 MB are accepted. Nothing is allocated for a length that the file does not have.
 *
 * <p>Thread-safe. A file must not be shortened while it is open, or access to the lost part ends in
 * an {@link InternalError}; to replace it by {@link #write} is safe, and leaves the open one as it
 * was.
 *
 * @see <a href="https://github.com/huggingface/safetensors#format">The format</a>
 */
public final class SafeTensors implements AutoCloseable {
  private static final int NAMES_IN_MESSAGE = 20;

  private final MappedFile file;
  private final SafeTensorsHeader header;

  private SafeTensors(MappedFile file, SafeTensorsHeader header) {
    this.file = file;
    this.header = header;
  }

  /**
   * A tensor as the header lists it.
   *
   * @param name its name, unique in the file
   * @param dtype its element type as the file spells it, which need not be one that Foldmax has
   * @param shape its shape; no sizes for a scalar
   * @param begin the offset of its first byte from the start of the data
   * @param end one past the offset of its last byte
   */
  public record Entry(String name, String dtype, List<Long> shape, long begin, long end) {
    /** Copies the shape. */
    public Entry {
      shape = List.copyOf(shape);
    }

    /** The element type as Foldmax has it, or nothing for one that it does not read. */
    public Optional<DType> type() {
      return Arrays.stream(DType.values()).filter(type -> type.name().equals(dtype)).findFirst();
    }
  }

  /**
   * A tensor that a file is to have.
   *
   * @param dtype its element type
   * @param shape its shape; no sizes for a scalar
   */
  public record Description(DType dtype, List<Long> shape) {
    /**
     * Copies the shape.
     *
     * @throws IllegalArgumentException if a size is negative
     * @throws ArithmeticException if the tensor has more bytes than 64 bits can count
     */
    public Description {
      shape = List.copyOf(shape);
      bytes(dtype, shape);
    }

    /** Of a tensor that there is. */
    public static Description of(Tensor tensor) {
      return of(tensor.dtype(), tensor.shape());
    }

    /** With the shape as an array. */
    public static Description of(DType dtype, long... shape) {
      return new Description(dtype, Arrays.stream(shape).boxed().toList());
    }

    /** How many bytes the elements take. */
    public long bytes() {
      return bytes(dtype, shape);
    }

    private static long bytes(DType dtype, List<Long> shape) {
      long bytes = dtype.bytes();
      for (long size : shape) {
        if (size < 0) {
          throw new IllegalArgumentException("shape: " + shape + " has a negative size");
        }
        if (size > 0 && bytes > Long.MAX_VALUE / size) { // also of an empty one, for its strides
          throw new ArithmeticException(
              "shape: " + shape + " of " + dtype + " has more bytes than 64 bits can count");
        }
        bytes *= Math.max(1, size);
      }
      return shape.contains(0L) ? 0 : bytes;
    }
  }

  /**
   * Opens and maps a file. It stays mapped until it is closed.
   *
   * @throws FormatException if the file breaks a rule of the format
   * @throws IOException if it cannot be read
   */
  public static SafeTensors open(Path path) throws IOException {
    MappedFile file = MappedFile.open(path);
    try {
      return new SafeTensors(file, SafeTensorsHeader.read(file));
    } catch (Throwable e) {
      file.close();
      throw e;
    }
  }

  /** The names of the tensors, in the order in which the header lists them; unmodifiable. */
  public Set<String> names() {
    return Collections.unmodifiableSet(header.entries().keySet());
  }

  /** Whether there is a tensor with the given name, be it of a type that Foldmax reads or not. */
  public boolean has(String name) {
    return header.entries().containsKey(name);
  }

  /** What the header says of each tensor, in its order; unmodifiable. */
  public Collection<Entry> entries() {
    return Collections.unmodifiableCollection(header.entries().values());
  }

  /**
   * A tensor: a read-only view of the mapped file, valid until it is closed. Nothing is copied.
   *
   * @throws IllegalArgumentException if there is no tensor of that name, or its element type is
   *     none of {@link DType}
   * @throws IllegalStateException if the file was closed
   */
  public Tensor tensor(String name) {
    Entry entry = header.entries().get(name);
    if (entry == null) {
      List<String> some = header.entries().keySet().stream().limit(NAMES_IN_MESSAGE).toList();
      throw unreadable(name, "is not there; the file has " + names().size() + ", first " + some);
    }
    DType type = entry.type().orElse(null);
    if (type == null) {
      String read = Arrays.toString(DType.values());
      throw unreadable(name, "is of dtype " + entry.dtype() + "; Foldmax reads " + read);
    }
    long[] shape = entry.shape().stream().mapToLong(Long::longValue).toArray();
    return file.tensor(header.dataOffset() + entry.begin(), type, shape);
  }

  private IllegalArgumentException unreadable(String name, String why) {
    return new IllegalArgumentException(
        FormatException.oneLine(file + ": tensor \"" + name + "\" " + why));
  }

  /** The texts under {@code __metadata__}, in the header's order; unmodifiable, often empty. */
  public Map<String, String> metadata() {
    return Collections.unmodifiableMap(header.metadata());
  }

  /**
   * Whether the header is, byte by byte, what {@link #write} writes for these tensors and texts. So
   * a digest of these vouches for the whole file, and not for one of the many that read the same.
   */
  public boolean isAsWritten() {
    byte[] written =
        SafeTensorsHeader.encode(new ArrayList<>(header.entries().values()), header.metadata());
    return Arrays.equals(written, file.bytes(0, header.dataOffset()));
  }

  /** Unmaps the file; its tensors' memory is gone. Does nothing when it was closed before. */
  @Override
  public void close() {
    file.close();
  }

  /**
   * Writes tensors of any strides, in any memory, to a new file or in place of one, in one step: a
   * failure leaves no file, or the one that was there. The tensors may lie in the very file that is
   * replaced. Beyond the header, memory use is one buffer.
   *
   * <p>Wider element types come first and names are sorted, so that every tensor is aligned and the
   * same tensors give the same bytes.
   *
   * @param tensors by name; {@code __metadata__} is no name for a tensor
   * @param metadata texts by name; may be empty
   * @throws IOException if the file cannot be written
   */
  public static void write(Path path, Map<String, Tensor> tensors, Map<String, String> metadata)
      throws IOException {
    Map<String, Description> descriptions = new LinkedHashMap<>();
    tensors.forEach((name, tensor) -> descriptions.put(name, Description.of(tensor)));
    List<Entry> entries = place(descriptions);
    byte[] header = SafeTensorsHeader.encode(entries, metadata);
    AtomicFile.write(
        path,
        channel -> {
          ElementWriter writer = new ElementWriter(channel);
          writer.write(header);
          for (Entry entry : entries) {
            writer.write(Objects.requireNonNull(tensors.get(entry.name())));
          }
        });
  }

  /**
   * Begins a new file, to replace what has the name, whose tensors are computed in place: views of
   * the mapped file, in the order of {@link #write}. {@link MappedOutput} says what happens to it.
   *
   * @param tensors by name; {@code __metadata__} is no name for a tensor
   * @param metadata texts by name; may be empty
   * @throws IllegalArgumentException if there are more bytes than 64 bits can count
   * @throws IOException if it cannot be made, or the disk lacks room for it
   */
  public static MappedOutput create(
      Path path, Map<String, Description> tensors, Map<String, String> metadata)
      throws IOException {
    List<Entry> entries = place(tensors);
    List<MappedOutput.Place> places = new ArrayList<>();
    for (Entry entry : entries) {
      DType type = entry.type().orElseThrow();
      places.add(new MappedOutput.Place(entry.name(), type, entry.shape(), entry.begin()));
    }
    return MappedOutput.create(path, SafeTensorsHeader.encode(entries, metadata), places);
  }

  /** Gives each tensor its place: wider types first, then by name. */
  private static List<Entry> place(Map<String, Description> tensors) {
    List<Map.Entry<String, Description>> sorted = new ArrayList<>(tensors.entrySet());
    sorted.sort(
        Comparator.comparingInt(
                (Map.Entry<String, Description> named) -> -named.getValue().dtype().bytes())
            .thenComparing(Map.Entry::getKey));
    List<Entry> entries = new ArrayList<>();
    long begin = 0;
    for (Map.Entry<String, Description> named : sorted) {
      Description tensor = named.getValue();
      if (tensor.bytes() > Long.MAX_VALUE - begin) {
        throw new IllegalArgumentException(
            "tensors: those up to one of shape "
                + tensor.shape()
                + " have more bytes than 64 bits can count");
      }
      long end = begin + tensor.bytes();
      entries.add(new Entry(named.getKey(), tensor.dtype().name(), tensor.shape(), begin, end));
      begin = end;
    }
    return entries;
  }
}
