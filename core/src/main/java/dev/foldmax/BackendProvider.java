package dev.foldmax;

/**
 * A source of backends outside this module, found by {@link java.util.ServiceLoader}: declare it in
 * {@code module-info} and in {@code META-INF/services/dev.foldmax.BackendProvider}.
 */
public interface BackendProvider {
  /** The name by which the backend is asked for, such as {@code cuda}. */
  String name();

  /** Whether {@link #open} would succeed. It never throws. */
  Availability availability();

  /**
   * Opens a backend.
   *
   * @param device the number of the device, from 0
   * @throws BackendUnavailableException if it is absent or unusable
   */
  Backend open(int device);
}
