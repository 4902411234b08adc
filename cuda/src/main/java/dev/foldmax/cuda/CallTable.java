package dev.foldmax.cuda;

import dev.foldmax.spi.AttentionCall;
import java.lang.foreign.MemorySegment;

/**
 * A table that goes to the device with a call, as far as it follows from the call's lengths,
 * offsets and block table: what a {@link CudaGraph} writes anew before it repeats the call. Two
 * that are equal write the same of the same.
 */
interface CallTable {
  /** How large the table is: whatever the lengths are, if their numbers of queries stay. */
  long byteSize(AttentionCall call);

  /**
   * Writes the table.
   *
   * @param target of {@link #byteSize} bytes, all zero
   */
  void write(AttentionCall call, MemorySegment target);
}
