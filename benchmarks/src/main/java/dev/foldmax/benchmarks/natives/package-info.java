/**
 * The two native libraries that Foldmax is compared with, called through the foreign function
 * interface: {@link dev.foldmax.benchmarks.natives.TorchLibrary} is PyTorch's and {@link
 * dev.foldmax.benchmarks.natives.OnnxLibrary} is ONNX Runtime's. Only what the benchmarks call.
 *
 * <p>Neither needs a jar to compile or a glue library to run, so the benchmarks can use whatever
 * build of them a machine has.
 */
@NullMarked
package dev.foldmax.benchmarks.natives;

import org.jspecify.annotations.NullMarked;
