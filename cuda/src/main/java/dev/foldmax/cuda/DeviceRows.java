package dev.foldmax.cuda;

import dev.foldmax.DType;

/**
 * Rows on the device as kernels of rows take them: a row's elements side by side, rows a fixed
 * distance apart, each at a multiple of 16 bytes.
 *
 * @param address of the first element
 * @param type of the elements
 * @param rows how many
 * @param columns elements of a row
 * @param stride from row to row, in elements
 */
record DeviceRows(long address, DType type, long rows, long columns, long stride) {
  long addressOf(long row) {
    return address + row * stride * type.bytes();
  }
}
