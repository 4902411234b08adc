package dev.foldmax.cuda;

import dev.foldmax.Rescale;
import dev.foldmax.spi.AttentionCall;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** attention_f32.cu: many queries in float32 multiply-adds, stored in any types. */
final class F32Prefill implements AttentionKernel {
  private final TaskLauncher launcher = new TaskLauncher("attention_f32.cu");

  @Override
  public String name() {
    return "prefill in float32";
  }

  @Override
  public @Nullable String declines(AttentionCall call, Device device) {
    return null;
  }

  @Override
  public void launch(AttentionLaunch launch) {
    AttentionCall call = launch.call();
    launcher.launch(
        launch,
        Map.of(
            AttentionMacros.KEY_DIM,
            HeadDimensions.roundUp(call.keyDim()),
            AttentionMacros.VALUE_DIM,
            HeadDimensions.roundUp(call.valueDim()),
            AttentionMacros.RESCALE,
            AttentionMacros.rescale(call, Rescale.ON_NEW_MAX),
            AttentionMacros.SHARED,
            launch.device().sharedBytes()));
  }
}
