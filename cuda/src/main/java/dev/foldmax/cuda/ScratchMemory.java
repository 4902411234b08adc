package dev.foldmax.cuda;

import dev.foldmax.spi.DeviceMemory;

/**
 * Device memory of one call, behind tensors that never leave it.
 *
 * @param device in words
 * @param address of the first byte
 * @param byteSize the size
 */
record ScratchMemory(String device, long address, long byteSize) implements DeviceMemory {}
