/** Tensors in {@code .npy} and {@code .safetensors} files, memory-mapped. */
@NullMarked
package dev.foldmax.io;

import org.jspecify.annotations.NullMarked;
