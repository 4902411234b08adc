// Softmax and its logarithm of rows that a block holds in registers: (rows, length) in F32, F16 or
// BF16; one read, one write.
//
// Options: FOLDMAX_TYPE, the type of x; FOLDMAX_THREADS of a row, a power of 2 from 32 on;
// FOLDMAX_PACKS of 16 bytes that each of them holds; FOLDMAX_LOG, 1 for the logarithm. The type of
// out is a run-time branch, F32, F16 or BF16. Which thread has an element follows from its index.
// The state (m, l) of state.cuh is that of a thread's elements first, then merges over lanes and
// warps.
//
// Grid: rows, or where a warp has a row, a block for every 4. Block: a row's threads, at least 128.
#include "rows.cuh"

namespace {

constexpr int THREADS = FOLDMAX_THREADS; // of a row
constexpr int BLOCK = THREADS < 128 ? 128 : THREADS;
constexpr int BLOCKS = BLOCK > 512 ? 1 : BLOCK > 256 ? 2 : BLOCK > 128 ? 5 : 10; // a multiprocessor

template <int PACKS, bool IS_LOG>
__device__ __forceinline__ void softmaxInRegisters(const RowArguments& a) {
  __shared__ State shared[THREADS / WARP];
  const int t = threadIdx.x % THREADS;
  const int64 row = (int64)blockIdx.x * (BLOCK / THREADS) + threadIdx.x / THREADS;
  if (row >= a.rows) {
    return;
  }
  uint4 packs[PACKS];
  readPacks<PACKS, THREADS>(rowOf(a, row), t, packs);
  const float m = maximumOf<PACKS>(packs);
  forgetWidened<PACKS>(packs);
  const float l = weigh<PACKS, IS_LOG>(packs, shift(m));
  const State s = mergedOverBlock<THREADS>({m, l}, shared);
  forgetWidened<PACKS>(packs);
  writeResults<PACKS, THREADS, IS_LOG>(
      targetOf(a.out + row * a.outStride * sizeOf(a.outType), (int)a.length, a.outType), a.outType,
      t, packs, m, s);
}

} // namespace

extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS)
    softmax(const __grid_constant__ RowArguments a) {
  softmaxInRegisters<FOLDMAX_PACKS, FOLDMAX_LOG != 0>(a);
}
