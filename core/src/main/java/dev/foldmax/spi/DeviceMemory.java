package dev.foldmax.spi;

/**
 * Memory that only a device can address: what a {@link dev.foldmax.Tensor} of such a device lies
 * in. It lives as long as the {@link java.lang.foreign.Arena} it was allocated in, and no longer
 * than its backend. Implementations are safe for use by several threads.
 */
public interface DeviceMemory {
  /** The device, in words: {@code cuda device 0}. */
  String device();

  /** The size in bytes. */
  long byteSize();

  /**
   * The address of the first byte, for the device's own use; no host instruction can go there.
   *
   * @throws IllegalStateException after the arena or the backend was closed
   * @throws WrongThreadException if the arena is confined to another thread
   */
  long address();
}
