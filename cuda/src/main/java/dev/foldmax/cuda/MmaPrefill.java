package dev.foldmax.cuda;

import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Rescale;
import dev.foldmax.spi.AttentionCall;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** attention_mma.cu: many queries on matrix units, F16 or BF16. */
final class MmaPrefill implements AttentionKernel {
  private static final long MOST_SLICE = 256;
  private static final long NOTES_BYTES = 11 << 10;

  private final TaskLauncher launcher = new TaskLauncher("attention_mma.cu");

  @Override
  public String name() {
    return "prefill on matrix units (mma.sync)";
  }

  @Override
  public @Nullable String declines(AttentionCall call, Device device) {
    KeyValues keyValues = call.keyValues();
    DType type = call.q().dtype();
    boolean is16Bit = type == DType.F16 || type == DType.BF16;
    if (!is16Bit || keyValues.keys().dtype() != type || keyValues.values().dtype() != type) {
      return "queries, keys and values have to be all F16 or all BF16 for matrix units, not "
          + "%s, %s and %s".formatted(type, keyValues.keys().dtype(), keyValues.values().dtype());
    }
    if (keyValues.keyScales() != null || keyValues.valueScales() != null) {
      return "takes keys and values without scales";
    }
    long least = leastSharedBytes(call);
    return least > device.sharedBytes()
        ? "Dqk %d and Dv %d take %d bytes of shared memory, and a block has at most %d"
            .formatted(call.keyDim(), call.valueDim(), least, device.sharedBytes())
        : null;
  }

  /**
   * What the smallest tiles of the kernel take: 64 queries, 2 times 16 keys, 2 times 16 slices of
   * values, and no more than {@link #NOTES_BYTES} beside them.
   */
  private static long leastSharedBytes(AttentionCall call) {
    long keyDim = HeadDimensions.roundUp(call.keyDim());
    long slice = Math.min(HeadDimensions.roundUp(call.valueDim()), MOST_SLICE);
    return Short.BYTES * ((64 + 2 * 16) * keyDim + 2 * 16 * slice) + NOTES_BYTES;
  }

  @Override
  public void launch(AttentionLaunch launch) {
    AttentionCall call = launch.call();
    launcher.launch(
        launch,
        Map.of(
            AttentionMacros.TYPE,
            AttentionArguments.typeNumber(launch.q().dtype()),
            AttentionMacros.KEY_DIM,
            HeadDimensions.roundUp(call.keyDim()),
            AttentionMacros.VALUE_DIM,
            HeadDimensions.roundUp(call.valueDim()),
            AttentionMacros.SCORES,
            AttentionMacros.scores(call),
            AttentionMacros.RESCALE,
            AttentionMacros.rescale(call, Rescale.ON_NEW_MAX),
            AttentionMacros.SHARED,
            launch.device().sharedBytes()));
  }
}
