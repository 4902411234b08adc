package dev.foldmax.cuda;

import dev.foldmax.DType;
import dev.foldmax.spi.AttentionCall;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Launches decode_f32.cu: float32 multiply-adds over keys and values of any type but F64. */
final class FloatDecode extends SplitDecode {
  private static final int ROWS = 8;
  private static final int WARP_KEYS = 32;
  private static final int PITCH_BYTES = 128;
  private static final int MOST_LEVELS = 2;
  private static final int MERGED_ROWS = 4;

  /** Above this, a block has two warps in place of four. */
  private static final int MOST_BYTES_OF_FOUR_WARPS = 160 << 10;

  @Override
  public String name() {
    return "decode in float32";
  }

  @Override
  public @Nullable String declines(AttentionCall call, Device device) {
    if (Math.max(call.keyDim(), call.valueDim()) > MOST_DIM) {
      return "takes head dimensions up to " + MOST_DIM;
    }
    Shape shape =
        shape(
            call.keyValues().keys().dtype(),
            call.keyValues().values().dtype(),
            HeadDimensions.roundUp(call.keyDim()),
            HeadDimensions.roundUp(call.valueDim()));
    return shape.sharedBytes() + fixedBytes(call, shape) > device.sharedBytes()
        ? "needs more shared memory for these head dimensions than the device has"
        : null;
  }

  /** What a block needs beside its tiles: struct Shared of decode_f32.cu, rounded up. */
  private static int fixedBytes(AttentionCall call, Shape shape) {
    int warps = shape.threads() / 32;
    int keyDim = HeadDimensions.roundUp(call.keyDim());
    int valueDim = HeadDimensions.roundUp(call.valueDim());
    int outputs = warps * MERGED_ROWS * valueDim;
    int levels = MOST_LEVELS * ROWS * valueDim;
    int weights = warps * WARP_KEYS * ROWS;
    int others = 512;
    return Float.BYTES * (outputs + levels + ROWS * keyDim + weights + others);
  }

  @Override
  String source() {
    return "decode_f32.cu";
  }

  @Override
  Map<String, Integer> macros(Variant variant) {
    return Map.of(
        "FOLDMAX_KEY_TYPE",
        variant.keyType(),
        "FOLDMAX_VALUE_TYPE",
        variant.valueType(),
        AttentionMacros.KEY_DIM,
        variant.keyDim(),
        AttentionMacros.VALUE_DIM,
        variant.valueDim(),
        AttentionMacros.SCORES,
        variant.scores(),
        AttentionMacros.RESCALE,
        variant.rescale());
  }

  @Override
  Shape shape(Variant variant) {
    return shape(
        typeOf(variant.keyType()),
        typeOf(variant.valueType()),
        variant.keyDim(),
        variant.valueDim());
  }

  private static DType typeOf(int number) {
    for (DType type : new DType[] {DType.F32, DType.F16, DType.BF16}) {
      if (AttentionArguments.typeNumber(type) == number) {
        return type;
      }
    }
    return DType.I8;
  }

  private static Shape shape(DType keyType, DType valueType, int keyDim, int valueDim) {
    int warpBytes = WARP_KEYS * (pitchBytes(keyType, keyDim) + pitchBytes(valueType, valueDim));
    int warps = 4 * warpBytes <= MOST_BYTES_OF_FOUR_WARPS ? 4 : 2;
    return new Shape(warps * 32, warps * warpBytes, MOST_LEVELS);
  }

  private static int pitchBytes(DType type, int dim) {
    return Math.ceilDiv(dim * type.bytes(), PITCH_BYTES) * PITCH_BYTES;
  }

  @Override
  int unitRows(AttentionCall call, long rows) {
    return ROWS;
  }

  @Override
  Variant variant(AttentionLaunch launch, int unitRows) {
    AttentionCall call = launch.call();
    return new Variant(
        AttentionArguments.typeNumber(launch.k().dtype()),
        AttentionArguments.typeNumber(launch.v().dtype()),
        HeadDimensions.roundUp(call.keyDim()),
        HeadDimensions.roundUp(call.valueDim()),
        unitRows,
        1,
        AttentionMacros.scores(call),
        rescale(call));
  }
}
