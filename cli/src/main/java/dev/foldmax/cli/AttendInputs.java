package dev.foldmax.cli;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.util.Arrays;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The tensors of an attention as the files have them, checked against one another. */
final class AttendInputs {
  private final Map<Role, Source> sources;
  private final Layout layout;
  private final long batch;
  private final long heads;
  private final long queries;
  private final long keyHeads;
  private final long keys;

  /**
   * Checks what the files hold.
   *
   * @param sources with q, k and v
   * @param layout the order of dimensions of q, k, v and expected
   * @param totalKeys how many keys bias and mask are of; null for as many as k has
   * @throws Failure that names the file, the tensor, its shape and what was expected
   */
  AttendInputs(Map<Role, Source> sources, Layout layout, @Nullable Long totalKeys) {
    this.sources = sources;
    this.layout = layout;
    checkRanks();
    Tensor q = view(Role.Q);
    Tensor k = view(Role.K);
    this.batch = q.shape(0);
    this.heads = q.shape(1);
    this.queries = q.shape(2);
    this.keyHeads = k.shape(1);
    this.keys = totalKeys == null ? k.shape(2) : totalKeys;
    checkKeysAndValues(q, k, view(Role.V));
    checkScores();
    checkScale(Role.K_SCALE, Role.K);
    checkScale(Role.V_SCALE, Role.V);
    checkExpected();
  }

  private void checkRanks() {
    for (Role role : new Role[] {Role.Q, Role.K, Role.V}) {
      Source source = get(role);
      int rank = source.tensor().rank();
      if (rank < 2 || rank > 4) {
        throw source.expected(layout.shapes());
      }
      if (rank != get(Role.Q).tensor().rank()) {
        throw source.expected("as many dimensions as " + get(Role.Q).describe());
      }
      boolean quantised = role != Role.Q && source.tensor().dtype() == DType.I8;
      if (!source.tensor().dtype().isFloating() && !quantised) {
        throw source.expected(
            "F64, F32, F16 or BF16" + (role == Role.Q ? "" : ", or I8 with scales"));
      }
    }
  }

  private void checkKeysAndValues(Tensor q, Tensor k, Tensor v) {
    if (k.shape(0) != batch) {
      throw get(Role.K).expected("batch " + batch + " as " + get(Role.Q).describe());
    }
    if (k.shape(3) != q.shape(3)) {
      throw get(Role.K).expected("head dimension " + q.shape(3) + " as " + get(Role.Q).describe());
    }
    if (keyHeads == 0 ? heads != 0 : heads % keyHeads != 0) {
      throw get(Role.K)
          .expected(
              "a number of heads that divides the " + heads + " of " + get(Role.Q).describe());
    }
    if (!Arrays.equals(Arrays.copyOf(k.shape(), 3), Arrays.copyOf(v.shape(), 3))) {
      throw get(Role.V)
          .expected("the shape of " + get(Role.K).describe() + " but for the last dimension");
    }
  }

  private void checkScores() {
    Source bias = sources.get(Role.BIAS);
    if (bias != null) {
      if (!bias.tensor().dtype().isFloating()) {
        throw bias.expected("F64, F32, F16 or BF16 (a boolean tensor is a mask, see --mask)");
      }
      checkBroadcast(bias);
    }
    Source mask = sources.get(Role.MASK);
    if (mask != null) {
      if (mask.tensor().dtype() != DType.BOOL) {
        throw mask.expected(
            "booleans, true where a key is visible"
                + (mask.tensor().dtype().isFloating()
                    ? " (numbers to add are a bias, see --bias)"
                    : " (of a NumPy array of 0 and 1: astype(bool))"));
      }
      checkBroadcast(mask);
    }
    Source sinks = sources.get(Role.SINKS);
    if (sinks != null) {
      check(sinks, "(" + heads + "), one for each query head", heads);
    }
    Source slopes = sources.get(Role.SLOPES);
    if (slopes != null && slopes.tensor().rank() == 2) {
      check(slopes, "(" + batch + ", " + heads + "), (batch, query heads)", batch, heads);
    } else if (slopes != null) {
      check(slopes, "(" + heads + "), one for each query head", heads);
    }
  }

  private void checkBroadcast(Source source) {
    if (!source.tensor().broadcastsTo(batch, heads, queries, keys)) {
      throw source.expected(
          "what broadcasts to (batch "
              + batch
              + ", query heads "
              + heads
              + ", queries "
              + queries
              + ", keys "
              + keys
              + ")");
    }
  }

  private void checkScale(Role role, Role scaled) {
    Source scale = sources.get(role);
    if (scale != null) {
      long[] full = {batch, keyHeads, view(Role.K).shape(2)};
      long[] shape = Arrays.copyOfRange(full, 4 - get(scaled).tensor().rank(), 3);
      check(scale, Quantity.shape(shape) + ", one for each row of " + scaled.tensorName(), shape);
    } else if (get(scaled).tensor().dtype() == DType.I8) {
      throw get(scaled)
          .expected(
              "floating numbers, or scales: "
                  + role.option()
                  + " or a tensor "
                  + role.tensorName());
    }
  }

  private void checkExpected() {
    Source expected = sources.get(Role.EXPECTED);
    if (expected != null) {
      long[] shape = outputShape();
      check(expected, Quantity.shape(shape) + " as the output", shape);
    }
  }

  private static void check(Source source, String expectation, long... shape) {
    if (!source.tensor().dtype().isFloating() || !Arrays.equals(source.tensor().shape(), shape)) {
      throw source.expected("a floating type and shape " + expectation);
    }
  }

  private Source get(Role role) {
    Source source = sources.get(role);
    if (source == null) {
      throw new IllegalStateException("no " + role);
    }
    return source;
  }

  /** The number of keys of the whole attention. */
  long keys() {
    return keys;
  }

  /** A failure that says how many keys were expected. */
  Failure expectedKeys(String expectation) {
    return get(Role.K).expected(expectation);
  }

  /** A tensor as its file has it, or null. */
  @Nullable Tensor tensor(Role role) {
    Source source = sources.get(role);
    return source == null ? null : source.tensor();
  }

  /** One of q, k and v as (batch, heads, length, dim). */
  Tensor view(Role role) {
    return layout.view(get(role).tensor());
  }

  /** The expected output as (batch, heads, length, dim), or null. */
  @Nullable Tensor expected() {
    Tensor tensor = tensor(Role.EXPECTED);
    return tensor == null ? null : layout.view(tensor);
  }

  /** The scales of k or v as (batch, key heads, keys), or null. */
  @Nullable Tensor scales(Role role) {
    Tensor tensor = tensor(role);
    return tensor == null ? null : tensor.expand(batch, keyHeads, view(Role.K).shape(2));
  }

  /** The output's shape in the layout of the files. */
  long[] outputShape() {
    long[] shape = get(Role.Q).tensor().shape();
    shape[shape.length - 1] = get(Role.V).tensor().shape(-1);
    return shape;
  }

  /** The output's type. */
  DType outputType() {
    return get(Role.Q).tensor().dtype();
  }

  /** The logsumexp's type: F64 where some of q, k and v is. */
  DType lseType() {
    for (Role role : new Role[] {Role.Q, Role.K, Role.V}) {
      if (get(role).tensor().dtype() == DType.F64) {
        return DType.F64;
      }
    }
    return DType.F32;
  }
}
