// The logsumexp of rows, and softmax and its logarithm in two readings: (rows, length) in F32, F16
// or BF16.
//
// Option: FOLDMAX_TYPE, the type of x. The type of out is a run-time branch. Only the length and
// the types decide which kernel serves a row and which thread an element, so a row has the same
// bits in any company. Each kernel keeps the state (m, l) of state.cuh; see `absorb` in rows.cuh.
//
//   logSumExpOfShortRows   a row by a warp; persistent, the next batch is read ahead
//   logSumExpOfChunks      a chunk by a block: a state in partials, or where these are null the
//                          result
//   logSumExpOfPartials    a row by a warp: folds the chunks' states in order
//   finishSoftmax, finishLogSoftmax   the second reading, for rows that neither block nor cluster
//                          holds, and for results in F64
#include "rows.cuh"

namespace {

// Threads of the kernels in which warps work for themselves.
constexpr int SEVERAL_WARPS = 128;

template <int PACKS>
__device__ __forceinline__ void sumShortRows(const RowArguments& a) {
  const int lane = threadIdx.x % WARP;
  const int64 warps = (int64)gridDim.x * (blockDim.x / WARP);
  int64 row = (int64)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
  if (row >= a.rows) {
    return;
  }
  Span span = rowOf(a, row);
  int batch = 0; // the first pack of the present one
  uint4 packs[PACKS];
  readPacks<PACKS, WARP>(span, lane, packs);
  State s = {EMPTY, 0.0f};
  while (true) {
    int nextBatch = batch + PACKS * WARP;
    int64 nextRow = row;
    if (nextBatch >= packsOf(span)) {
      nextBatch = 0;
      nextRow += warps;
    }
    uint4 next[PACKS];
    if (nextRow < a.rows) {
      span = rowOf(a, nextRow);
      readPacks<PACKS, WARP>(span, nextBatch + lane, next);
    }
    absorb<PACKS>(s, packs);
    if (nextRow != row) {
      s = mergedOverLanes<WARP>(s);
      if (lane == 0) {
        store(a.out, a.outType, row * a.outStride, naturalLogSumExp(s));
      }
      s = {EMPTY, 0.0f};
      if (nextRow >= a.rows) {
        return;
      }
    }
    row = nextRow;
    batch = nextBatch;
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
      packs[k] = next[k];
    }
  }
}

template <int THREADS, int PACKS>
__device__ __forceinline__ void sumChunks(const RowArguments& a) {
  constexpr int BATCH = THREADS * PACKS;
  __shared__ State shared[THREADS / WARP];
  const int64 row = blockIdx.x / a.chunks;
  const Span span = chunkOf(a, row, blockIdx.x % a.chunks);
  State s = {EMPTY, 0.0f};
  const int whole = span.whole / BATCH * BATCH;
  uint4 packs[PACKS];
  if (whole > 0) {
    readWholePacks<PACKS, THREADS>(span, threadIdx.x, packs);
  }
  for (int p = BATCH; p <= whole; p += BATCH) {
    uint4 next[PACKS];
    if (p < whole) {
      readWholePacks<PACKS, THREADS>(span, p + threadIdx.x, next);
    }
    absorb<PACKS>(s, packs);
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
      packs[k] = next[k];
    }
  }
  for (int p = whole; p < packsOf(span); p += BATCH) {
    readPacks<PACKS, THREADS>(span, p + threadIdx.x, packs);
    absorb<PACKS>(s, packs);
  }
  s = mergedOverBlock<THREADS>(s, shared);
  if (threadIdx.x == 0) {
    if (a.partials == nullptr) {
      store(a.out, a.outType, row * a.outStride, naturalLogSumExp(s));
    } else {
      a.partials[blockIdx.x] = make_float2(s.m, s.l);
    }
  }
}

// The second read of a row, in parts of THREADS * PACKS packs, the last first: the part of x that
// was read last is met first, while the cache still has it.
template <int THREADS, int PACKS, bool IS_LOG>
__device__ __forceinline__ void finishRows(const RowArguments& a) {
  constexpr int PART = THREADS * PACKS * WIDTH; // elements
  const int64 parts = (a.length + PART - 1) / PART;
  const int64 number = (int64)gridDim.x - 1 - blockIdx.x;
  const int64 row = number / parts;
  const int64 begin = number % parts * PART;
  const int length = a.length - begin < PART ? (int)(a.length - begin) : PART;
  uint4 packs[PACKS];
  readPacks<PACKS, THREADS>(spanOf(a.x + (row * a.xStride + begin) * SIZE, length), threadIdx.x,
                            packs);
  const float2 state = a.states[row];
  const Finish finish = finishOf({state.x, state.y});
  const Target target = targetOf(a.out + (row * a.outStride + begin) * sizeOf(a.outType), length,
                                 a.outType);
  if (a.outType == Type::F64) {
    writeAs<PACKS, THREADS, IS_LOG, false, Type::F64>(target, threadIdx.x, packs, finish, 0.0f);
  } else {
    write<PACKS, THREADS, IS_LOG, false>(target, a.outType, threadIdx.x, packs, finish, 0.0f);
  }
}

} // namespace

// Grid: what fits, at most a warp a row.
extern "C" __global__ void __launch_bounds__(SEVERAL_WARPS, 8)
    logSumExpOfShortRows(const __grid_constant__ RowArguments a) {
  sumShortRows<4>(a);
}

// Grid: rows * chunks.
extern "C" __global__ void __launch_bounds__(256, 4)
    logSumExpOfChunks(const __grid_constant__ RowArguments a) {
  sumChunks<256, 4>(a);
}

// Lane i of a row's warp folds chunks i, i + 32, ... in order, then the lanes fold in a tree.
// Writes the state to states, and the logsumexp to out where there is one. Grid: a warp a row.
extern "C" __global__ void __launch_bounds__(SEVERAL_WARPS)
    logSumExpOfPartials(const __grid_constant__ RowArguments a) {
  const int lane = threadIdx.x % WARP;
  const int64 row = (int64)blockIdx.x * (SEVERAL_WARPS / WARP) + threadIdx.x / WARP;
  if (row >= a.rows) {
    return;
  }
  State s = {EMPTY, 0.0f};
  for (int c = lane; c < a.chunks; c += WARP) {
    const float2 partial = a.partials[row * a.chunks + c];
    s = merged(s, {partial.x, partial.y});
  }
  s = mergedOverLanes<WARP>(s);
  if (lane == 0) {
    if (a.states != nullptr) {
      a.states[row] = make_float2(s.m, s.l);
    }
    if (a.out != nullptr) {
      store(a.out, a.outType, row * a.outStride, naturalLogSumExp(s));
    }
  }
}

// Grid: rows * parts of 1024 packs, 16 KB of x.
extern "C" __global__ void __launch_bounds__(256)
    finishSoftmax(const __grid_constant__ RowArguments a) {
  finishRows<256, 4, false>(a);
}

extern "C" __global__ void __launch_bounds__(256)
    finishLogSoftmax(const __grid_constant__ RowArguments a) {
  finishRows<256, 4, true>(a);
}
