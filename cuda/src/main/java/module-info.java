/** The CUDA backend. */
module dev.foldmax.cuda {
  requires transitive dev.foldmax;
  requires static org.jspecify;

  exports dev.foldmax.cuda;

  provides dev.foldmax.BackendProvider with
      dev.foldmax.cuda.CudaProvider;
}
