package dev.foldmax.spi;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.util.Arrays;
import java.util.List;
import java.util.StringJoiner;
import org.jspecify.annotations.Nullable;

/** Checks and addresses the rows of a tensor: its last dimension, for every index of the others. */
public final class Rows {
  private Rows() {}

  /** The number of rows: the product of all dimensions but the last. */
  public static long count(Tensor tensor) {
    long rows = 1;
    for (int axis = 0; axis < tensor.rank() - 1; axis++) {
      rows *= tensor.shape(axis);
    }
    return rows;
  }

  /**
   * The offset, in elements, of a row's first element.
   *
   * @param row its number in row-major order of the leading dimensions
   */
  public static long offset(Tensor tensor, long row) {
    return offset(tensor, row, tensor.rank() - 2);
  }

  /** The offset, in elements, of an element by its number in row-major order of all dimensions. */
  public static long elementOffset(Tensor tensor, long element) {
    return offset(tensor, element, tensor.rank() - 1);
  }

  private static long offset(Tensor tensor, long number, int lastAxis) {
    long rest = number;
    long offset = 0;
    for (int axis = lastAxis; axis >= 0; axis--) {
      long size = tensor.shape(axis);
      offset += rest % size * tensor.stride(axis);
      rest /= size;
    }
    return offset;
  }

  /** Checks the arguments of softmax and logSoftmax. */
  public static void checkMap(Tensor x, Tensor out) {
    checkInput("x", x);
    if (!out.dtype().isFloating() || !out.hasShapeOf(x)) {
      throw new IllegalArgumentException(
          "out: expected a floating tensor of the shape of x " + x + ", got " + out);
    }
    checkWritable("out", out);
    checkApartOrSame("out", out, "x", x);
  }

  /** Checks the arguments of logSumExp. */
  public static void checkReduction(Tensor x, Tensor out) {
    checkInput("x", x);
    if (!out.dtype().isFloating() || !isReductionOf(x, out)) {
      throw new IllegalArgumentException(
          "out: expected a floating tensor of the shape of x "
              + x
              + " without its last dimension, got "
              + out);
    }
    checkWritable("out", out);
    checkApart("out", out, "x", x);
  }

  /** Checks the arguments of sample. */
  public static void checkSample(Tensor logits, Tensor indices) {
    checkInput("logits", logits);
    if (!indices.dtype().isIndex() || !isReductionOf(logits, indices)) {
      throw new IllegalArgumentException(
          "indices: expected I32 or I64 of the shape of logits "
              + logits
              + " without its last dimension, got "
              + indices);
    }
    checkIndexRange(logits, indices);
    checkWritable("indices", indices);
    checkApart("indices", indices, "logits", logits);
  }

  /** Checks the arguments of topK. */
  public static void checkTopK(
      Tensor x, Tensor values, Tensor indices, @Nullable Tensor probabilities) {
    checkInput("x", x);
    long[] leading = Arrays.copyOf(x.shape(), x.rank() - 1);
    boolean fits =
        values.rank() == x.rank()
            && Arrays.equals(Arrays.copyOf(values.shape(), x.rank() - 1), leading)
            && values.shape(-1) <= x.shape(-1);
    if (!values.dtype().isFloating() || !fits) {
      throw new IllegalArgumentException(
          "values: expected a floating tensor of the shape of x "
              + x
              + " with k, at most "
              + x.shape(-1)
              + ", in place of the last dimension, got "
              + values);
    }
    if (!indices.dtype().isIndex() || !indices.hasShapeOf(values)) {
      throw new IllegalArgumentException(
          "indices: expected I32 or I64 of the shape of values " + values + ", got " + indices);
    }
    checkIndexRange(x, indices);
    checkWritable("values", values);
    checkWritable("indices", indices);
    checkApart("values", values, "x", x);
    checkApart("indices", indices, "x", x);
    checkApart("indices", indices, "values", values);
    if (probabilities != null) {
      if (!probabilities.dtype().isFloating() || !probabilities.hasShapeOf(values)) {
        throw new IllegalArgumentException(
            "probabilities: expected a floating tensor of the shape of values "
                + values
                + ", got "
                + probabilities);
      }
      checkWritable("probabilities", probabilities);
      checkApart("probabilities", probabilities, "x", x);
      checkApart("probabilities", probabilities, "values", values);
      checkApart("probabilities", probabilities, "indices", indices);
    }
  }

  /** Checks the arguments of merge. */
  public static void checkMerge(
      List<Tensor> outputs, List<Tensor> lses, Tensor out, @Nullable Tensor lse) {
    if (outputs.isEmpty() || lses.size() != outputs.size()) {
      throw new IllegalArgumentException(
          "outputs, lses: expected as many of both and at least one, got "
              + outputs.size()
              + " and "
              + lses.size());
    }
    for (int i = 0; i < outputs.size(); i++) {
      Tensor output = outputs.get(i);
      if (!output.dtype().isFloating() || output.rank() == 0 || !output.hasShapeOf(out)) {
        throw new IllegalArgumentException(
            "outputs: expected floating tensors of the shape of out "
                + out
                + ", got "
                + output
                + " as number "
                + i);
      }
      if (!lses.get(i).dtype().isFloating() || !isReductionOf(out, lses.get(i))) {
        throw new IllegalArgumentException(
            "lses: expected floating tensors of the shape of out "
                + out
                + " without its last dimension, got "
                + lses.get(i)
                + " as number "
                + i);
      }
    }
    if (!out.dtype().isFloating()) {
      throw new IllegalArgumentException("out: expected a floating tensor, got " + out);
    }
    checkWritable("out", out);
    for (int i = 0; i < outputs.size(); i++) {
      checkApartOrSame("out", out, "outputs, number " + i, outputs.get(i));
      checkApart("out", out, "lses, number " + i, lses.get(i));
    }
    if (lse != null) {
      if (!lse.dtype().isFloating() || !isReductionOf(out, lse)) {
        throw new IllegalArgumentException(
            "lse: expected a floating tensor of the shape of out "
                + out
                + " without its last dimension, got "
                + lse);
      }
      checkWritable("lse", lse);
      checkApart("lse", lse, "out", out);
      for (int i = 0; i < outputs.size(); i++) {
        checkApart("lse", lse, "outputs, number " + i, outputs.get(i));
        checkApartOrSame("lse", lse, "lses, number " + i, lses.get(i));
      }
    }
  }

  /** Checks that a tensor can be written: not read-only, and no element at two indices. */
  public static void checkWritable(String name, Tensor tensor) {
    if (tensor.isOnHost() && tensor.segment().isReadOnly()) {
      throw new IllegalArgumentException(name + ": " + tensor + " is read-only");
    }
    if (tensor.elements() == 0) {
      return;
    }
    for (int axis = 0; axis < tensor.rank(); axis++) {
      if (tensor.shape(axis) > 1 && tensor.stride(axis) == 0) {
        throw new IllegalArgumentException(
            name
                + ": "
                + tensor
                + " repeats its elements along axis "
                + axis
                + " (stride 0) and cannot be written");
      }
    }
    if (Overlap.isRepeating(tensor)) {
      throw new IllegalArgumentException(
          name
              + ": "
              + tensor
              + " has an element at two indices (strides "
              + strides(tensor)
              + ") and cannot be written");
    }
  }

  private static String strides(Tensor tensor) {
    StringJoiner strides = new StringJoiner(", ");
    for (int axis = 0; axis < tensor.rank(); axis++) {
      strides.add(Long.toString(tensor.stride(axis)));
    }
    return strides.toString();
  }

  /**
   * Checks that an output does not share memory with another tensor. Views that interleave without
   * a byte in common pass. So do contrived ones, of many dimensions that do not nest, whose bytes
   * it would take too long to compare.
   */
  public static void checkApart(String outName, Tensor out, String inName, Tensor in) {
    if (Overlap.isShared(out, in)) {
      throw new IllegalArgumentException(
          outName + ": " + out + " shares memory with " + inName + " " + in);
    }
  }

  /** The same, but an output may also be the other tensor itself. */
  private static void checkApartOrSame(String outName, Tensor out, String inName, Tensor in) {
    if (!isSameView(out, in)) {
      checkApart(outName, out, inName, in);
    }
  }

  /** Whether each index names the same element of both. */
  private static boolean isSameView(Tensor a, Tensor b) {
    if (a.dtype() != b.dtype() || !a.hasShapeOf(b)) {
      return false;
    }
    for (int axis = 0; axis < a.rank(); axis++) {
      if (a.shape(axis) > 1 && a.stride(axis) != b.stride(axis)) {
        return false;
      }
    }
    return Overlap.startTogether(a, b);
  }

  private static void checkInput(String name, Tensor x) {
    if (!x.dtype().isFloating() || x.rank() == 0) {
      throw new IllegalArgumentException(
          name + ": expected F64, F32, F16 or BF16 with at least one dimension, got " + x);
    }
  }

  private static void checkIndexRange(Tensor x, Tensor indices) {
    if (indices.dtype() == DType.I32 && x.shape(-1) > Integer.MAX_VALUE) {
      throw new IllegalArgumentException(
          "indices: expected I64 for rows of " + x.shape(-1) + " elements, got " + indices);
    }
  }

  private static boolean isReductionOf(Tensor x, Tensor out) {
    if (out.rank() != x.rank() - 1) {
      return false;
    }
    for (int axis = 0; axis < out.rank(); axis++) {
      if (out.shape(axis) != x.shape(axis)) {
        return false;
      }
    }
    return true;
  }
}
