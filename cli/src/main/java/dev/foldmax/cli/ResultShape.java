package dev.foldmax.cli;

import dev.foldmax.AttentionPartial;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** How the files of a result look that {@code attend} would have written, as its partials say. */
final class ResultShape {
  static final String LAYOUT = "layout";
  static final String RANK = "rank";
  static final String OUTPUT = "output";
  static final String LSE = "lse";

  private final @Nullable Layout layout; // null for a program's own
  private final long[] output;
  private final DType outputType;
  private final DType lseType;

  private ResultShape(@Nullable Layout layout, long[] output, DType outputType, DType lseType) {
    this.layout = layout;
    this.output = output;
    this.outputType = outputType;
    this.lseType = lseType;
  }

  /**
   * Of a checked partial. Those that programs made say nothing of files: their results take the
   * shape of the program's q, and F32, or F64 for states of it.
   *
   * @throws Failure if it says what is no shape
   */
  static ResultShape of(AttentionPartial partial, String file) {
    Map<String, String> definition = partial.definition();
    long[] shape = partial.outputShape();
    DType states = partial.outputs().dtype();
    if (!definition.containsKey(LAYOUT)) {
      return new ResultShape(null, shape, states, states);
    }
    try {
      Layout layout = Layout.valueOf(definition.get(LAYOUT).toUpperCase(Locale.ROOT));
      int rank = Integer.parseInt(definition.getOrDefault(RANK, ""));
      long[] inFile = shape.clone();
      if (layout == Layout.BLHD) {
        inFile[shape.length - 3] = shape[shape.length - 2];
        inFile[shape.length - 2] = shape[shape.length - 3];
      }
      return new ResultShape(
          layout,
          Arrays.copyOfRange(inFile, shape.length - rank, shape.length),
          DType.valueOf(definition.getOrDefault(OUTPUT, "")),
          DType.valueOf(definition.getOrDefault(LSE, "")));
    } catch (IllegalArgumentException | IndexOutOfBoundsException e) {
      throw new Failure(file + ": says of its result's file what cannot be: " + definition, e);
    }
  }

  /** The output of a file as the partials have it. */
  Tensor view(Tensor ofFile) {
    return layout == null ? ofFile : layout.view(ofFile);
  }

  /** The logsumexp of a file as the partials have it. */
  Tensor viewWithoutDim(Tensor ofFile) {
    return layout == null ? ofFile : layout.viewWithoutDim(ofFile);
  }

  /** The output's shape in a file. */
  long[] output() {
    return output.clone();
  }

  /** The output's type. */
  DType outputType() {
    return outputType;
  }

  /** The logsumexp's type. */
  DType lseType() {
    return lseType;
  }

  /** The logsumexp's shape in a file. */
  long[] lse() {
    return Arrays.copyOf(output, output.length - 1);
  }
}
