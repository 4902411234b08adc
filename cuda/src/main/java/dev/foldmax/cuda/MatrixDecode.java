package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;

import dev.foldmax.DType;
import dev.foldmax.spi.AttentionCall;
import java.lang.foreign.MemorySegment;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Launches decode.cu: F16 or BF16 on matrix units. */
final class MatrixDecode extends SplitDecode {
  private static final int WARPS = 4;
  private static final int WARP_KEYS = 16;
  private static final int MOST_STAGES = 3;
  private static final int LEAST_STAGES = 2;
  private static final int MERGED_ROWS = 4;
  private static final int PITCH_ELEMENTS = 64;
  private static final int FEW_ROWS = 4;
  private static final int SOME_ROWS = 8;
  private static final int MANY_ROWS = 16;

  /** Above this, a thread has no registers for twice the rows. */
  private static final int MOST_DIMS_OF_MANY_ROWS = 256;

  /** LAZY's threshold that leaves room in F16: weights up to 2^15 of 65504. */
  private static final float MOST_TAU_OF_F16 = 15;

  private static final long TAU = AttentionArguments.offset("tau");

  private boolean isHalf;

  @Override
  public String name() {
    return "decode on matrix units";
  }

  @Override
  public @Nullable String declines(AttentionCall call, Device device) {
    DType type = call.q().dtype();
    boolean isOneType =
        (type == DType.F16 || type == DType.BF16)
            && call.keyValues().keys().dtype() == type
            && call.keyValues().values().dtype() == type
            && call.keyValues().keyScales() == null
            && call.keyValues().valueScales() == null;
    if (!isOneType) {
      return "takes queries, keys and values of F16, or all of BF16, without scales";
    }
    if (Math.max(call.keyDim(), call.valueDim()) > MOST_DIM) {
      return "takes head dimensions up to " + MOST_DIM;
    }
    int keyDim = HeadDimensions.roundUp(call.keyDim());
    int valueDim = HeadDimensions.roundUp(call.valueDim());
    return allSharedBytes(keyDim, valueDim, LEAST_STAGES) > device.sharedBytes()
        ? "needs more shared memory for these head dimensions than the device has"
        : null;
  }

  /** What a block needs, with room for its fixed part (struct CellStates) in either form. */
  private static int allSharedBytes(int keyDim, int valueDim, int stages) {
    int merged = WARPS * MERGED_ROWS * valueDim * Float.BYTES;
    int levels = mostLevels(FEW_ROWS) * FEW_ROWS * valueDim * Float.BYTES;
    int sumsAndPoison = 2048;
    return stageBytes(keyDim, valueDim) * stages + merged + levels + sumsAndPoison;
  }

  private static int stageBytes(int keyDim, int valueDim) {
    return WARPS * WARP_KEYS * (pitchBytes(keyDim) + pitchBytes(valueDim));
  }

  @Override
  String source() {
    return "decode.cu";
  }

  @Override
  Map<String, Integer> macros(Variant variant) {
    return Map.of(
        AttentionMacros.TYPE,
        variant.keyType(),
        AttentionMacros.KEY_DIM,
        variant.keyDim(),
        AttentionMacros.VALUE_DIM,
        variant.valueDim(),
        "FOLDMAX_ROWS",
        variant.rows(),
        "FOLDMAX_STAGES",
        variant.stages(),
        AttentionMacros.SCORES,
        variant.scores(),
        AttentionMacros.RESCALE,
        variant.rescale());
  }

  @Override
  Shape shape(Variant variant) {
    int sharedBytes = variant.stages() * stageBytes(variant.keyDim(), variant.valueDim());
    return new Shape(WARPS * 32, sharedBytes, mostLevels(variant.rows()));
  }

  /** MOST_LEVELS of decode.cu. */
  private static int mostLevels(int rows) {
    return rows == FEW_ROWS ? 3 : rows == SOME_ROWS ? 1 : 0;
  }

  private static int pitchBytes(int dim) {
    return Math.ceilDiv(dim, PITCH_ELEMENTS) * PITCH_ELEMENTS * Short.BYTES;
  }

  @Override
  int unitRows(AttentionCall call, long rows) {
    boolean fits = call.keyDim() + call.valueDim() <= MOST_DIMS_OF_MANY_ROWS;
    if (rows <= FEW_ROWS) {
      return FEW_ROWS;
    }
    return rows > SOME_ROWS && fits ? MANY_ROWS : SOME_ROWS;
  }

  @Override
  Variant variant(AttentionLaunch launch, int unitRows) {
    AttentionCall call = launch.call();
    isHalf = launch.q().dtype() == DType.F16;
    int type = AttentionArguments.typeNumber(launch.q().dtype());
    int keyDim = HeadDimensions.roundUp(call.keyDim());
    int valueDim = HeadDimensions.roundUp(call.valueDim());
    int stages =
        allSharedBytes(keyDim, valueDim, MOST_STAGES) <= launch.device().sharedBytes()
            ? MOST_STAGES
            : LEAST_STAGES;
    return new Variant(
        type,
        type,
        keyDim,
        valueDim,
        unitRows,
        stages,
        AttentionMacros.scores(call),
        rescale(call));
  }

  @Override
  void prepare(MemorySegment arguments) {
    if (isHalf) {
      float tau = arguments.get(JAVA_FLOAT, TAU);
      arguments.set(JAVA_FLOAT, TAU, Math.min(tau, MOST_TAU_OF_F16));
    }
  }
}
