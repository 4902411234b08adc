package dev.foldmax;

/** A backend cannot be opened on this machine; the message says why and what to do. */
public final class BackendUnavailableException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** With a sentence that says why and what to do. */
  public BackendUnavailableException(String message) {
    super(message);
  }
}
