/** Tensors in {@code .npy} and {@code .safetensors} files, memory-mapped. */
module dev.foldmax.io {
  requires transitive dev.foldmax;
  requires static org.jspecify;
  requires tools.jackson.core;

  exports dev.foldmax.io;
}
