package dev.foldmax.spi;

import dev.foldmax.AttentionPartial;
import dev.foldmax.AttentionPartial.Fold;
import dev.foldmax.AttentionPartial.Piece;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/** Partials that belong together, side by side in the order of their keys, checked. */
public final class PartialSet {
  /**
   * The states of all rows for the keys of a piece. Rows are numbered in row-major order of {@link
   * AttentionPartial#rowShape}.
   *
   * @param index the piece's place in its partial
   */
  public record State(Piece piece, AttentionPartial partial, int index) {
    /** The maximum of a row's scores. */
    public double max(long row) {
      return at(partial.maxima(), row);
    }

    /** The sum of a row's weights. */
    public double sum(long row) {
      return at(partial.sums(), row);
    }

    private double at(Tensor tensor, long row) {
      return tensor.at(Rows.elementOffset(tensor, index * rows() + row));
    }

    /** Where in the partial's outputs a row's begin, in elements. */
    public long outputOffset(long row) {
      return Rows.offset(partial.outputs(), index * rows() + row);
    }

    private long rows() {
      return partial.maxima().elements() / partial.pieces().size();
    }
  }

  private final List<AttentionPartial> partials; // by keys
  private final List<State> states; // by keys

  private PartialSet(List<AttentionPartial> partials) {
    this.partials = partials;
    this.states = new ArrayList<>();
    for (AttentionPartial partial : partials) {
      for (int i = 0; i < partial.pieces().size(); i++) {
        states.add(new State(partial.pieces().get(i), partial, i));
      }
    }
  }

  /**
   * Checks that partials are of one attention and lie side by side.
   *
   * @param partials in any order
   * @param name what a partial is called in messages, by its place in the list
   * @param whole whether they must cover all keys
   * @throws IllegalArgumentException that names the partial that does not fit, and why
   */
  public static PartialSet of(
      List<AttentionPartial> partials, IntFunction<String> name, boolean whole) {
    if (partials.isEmpty()) {
      throw new IllegalArgumentException("partials: expected at least one, got none");
    }
    List<KeyRange> ranges =
        IntStream.range(0, partials.size())
            .mapToObj(i -> range(partials.get(i), name.apply(i)))
            .toList();
    int[] order = KeyRange.order(ranges, whole);
    for (int i = 1; i < partials.size(); i++) {
      checkAlike(partials.getFirst(), ranges.getFirst(), partials.get(i), ranges.get(i));
    }
    return new PartialSet(Arrays.stream(order).mapToObj(partials::get).toList());
  }

  private static KeyRange range(AttentionPartial partial, String name) {
    return new KeyRange(
        name, partial.definition(), partial.keyBegin(), partial.keyEnd(), partial.totalKeys());
  }

  private static void checkAlike(
      AttentionPartial first, KeyRange firstRange, AttentionPartial other, KeyRange range) {
    Fold a = first.fold();
    Fold b = other.fold();
    firstRange.checkSame("backend", a.backend(), range, b.backend());
    firstRange.checkSame("family of kernels", a.family(), range, b.family());
    firstRange.checkSame("version of the fold", a.version(), range, b.version());
    firstRange.checkSame("keys of a cell", a.cellKeys(), range, b.cellKeys());
    firstRange.checkSame("unit", a.unit(), range, b.unit());
    firstRange.checkSame(
        "shape of outputs",
        Arrays.toString(first.outputShape()),
        range,
        Arrays.toString(other.outputShape()));
    firstRange.checkSame("states", first.outputs().dtype(), range, other.outputs().dtype());
    firstRange.checkSame("sinks", contents(first.sinks()), range, contents(other.sinks()));
  }

  private static String contents(@Nullable Tensor tensor) {
    return tensor == null ? "none" : ContentDigest.of(tensor);
  }

  /**
   * Checks whose states these are, and where the results go.
   *
   * @param own the fold of the backend that is to finish, for the families of these states
   */
  public void checkFinish(Fold own, Tensor out, @Nullable Tensor lse) {
    if (!fold().backend().equals(own.backend())) {
      throw new IllegalArgumentException(
          "partials: the states of the backend "
              + fold().backend()
              + " are finished by it alone, not by "
              + own.backend());
    }
    if (!fold().family().equals(own.family())) {
      throw new IllegalArgumentException(
          "partials: the states are of the family of kernels '%s', which the backend %s here lacks"
              .formatted(fold().family(), own.backend()));
    }
    checkOwn("version", fold().version(), own, own.version());
    checkOwn("keys of a cell", fold().cellKeys(), own, own.cellKeys());
    checkOutput("out", out, partials.getFirst().outputShape());
    if (lse != null) {
      checkOutput("lse", lse, partials.getFirst().rowShape());
      Rows.checkApart("lse", lse, "out", out);
    }
    for (AttentionPartial partial : partials) {
      for (Map.Entry<String, Tensor> tensor : partial.tensors().entrySet()) {
        Rows.checkApart("out", out, tensor.getKey(), tensor.getValue());
        if (lse != null) {
          Rows.checkApart("lse", lse, tensor.getKey(), tensor.getValue());
        }
      }
    }
  }

  private static void checkOwn(String what, long theirs, Fold own, long ours) {
    if (theirs != ours) {
      throw new IllegalArgumentException(
          "partials: the states are of a fold whose %s is %d, and the backend %s here goes on with %d"
              .formatted(what, theirs, own.backend(), ours));
    }
  }

  private static void checkOutput(String name, Tensor tensor, long[] shape) {
    if (!tensor.dtype().isFloating() || !Arrays.equals(tensor.shape(), shape)) {
      throw new IllegalArgumentException(
          name
              + ": expected a floating tensor of shape "
              + Arrays.toString(shape)
              + ", got "
              + tensor);
    }
    Rows.checkWritable(name, tensor);
  }

  /**
   * Why the merged result need not have the bits of a single call, in words; null if it has them:
   * all cuts lie on cells and all states were made with vectors of one width.
   */
  public @Nullable String whyRounded() {
    if (fold().cellKeys() == 0) {
      return "the backend " + fold().backend() + " has no cells to cut at";
    }
    for (AttentionPartial partial : partials.subList(1, partials.size())) {
      if (partial.keyBegin() % fold().cellKeys() != 0) {
        return "a cut at key "
            + partial.keyBegin()
            + ", which is no multiple of "
            + fold().cellKeys();
      }
      if (partial.fold().vectorBits() != fold().vectorBits()) {
        return "vectors of %d and of %d bits"
            .formatted(fold().vectorBits(), partial.fold().vectorBits());
      }
    }
    return null;
  }

  /** What all have in common, but for the vector width. */
  public Fold fold() {
    return partials.getFirst().fold();
  }

  /** All states, in the order of their keys. */
  public List<State> states() {
    return states;
  }

  /** The type of the states: F32 or F64. */
  public DType dtype() {
    return partials.getFirst().outputs().dtype();
  }

  /** How many rows there are: queries of all heads and sequences. */
  public long rows() {
    return Rows.count(partials.getFirst().outputs().select(0, 0));
  }

  /** The head dimension of values. */
  public int valueDim() {
    return Math.toIntExact(partials.getFirst().outputs().shape(-1));
  }

  /** Whether the first key is among those that are covered, beside which sinks are counted. */
  public boolean hasFirstKey() {
    return partials.getFirst().keyBegin() == 0;
  }

  /** The sink of a row's head, or -inf: there is none, or another partial counts it. */
  public double sink(long row) {
    Tensor sinks = partials.getFirst().sinks();
    if (sinks == null || !hasFirstKey()) {
      return Double.NEGATIVE_INFINITY;
    }
    long[] shape = partials.getFirst().rowShape();
    long head = row / Math.max(1, shape[shape.length - 1]) % sinks.shape(0);
    return sinks.at(head * sinks.stride(0));
  }
}
