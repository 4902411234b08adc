package dev.foldmax.cuda;

import dev.foldmax.spi.AttentionCall;
import org.jspecify.annotations.Nullable;

/**
 * A family of attention kernels: one source in the resources and the rules by which it is launched.
 * Instances belong to one backend and are used by one thread at a time, so they may keep {@link
 * Parameters} and the like.
 */
interface AttentionKernel {
  /** The family's name and what it is, as {@link dev.foldmax.Backend#explain} shows it. */
  String name();

  /**
   * Why this family does not serve a call, as a sentence, or null where it does. It follows from
   * the types, whether there are scales, the head dimensions, the dialect of rescaling and the
   * device alone, so that a row has the same bits in any company: never from layout, batch or
   * lengths. The phase has been looked at before. Asked once for each of these, then remembered.
   *
   * @param call perhaps without outputs
   */
  @Nullable String declines(AttentionCall call, Device device);

  /** Enqueues the work of a call that this family serves. */
  void launch(AttentionLaunch launch);
}
