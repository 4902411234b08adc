package dev.foldmax;

import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;

/**
 * Where the keys and values of a batch of sequences lie: {@link #dense}, {@link #ragged}, {@link
 * #paged} or {@link #ring}, or part of them elsewhere, {@link #slice}. Kernels ask it for the next
 * run of rows and know no layout.
 *
 * <p>Keys and values are addressed by <em>position</em>: sequence {@code b} has the keys {@link
 * #firstKey} to {@link #endKey}. Positions start at 0, but for a ring buffer that has dropped older
 * keys. A position lies in row {@link #row} of block {@link #block}.
 *
 * <p>Tensors of offsets, lengths and tables are read at each call, so a decoding loop may build its
 * description once and update them in place. What they say is checked at each call. A description
 * is immutable and as thread-safe as the memory behind it.
 */
public final class KeyValues {
  private final Layout layout;
  private final Tensor keys;
  private final Tensor values;
  private final @Nullable Tensor keyScales;
  private final @Nullable Tensor valueScales;
  private final @Nullable Tensor queryOffsets;

  private KeyValues(
      Layout layout,
      Tensor keys,
      Tensor values,
      @Nullable Tensor keyScales,
      @Nullable Tensor valueScales,
      @Nullable Tensor queryOffsets) {
    this.layout = layout;
    this.keys = keys;
    this.values = values;
    this.keyScales = keyScales;
    this.valueScales = valueScales;
    this.queryOffsets = queryOffsets;
  }

  /** How positions map to memory. */
  private sealed interface Layout {
    /** One block per sequence; {@code lengths} says how many of its rows are valid. */
    record Dense(@Nullable Tensor lengths) implements Layout {}

    /** All sequences one after the other in block 0. */
    record Ragged(Tensor offsets) implements Layout {}

    /** Pages as blocks, listed for each sequence in a table. */
    record Paged(Tensor table, Tensor lengths) implements Layout {}

    /** One block per sequence, written round and round. */
    record Ring(Tensor first, Tensor lengths) implements Layout {}

    /** Some of the rows of one block per sequence, from a position on. */
    record Slice(long first, long total) implements Layout {}
  }

  /**
   * One contiguous range of keys for each sequence.
   *
   * @param keys (batch, key heads, length, Dqk), or without batch, or (length, Dqk)
   * @param values (batch, key heads, length, Dv), likewise
   */
  public static KeyValues dense(Tensor keys, Tensor values) {
    return create(new Layout.Dense(null), keys, values, 2);
  }

  /**
   * Sequences of different lengths packed one after the other, without padding.
   *
   * @param keys (key heads, total length, Dqk)
   * @param values (key heads, total length, Dv)
   * @param offsets I32 or I64 of shape (batch + 1), never falling: sequence {@code b} has the rows
   *     {@code offsets[b]} to {@code offsets[b + 1]}
   */
  public static KeyValues ragged(Tensor keys, Tensor values, Tensor offsets) {
    checkRank("ragged keys", keys, 3, "(key heads, total length, dim)");
    checkIndex("offsets", offsets, 1, "(batch + 1)");
    if (offsets.shape(0) < 1) {
      throw new IllegalArgumentException("offsets: expected shape (batch + 1), got " + offsets);
    }
    return create(new Layout.Ragged(offsets), keys, values, 3);
  }

  /**
   * A cache cut into pages of equal size.
   *
   * @param keys (pages, key heads, page size, Dqk); a cache of shape (pages, page size, key heads,
   *     Dqk) is this by {@code permute(0, 2, 1, 3)}
   * @param values (pages, key heads, page size, Dv)
   * @param blockTable I32 or I64 of shape (batch, most pages of a sequence): the page that holds
   *     positions {@code n * page size} onward; entries past a sequence's length are not read
   * @param lengths I32 or I64 of shape (batch): how many keys each sequence has
   */
  public static KeyValues paged(Tensor keys, Tensor values, Tensor blockTable, Tensor lengths) {
    checkRank("paged keys", keys, 4, "(pages, key heads, page size, dim)");
    checkIndex("blockTable", blockTable, 2, "(batch, pages of a sequence)");
    checkIndex("lengths", lengths, 1, "(batch)");
    if (blockTable.shape(0) != lengths.shape(0)) {
      throw new IllegalArgumentException(
          "lengths: expected one for each row of blockTable " + blockTable + ", got " + lengths);
    }
    if (keys.shape(2) == 0) {
      throw new IllegalArgumentException("paged keys: the page size must not be 0, got " + keys);
    }
    return create(new Layout.Paged(blockTable, lengths), keys, values, 4);
  }

  /**
   * A ring buffer for each sequence, as sliding-window layers keep: position {@code p} lies in row
   * {@code p mod capacity}.
   *
   * @param keys (batch, key heads, capacity, Dqk)
   * @param values (batch, key heads, capacity, Dv)
   * @param first I32 or I64 of shape (batch): the position of the oldest key that is present
   * @param lengths I32 or I64 of shape (batch): how many keys are present, at most the capacity
   */
  public static KeyValues ring(Tensor keys, Tensor values, Tensor first, Tensor lengths) {
    checkRank("ring keys", keys, 4, "(batch, key heads, capacity, dim)");
    checkIndex("first", first, 1, "(batch)");
    checkIndex("lengths", lengths, 1, "(batch)");
    if (first.shape(0) != keys.shape(0) || lengths.shape(0) != keys.shape(0)) {
      throw new IllegalArgumentException(
          "first, lengths: expected one for each sequence of keys "
              + keys
              + ", got "
              + first
              + " and "
              + lengths);
    }
    return create(new Layout.Ring(first, lengths), keys, values, 4);
  }

  /**
   * A part of dense keys and values, as one of several machines holds it. Positions are those of
   * the whole, and so are masks and ALiBi; columns of a bias or of a mask, too. It serves {@link
   * Backend#attendPartial} over keys that it holds; {@link Backend#attend} needs all of them.
   *
   * @param keys (batch, key heads, rows, Dqk), or without batch, or (rows, Dqk)
   * @param values (batch, key heads, rows, Dv), likewise
   * @param first the position of the first row
   * @param total how many keys each sequence of the whole has
   */
  public static KeyValues slice(Tensor keys, Tensor values, long first, long total) {
    KeyValues slice = create(new Layout.Slice(first, total), keys, values, 2);
    long rows = slice.keys.shape(2);
    if (first < 0 || total < 0 || first > total - rows) {
      throw new IllegalArgumentException(
          "slice: expected "
              + rows
              + " keys from "
              + first
              + " on to lie within a total of "
              + total
              + ", got "
              + keys);
    }
    return slice;
  }

  private static KeyValues create(Layout layout, Tensor keys, Tensor values, int minRank) {
    if (keys.rank() < minRank || keys.rank() > 4 || values.rank() != keys.rank()) {
      throw new IllegalArgumentException(
          "keys, values: expected (batch, key heads, length, dim), (key heads, length, dim) or"
              + " (length, dim), both of one rank, got "
              + keys
              + " and "
              + values);
    }
    for (Tensor tensor : new Tensor[] {keys, values}) {
      if (!tensor.dtype().isFloating() && tensor.dtype() != DType.I8) {
        throw new IllegalArgumentException(
            (tensor == keys ? "keys" : "values")
                + ": expected F64, F32, F16, BF16 or I8 (with scales), got "
                + tensor);
      }
    }
    for (int axis = 0; axis < keys.rank() - 1; axis++) {
      if (keys.shape(axis) != values.shape(axis)) {
        throw new IllegalArgumentException(
            "values: expected the shape of keys but for the last dimension, got keys "
                + keys
                + " and values "
                + values);
      }
    }
    return new KeyValues(layout, toRank4(keys), toRank4(values), null, null, null);
  }

  private static Tensor toRank4(Tensor tensor) {
    long[] shape = {1, 1, 1, 1};
    System.arraycopy(tensor.shape(), 0, shape, 4 - tensor.rank(), tensor.rank());
    return tensor.expand(shape);
  }

  private static void checkRank(String name, Tensor tensor, int rank, String expected) {
    if (tensor.rank() != rank) {
      throw new IllegalArgumentException(name + ": expected shape " + expected + ", got " + tensor);
    }
  }

  private static void checkIndex(String name, Tensor tensor, int rank, String expected) {
    if (!tensor.dtype().isIndex() || tensor.rank() != rank) {
      throw new IllegalArgumentException(
          name + ": expected I32 or I64 of shape " + expected + ", got " + tensor);
    }
  }

  /**
   * The same with a number of valid keys for each sequence; rows past it are never read. Only for
   * {@link #dense}.
   *
   * @param lengths I32 or I64 of shape (batch)
   */
  public KeyValues lengths(Tensor lengths) {
    if (!(layout instanceof Layout.Dense)) {
      throw new IllegalStateException("lengths: only a dense layout takes them separately");
    }
    checkIndex("lengths", lengths, 1, "(batch)");
    if (lengths.shape(0) != keys.shape(0)) {
      throw new IllegalArgumentException(
          "lengths: expected one for each sequence of keys " + keys + ", got " + lengths);
    }
    return new KeyValues(
        new Layout.Dense(lengths), keys, values, keyScales, valueScales, queryOffsets);
  }

  /**
   * The same with a factor for each row of quantised keys and values: element {@code x} stands for
   * {@code x * scale}. I8 needs them; other types may have them.
   *
   * @param keyScales floating, of the shape of the keys without the last dimension, or null for 1
   * @param valueScales floating, of the shape of the values without the last dimension, or null
   */
  public KeyValues scales(@Nullable Tensor keyScales, @Nullable Tensor valueScales) {
    return new KeyValues(
        layout,
        keys,
        values,
        toScales("keyScales", keyScales, keys),
        toScales("valueScales", valueScales, values),
        queryOffsets);
  }

  private static @Nullable Tensor toScales(String name, @Nullable Tensor scales, Tensor scaled) {
    if (scales == null) {
      return null;
    }
    long[] shape = {scaled.shape(0), scaled.shape(1), scaled.shape(2)};
    if (!scales.dtype().isFloating() || !scales.broadcastsTo(shape)) {
      throw new IllegalArgumentException(
          name
              + ": expected a floating tensor of the shape of "
              + scaled
              + " without its last dimension, got "
              + scales);
    }
    return scales.expand(shape);
  }

  /**
   * The same for queries that are packed one sequence after the other, as (query heads, total
   * queries, Dqk).
   *
   * @param offsets I32 or I64 of shape (batch + 1), never falling: the queries of sequence {@code
   *     b} are the rows {@code offsets[b]} to {@code offsets[b + 1]}
   */
  public KeyValues queryOffsets(Tensor offsets) {
    checkIndex("queryOffsets", offsets, 1, "(batch + 1)");
    if (offsets.shape(0) != batch() + 1) {
      throw new IllegalArgumentException(
          "queryOffsets: expected shape (" + (batch() + 1) + "), got " + offsets);
    }
    return new KeyValues(layout, keys, values, keyScales, valueScales, offsets);
  }

  /** The number of sequences. */
  public long batch() {
    return switch (layout) {
      case Layout.Dense dense -> keys.shape(0);
      case Layout.Ragged ragged -> ragged.offsets().shape(0) - 1;
      case Layout.Paged paged -> paged.lengths().shape(0);
      case Layout.Ring ring -> keys.shape(0);
      case Layout.Slice slice -> keys.shape(0);
    };
  }

  /** The number of key heads. */
  public long heads() {
    return keys.shape(1);
  }

  /** The keys as (blocks, key heads, rows, Dqk). */
  public Tensor keys() {
    return keys;
  }

  /** The values as (blocks, key heads, rows, Dv). */
  public Tensor values() {
    return values;
  }

  /** The keys' factors as (blocks, key heads, rows), or null. */
  public @Nullable Tensor keyScales() {
    return keyScales;
  }

  /** The values' factors as (blocks, key heads, rows), or null. */
  public @Nullable Tensor valueScales() {
    return valueScales;
  }

  /** The offsets of packed queries, or null. */
  public @Nullable Tensor queryOffsets() {
    return queryOffsets;
  }

  /**
   * Gives every tensor of this to an action, each with the name of the parameter that it came from.
   */
  public void forEachTensor(BiConsumer<String, Tensor> action) {
    action.accept("keys", keys);
    action.accept("values", values);
    accept(action, "keyScales", keyScales);
    accept(action, "valueScales", valueScales);
    accept(action, "queryOffsets", queryOffsets);
    switch (layout) {
      case Layout.Dense dense -> accept(action, "lengths", dense.lengths());
      case Layout.Ragged ragged -> action.accept("offsets", ragged.offsets());
      case Layout.Paged paged -> {
        action.accept("blockTable", paged.table());
        action.accept("lengths", paged.lengths());
      }
      case Layout.Ring ring -> {
        action.accept("first", ring.first());
        action.accept("lengths", ring.lengths());
      }
      case Layout.Slice slice -> {}
    }
  }

  private static void accept(
      BiConsumer<String, Tensor> action, String name, @Nullable Tensor tensor) {
    if (tensor != null) {
      action.accept(name, tensor);
    }
  }

  /** The layout's name: dense, ragged, paged, ring or slice. */
  public String layout() {
    return switch (layout) {
      case Layout.Dense dense -> "dense";
      case Layout.Ragged ragged -> "ragged";
      case Layout.Paged paged -> "paged";
      case Layout.Ring ring -> "ring";
      case Layout.Slice slice -> "slice";
    };
  }

  /** The position of the first key of a sequence. */
  public long firstKey(long sequence) {
    return layout instanceof Layout.Ring ring ? element(ring.first(), sequence) : 0;
  }

  /** One past the position of the last key of a sequence. */
  public long endKey(long sequence) {
    return switch (layout) {
      case Layout.Dense dense -> {
        Tensor lengths = dense.lengths();
        yield lengths == null ? keys.shape(2) : element(lengths, sequence);
      }
      case Layout.Ragged ragged ->
          element(ragged.offsets(), sequence + 1) - element(ragged.offsets(), sequence);
      case Layout.Paged paged -> element(paged.lengths(), sequence);
      case Layout.Ring ring -> element(ring.first(), sequence) + element(ring.lengths(), sequence);
      case Layout.Slice slice -> slice.total();
    };
  }

  /** Whether every key of every sequence is held here, as all layouts but {@link #slice} do. */
  public boolean isWhole() {
    return !(layout instanceof Layout.Slice slice) || keys.shape(2) == slice.total();
  }

  /** The first position that is held here: above 0 for a {@link #slice} from further on. */
  public long heldBegin() {
    return layout instanceof Layout.Slice slice ? slice.first() : 0;
  }

  /** One past the last position that is held here: that of the longest sequence. */
  public long heldEnd() {
    return layout instanceof Layout.Slice slice ? slice.first() + keys.shape(2) : totalKeys();
  }

  /**
   * One past the last position of the longest sequence. Without sequences it is that of any there
   * could be, where all have the same keys; else 0.
   */
  public long totalKeys() {
    long most =
        switch (layout) {
          case Layout.Slice slice -> slice.total();
          case Layout.Dense dense -> dense.lengths() == null ? keys.shape(2) : 0;
          default -> 0;
        };
    for (long b = 0; b < batch(); b++) {
      most = Math.max(most, endKey(b));
    }
    return most;
  }

  /** The block (index on axis 0 of keys and values) of a position. */
  public long block(long sequence, long position) {
    return switch (layout) {
      case Layout.Dense dense -> sequence;
      case Layout.Ragged ragged -> 0;
      case Layout.Paged paged -> {
        Tensor table = paged.table();
        yield table.longAt(sequence * table.stride(0) + position / keys.shape(2) * table.stride(1));
      }
      case Layout.Ring ring -> sequence;
      case Layout.Slice slice -> sequence;
    };
  }

  /** The row (index on axis 2 of keys and values) of a position. */
  public long row(long sequence, long position) {
    return switch (layout) {
      case Layout.Dense dense -> position;
      case Layout.Ragged ragged -> element(ragged.offsets(), sequence) + position;
      case Layout.Paged paged -> position % keys.shape(2);
      case Layout.Ring ring -> position % keys.shape(2);
      case Layout.Slice slice -> position - slice.first();
    };
  }

  /**
   * How many positions from {@code position} on, and before {@code end}, lie in consecutive rows of
   * the same block.
   */
  public long run(long sequence, long position, long end) {
    return switch (layout) {
      case Layout.Dense dense -> end - position;
      case Layout.Ragged ragged -> end - position;
      case Layout.Paged paged -> toBlockEnd(position, end);
      case Layout.Ring ring -> toBlockEnd(position, end);
      case Layout.Slice slice -> end - position;
    };
  }

  private long toBlockEnd(long position, long end) {
    long rows = keys.shape(2);
    return Math.min(end - position, rows - position % rows);
  }

  /**
   * Checks that every position of every sequence lies inside the tensors.
   *
   * @throws IllegalArgumentException naming the tensor, the sequence and the value that is wrong
   */
  public void validate() {
    if (keys.dtype() == DType.I8 && keyScales == null) {
      throw new IllegalArgumentException("keys: I8 needs scales, see KeyValues.scales");
    }
    if (values.dtype() == DType.I8 && valueScales == null) {
      throw new IllegalArgumentException("values: I8 needs scales, see KeyValues.scales");
    }
    switch (layout) {
      case Layout.Dense dense -> {
        Tensor lengths = dense.lengths();
        if (lengths != null) {
          checkLengths(lengths, keys.shape(2));
        }
      }
      case Layout.Ragged ragged -> checkOffsets("offsets", ragged.offsets(), keys.shape(2));
      case Layout.Paged paged -> {
        checkLengths(paged.lengths(), saturatedProduct(paged.table().shape(1), keys.shape(2)));
        for (long b = 0; b < batch(); b++) {
          for (long p = 0; p < endKey(b); p += keys.shape(2)) {
            long page = block(b, p);
            if (page < 0 || page >= keys.shape(0)) {
              throw new IllegalArgumentException(
                  "blockTable: entry ("
                      + b
                      + ", "
                      + p / keys.shape(2)
                      + ") is "
                      + page
                      + ", expected 0 to "
                      + (keys.shape(0) - 1));
            }
          }
        }
      }
      case Layout.Ring ring -> {
        checkLengths(ring.lengths(), keys.shape(2));
        for (long b = 0; b < batch(); b++) {
          if (firstKey(b) < 0 || firstKey(b) > Long.MAX_VALUE / 4) {
            throw new IllegalArgumentException(
                "first: entry "
                    + b
                    + " is "
                    + firstKey(b)
                    + ", expected 0 to "
                    + Long.MAX_VALUE / 4);
          }
        }
      }
      case Layout.Slice slice -> {}
    }
  }

  private static long saturatedProduct(long a, long b) {
    return a == 0 || b <= Long.MAX_VALUE / a ? a * b : Long.MAX_VALUE;
  }

  private void checkLengths(Tensor lengths, long most) {
    for (long b = 0; b < lengths.shape(0); b++) {
      long length = element(lengths, b);
      if (length < 0 || length > most) {
        throw new IllegalArgumentException(
            "lengths: entry " + b + " is " + length + ", expected 0 to " + most);
      }
    }
  }

  /** Checks that offsets start at 0 or later, never fall and end within {@code rows}. */
  static void checkOffsets(String name, Tensor offsets, long rows) {
    long previous = 0;
    for (long b = 0; b < offsets.shape(0); b++) {
      long offset = element(offsets, b);
      if (offset < previous || offset > rows) {
        throw new IllegalArgumentException(
            name + ": entry " + b + " is " + offset + ", expected " + previous + " to " + rows);
      }
      previous = offset;
    }
  }

  private static long element(Tensor tensor, long index) {
    return tensor.longAt(index * tensor.stride(0));
  }

  @Override
  public String toString() {
    return layout() + " keys " + keys + " values " + values;
  }
}
