/**
 * The side of Foldmax of the GPU benchmark, {@code benchmarks/gpu/compare.py}: {@link
 * dev.foldmax.benchmarks.gpu.GpuBenchmark} prepares and times what that script asks for.
 */
@NullMarked
package dev.foldmax.benchmarks.gpu;

import org.jspecify.annotations.NullMarked;
