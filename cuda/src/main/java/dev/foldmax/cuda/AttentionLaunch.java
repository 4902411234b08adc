package dev.foldmax.cuda;

import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import java.lang.foreign.MemorySegment;
import java.util.Map;

/**
 * One call as a family of kernels gets it: every tensor on the device and in the form that
 * arguments.cuh asks for, the arguments written, and what a launch needs.
 *
 * @param call what was asked for; its tensors may lie on the host or have other strides, so only
 *     its numbers are for launches
 * @param arguments struct AttentionArguments, to be copied into the kernel's parameters
 * @param q as struct Matrix describes: 4 dimensions, rows at multiples of 16 bytes
 * @param k likewise
 * @param v likewise
 * @param mostQueries of any sequence of this launch, at least 1
 * @param mostKeys of any sequence
 * @param workplace where the work goes
 */
record AttentionLaunch(
    AttentionCall call,
    MemorySegment arguments,
    Tensor q,
    Tensor k,
    Tensor v,
    long mostQueries,
    long mostKeys,
    Workplace workplace) {
  Device device() {
    return workplace.device();
  }

  Stream stream() {
    return workplace.stream();
  }

  /** See {@link Kernels#get}. */
  Kernel kernel(String source, String entry, Map<String, Integer> macros) {
    return workplace.kernels().get(source, entry, macros);
  }

  /** Uninitialised device memory for this launch alone; see {@link Workplace#scratch}. */
  long scratch(long bytes) {
    return workplace.scratch(bytes);
  }
}
