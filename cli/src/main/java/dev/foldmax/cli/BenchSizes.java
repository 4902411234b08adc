package dev.foldmax.cli;

import dev.foldmax.DType;

/**
 * What is measured: large enough that fixed costs vanish, small enough for a minute.
 *
 * @param dtype of queries, keys and values
 * @param rows of the softmax
 * @param rowLength elements of each, float32
 * @param prefillHeads heads of the prompt
 * @param prefillLength tokens of the prompt
 * @param decodeBatch sequences that each decode a token
 * @param decodeLength keys of each
 * @param callsOfAJob calls between two looks at the clock, where calls only enqueue
 */
record BenchSizes(
    DType dtype,
    int rows,
    int rowLength,
    int prefillHeads,
    int prefillLength,
    int decodeBatch,
    int decodeLength,
    int callsOfAJob) {
  static final int DIM = 128;
  static final int DECODE_HEADS = 32;
  static final int DECODE_KEY_HEADS = 8;

  static final BenchSizes CPU = new BenchSizes(DType.F32, 8192, 4096, 8, 2048, 1, 16384, 1);
  static final BenchSizes GPU = new BenchSizes(DType.BF16, 16384, 4096, 16, 8192, 16, 8192, 10);
}
