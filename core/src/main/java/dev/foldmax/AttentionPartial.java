package dev.foldmax;

import dev.foldmax.spi.ContentDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * An attention over some of its keys, not finished: what a machine that holds those keys sends to
 * the one that finishes. {@link Backend#attendPartial} makes it and {@link Backend#finish} merges
 * all of an attention's into its result.
 *
 * <p>It holds states (m, l, O), see {@link SoftmaxState}: for each query and each {@link Piece} of
 * the keys the maximum of the scores, the sum of weights relative to it and the sum of weighted
 * values, in the arithmetic and the unit of the backend that made them. Pieces are the largest
 * subtrees of the backend's fold that the keys cover (docs/algorithm.md, Row invariance), so that
 * the fold continues where it stopped. Where partials are cut at cells ({@link Fold#cellKeys}) the
 * result has the bits of a single call; elsewhere it is right up to rounding.
 *
 * <p>{@link #metadata} and {@link #tensors} are its form for transport, for any format that keeps
 * texts and tensors by name, and {@link #of} reads that back. The module foldmax-io writes it as a
 * safetensors file.
 *
 * <p>Immutable, but for the memory of its tensors.
 *
 * @param definition which attention this is part of, as texts by name: everything that all of its
 *     partials have in common, with digests of tensors; see docs/partials.md
 * @param fold whose arithmetic the states are in
 * @param totalKeys the keys of the whole attention are 0 to {@code totalKeys}
 * @param pieces the keys, as {@link Fold#cut} cuts them
 * @param maxima F32 or F64 of shape (pieces, ...), where ... is the shape of q without the last
 *     dimension: the maxima in units of {@link Fold#unit}, -inf where a query sees no key
 * @param sums likewise: the sums of weights
 * @param outputs likewise, of shape (pieces, ..., Dv): the sums of weighted values
 * @param sinks floating, of shape (query heads), or null: what the finish adds, once
 */
public record AttentionPartial(
    Map<String, String> definition,
    Fold fold,
    long totalKeys,
    List<Piece> pieces,
    Tensor maxima,
    Tensor sums,
    Tensor outputs,
    @Nullable Tensor sinks) {
  /** The version of {@link #metadata} and {@link #tensors}. */
  public static final int VERSION = 1;

  private static final String FORMAT = "foldmax.partial";
  private static final String DEFINITION = "attention.";
  private static final String DIGEST = "sha256";
  private static final String MAXIMA = "max";
  private static final String SUMS = "sum";
  private static final String OUTPUTS = "weighted";
  private static final String SINKS = "sinks";

  /** Every name of {@link #metadata} that is not a part of the definition. */
  private static final List<String> NAMES =
      List.of(
          FORMAT,
          DIGEST,
          "keys",
          "pieces",
          "backend",
          "family",
          "fold",
          "cellKeys",
          "vectorBits",
          "unit");

  /**
   * A range of keys whose state is one.
   *
   * @param begin the first key
   * @param end one past the last key
   */
  public record Piece(long begin, long end) {
    public Piece {
      if (begin < 0 || end <= begin) {
        throw new IllegalArgumentException(
            "piece: expected a range of keys such as 0..1536, got " + begin + ".." + end);
      }
    }

    static Piece parse(String text) {
      int dots = text.indexOf("..");
      if (dots < 0) {
        throw new NumberFormatException(text);
      }
      return new Piece(
          Long.parseLong(text.substring(0, dots)), Long.parseLong(text.substring(dots + 2)));
    }

    @Override
    public String toString() {
      return begin + ".." + end;
    }
  }

  /**
   * Whose arithmetic states are in. States merge where everything but the vector width agrees; with
   * several widths the result is that of a single call up to rounding.
   *
   * @param backend the name of the backend that made them, which alone can finish them
   * @param family its family of kernels
   * @param version changes when the same keys would give other states
   * @param cellKeys the keys of a cell, where cuts change no bit; 0 if every cut does
   * @param vectorBits the width of its vectors; 0 where none matters
   * @param unit what a maximum is to be multiplied by, to make a natural score; weights are {@code
   *     exp(unit * (s - m))}
   */
  public record Fold(
      String backend, String family, int version, long cellKeys, int vectorBits, double unit) {
    public Fold {
      Objects.requireNonNull(backend, "backend");
      Objects.requireNonNull(family, "family");
      if (cellKeys < 0 || vectorBits < 0 || !Double.isFinite(unit)) {
        throw new IllegalArgumentException(
            "fold: expected cellKeys and vectorBits of at least 0 and a finite unit, got "
                + cellKeys
                + ", "
                + vectorBits
                + " and "
                + unit);
      }
    }

    /**
     * Cuts keys into the largest subtrees that they cover: runs of 2^n cells that begin at a
     * multiple of 2^n. The last cell of all is whole, be it short. What covers no whole cell, at
     * the edges, is a piece of its own.
     *
     * @param begin the first key
     * @param end one past the last key; more than {@code begin}
     * @param totalKeys the keys of the whole attention
     * @throws IllegalArgumentException if the range is empty or not within the keys
     */
    public List<Piece> cut(long begin, long end, long totalKeys) {
      if (begin < 0 || end <= begin || end > totalKeys) {
        throw new IllegalArgumentException(
            "keys: expected a range within 0.." + totalKeys + ", got " + begin + ".." + end);
      }
      if (cellKeys == 0) {
        return List.of(new Piece(begin, end));
      }
      List<Piece> pieces = new ArrayList<>();
      long endCell = end == totalKeys ? Math.ceilDiv(end, cellKeys) : end / cellKeys;
      for (long at = begin; at < end; at = pieces.getLast().end()) {
        long cell = at / cellKeys;
        long cells = 1;
        if (at % cellKeys == 0 && cell < endCell) {
          cells = Long.highestOneBit(endCell - cell);
          if (cell > 0) {
            cells = Math.min(cells, Long.lowestOneBit(cell));
          }
        }
        boolean isShort = cell + cells > end / cellKeys; // the product could overflow
        pieces.add(new Piece(at, isShort ? end : (cell + cells) * cellKeys));
      }
      return pieces;
    }
  }

  /** Checks that shapes, types and pieces fit one another. */
  public AttentionPartial {
    definition = copyOf(definition);
    pieces = List.copyOf(pieces);
    Objects.requireNonNull(fold, "fold");
    checkPieces(fold, pieces, totalKeys);
    boolean isFloat = outputs.dtype() == DType.F32 || outputs.dtype() == DType.F64;
    if (!isFloat || outputs.rank() < 3 || outputs.rank() > 5 || outputs.shape(0) != pieces.size()) {
      throw new IllegalArgumentException(
          OUTPUTS
              + ": expected F32 or F64 of shape ("
              + pieces.size()
              + " pieces, batch, heads, queries, Dv), got "
              + outputs);
    }
    long[] rows = Arrays.copyOf(outputs.shape(), outputs.rank() - 1);
    checkRows(MAXIMA, maxima, outputs.dtype(), rows);
    checkRows(SUMS, sums, outputs.dtype(), rows);
    long heads = rows.length < 3 ? 1 : rows[rows.length - 2];
    if (sinks != null
        && (!sinks.dtype().isFloating() || !Arrays.equals(sinks.shape(), new long[] {heads}))) {
      throw new IllegalArgumentException(
          "sinks: expected a floating tensor of shape (" + heads + "), got " + sinks);
    }
  }

  private static Map<String, String> copyOf(Map<String, String> definition) {
    Map<String, String> copy = new LinkedHashMap<>();
    definition.forEach(
        (name, text) ->
            copy.put(Objects.requireNonNull(name, "name"), Objects.requireNonNull(text, name)));
    return Collections.unmodifiableMap(copy);
  }

  private static void checkPieces(Fold fold, List<Piece> pieces, long totalKeys) {
    if (pieces.isEmpty() || pieces.getLast().end() > totalKeys) {
      throw new IllegalArgumentException(
          "pieces: expected keys below " + totalKeys + ", got " + pieces);
    }
    List<Piece> expected = fold.cut(pieces.getFirst().begin(), pieces.getLast().end(), totalKeys);
    if (!pieces.equals(expected)) {
      throw new IllegalArgumentException(
          "pieces: expected the subtrees " + expected + ", got " + pieces);
    }
  }

  private static void checkRows(String name, Tensor tensor, DType dtype, long[] shape) {
    if (tensor.dtype() != dtype || !Arrays.equals(tensor.shape(), shape)) {
      throw new IllegalArgumentException(
          name + ": expected " + dtype + " of shape " + Arrays.toString(shape) + ", got " + tensor);
    }
  }

  /** The first key that this is over. */
  public long keyBegin() {
    return pieces.getFirst().begin();
  }

  /** One past the last key. */
  public long keyEnd() {
    return pieces.getLast().end();
  }

  /** The shape of the attention's logsumexp: that of q without the last dimension. */
  public long[] rowShape() {
    return Arrays.copyOfRange(outputs.shape(), 1, outputs.rank() - 1);
  }

  /** The shape of the attention's output. */
  public long[] outputShape() {
    return Arrays.copyOfRange(outputs.shape(), 1, outputs.rank());
  }

  /**
   * The same with more in its definition, which partials must then have in common, too.
   *
   * @param more texts by name; names that the definition has already are replaced
   */
  public AttentionPartial define(Map<String, String> more) {
    Map<String, String> all = new LinkedHashMap<>(definition);
    all.putAll(more);
    return new AttentionPartial(all, fold, totalKeys, pieces, maxima, sums, outputs, sinks);
  }

  /**
   * All but the tensors, as texts by name, with a SHA-256 digest over these and the tensors. It
   * reads every byte of the tensors.
   */
  public Map<String, String> metadata() {
    Map<String, String> metadata = new TreeMap<>();
    definition.forEach((name, text) -> metadata.put(DEFINITION + name, text));
    metadata.put(FORMAT, Integer.toString(VERSION));
    metadata.put("keys", keyBegin() + ".." + keyEnd() + " of " + totalKeys);
    metadata.put("pieces", String.join(" ", pieces.stream().map(Piece::toString).toList()));
    metadata.put("backend", fold.backend());
    metadata.put("family", fold.family());
    metadata.put("fold", Integer.toString(fold.version()));
    metadata.put("cellKeys", Long.toString(fold.cellKeys()));
    metadata.put("vectorBits", Integer.toString(fold.vectorBits()));
    metadata.put("unit", Double.toString(fold.unit()));
    metadata.put(DIGEST, ContentDigest.of(metadata, tensors()));
    return metadata;
  }

  /** The tensors by name: {@code max}, {@code sum}, {@code weighted}, {@code sinks}. */
  public Map<String, Tensor> tensors() {
    Map<String, Tensor> tensors = new LinkedHashMap<>();
    tensors.put(MAXIMA, maxima);
    tensors.put(SUMS, sums);
    tensors.put(OUTPUTS, outputs);
    if (sinks != null) {
      tensors.put(SINKS, sinks);
    }
    return tensors;
  }

  /** Whether texts by name are those of a partial, of whatever version. */
  public static boolean isPartial(Map<String, String> metadata) {
    return metadata.containsKey(FORMAT);
  }

  /**
   * Reads what {@link #metadata} and {@link #tensors} gave, and checks all of it: whether any bit
   * has changed, too.
   *
   * @throws IllegalArgumentException that says what was expected
   */
  public static AttentionPartial of(Map<String, String> metadata, Map<String, Tensor> tensors) {
    String version = metadata.get(FORMAT);
    if (version == null) {
      throw new IllegalArgumentException(
          "not a partial: expected an entry " + FORMAT + ", got " + metadata.keySet());
    }
    if (!version.equals(Integer.toString(VERSION))) {
      throw new IllegalArgumentException(
          "a partial of version " + version + ", expected version " + VERSION);
    }
    Map<String, String> signed = new TreeMap<>(metadata);
    String digest = signed.remove(DIGEST);
    if (!ContentDigest.of(signed, tensors).equals(digest)) {
      throw new IllegalArgumentException(
          "altered: its contents do not have the SHA-256 digest that it states, " + digest);
    }
    Map<String, String> definition = new LinkedHashMap<>();
    signed.forEach(
        (name, text) -> {
          if (name.startsWith(DEFINITION)) {
            definition.put(name.substring(DEFINITION.length()), text);
          } else if (!NAMES.contains(name)) {
            throw new IllegalArgumentException("a partial has no entry " + name);
          }
        });
    Fold fold =
        new Fold(
            entry(signed, "backend"),
            entry(signed, "family"),
            smallNumber(signed, "fold"),
            number(signed, "cellKeys"),
            smallNumber(signed, "vectorBits"),
            decimal(signed, "unit"));
    String keys = entry(signed, "keys");
    AttentionPartial partial =
        new AttentionPartial(
            definition,
            fold,
            totalKeys(keys),
            pieces(entry(signed, "pieces")),
            tensor(tensors, MAXIMA),
            tensor(tensors, SUMS),
            tensor(tensors, OUTPUTS),
            tensors.get(SINKS));
    String covered = partial.keyBegin() + ".." + partial.keyEnd() + " of " + partial.totalKeys();
    if (!keys.equals(covered)) {
      throw new IllegalArgumentException("keys: expected " + covered + ", got " + keys);
    }
    return partial;
  }

  private static String entry(Map<String, String> metadata, String name) {
    String text = metadata.get(name);
    if (text == null) {
      throw new IllegalArgumentException("expected an entry " + name + " in a partial");
    }
    return text;
  }

  private static Tensor tensor(Map<String, Tensor> tensors, String name) {
    Tensor tensor = tensors.get(name);
    if (tensor == null) {
      throw new IllegalArgumentException("expected a tensor " + name + " in a partial");
    }
    return tensor;
  }

  private static long number(Map<String, String> metadata, String name) {
    String text = entry(metadata, name);
    try {
      return Long.parseLong(text);
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException(name + ": expected a whole number, got " + text, e);
    }
  }

  private static int smallNumber(Map<String, String> metadata, String name) {
    long number = number(metadata, name);
    if (number != (int) number) {
      throw new IllegalArgumentException(name + ": expected a number of 32 bits, got " + number);
    }
    return (int) number;
  }

  private static double decimal(Map<String, String> metadata, String name) {
    String text = entry(metadata, name);
    try {
      return Double.parseDouble(text);
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException(name + ": expected a number, got " + text, e);
    }
  }

  private static long totalKeys(String keys) {
    String of = " of ";
    try {
      return Long.parseLong(keys.substring(Math.max(0, keys.lastIndexOf(of)) + of.length()));
    } catch (NumberFormatException | IndexOutOfBoundsException e) {
      throw new IllegalArgumentException("keys: expected such as 0..1536 of 4096, got " + keys, e);
    }
  }

  private static List<Piece> pieces(String text) {
    List<Piece> pieces = new ArrayList<>();
    for (String piece : text.split(" ", -1)) {
      try {
        pieces.add(Piece.parse(piece));
      } catch (NumberFormatException e) {
        throw new IllegalArgumentException(
            "pieces: expected such as 0..1536 1536..2000, got " + text, e);
      }
    }
    return pieces;
  }

  @Override
  public String toString() {
    return "keys " + keyBegin() + ".." + keyEnd() + " of " + totalKeys + ", " + fold;
  }
}
