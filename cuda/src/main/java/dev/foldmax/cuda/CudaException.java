package dev.foldmax.cuda;

/**
 * The CUDA driver or its compiler reports an error. The message has the function, CUDA's own name
 * for the error and its text.
 */
public final class CudaException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final int code;

  CudaException(String message, int code) {
    super(message);
    this.code = code;
  }

  /** The driver's number for the error (CUresult), or the compiler's (nvrtcResult). */
  public int code() {
    return code;
  }
}
