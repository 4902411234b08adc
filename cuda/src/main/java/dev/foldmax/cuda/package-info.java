/**
 * Attention and softmax on NVIDIA GPUs: pure Java on the CUDA driver and its run-time compiler.
 *
 * <p>Read in this order: {@link dev.foldmax.cuda.CudaBackend}, the verbs; {@code AttentionKernel},
 * what a family of kernels is to the backend; {@code AttentionArguments}, what the kernels are
 * given; {@code Workplace} and {@code LaunchQueue}, how work gets to the device; {@code Kernels},
 * how sources become code; {@code CudaDriver} and {@code Nvrtc}, the bindings. The kernels
 * themselves are CUDA C++ in the resources of this package; {@code state.cuh} among them holds the
 * five lines of the algorithm.
 */
@NullMarked
package dev.foldmax.cuda;

import org.jspecify.annotations.NullMarked;
