// How kernels keep NaN and infinity in values from rows that do not see them.
//
// Matrix products cannot leave a key out: a hidden key has weight 0, and 0 times NaN is NaN. So a
// kernel runs plainly and notes, for each tile of outputs, whether something in it is not finite. A
// second kernel, the same source with FOLDMAX_REPAIR, does the noted tiles again, in two passes:
//   CLEAN  with non-finite values taken as 0: every row gets the bits that it would have had
//   TAINT  with weights 1 where a score is above -inf, and values 1 where they are not finite: a
//          component whose sum is above 0 sees such a value, and is set to NaN
// Scores need no repair: a NaN in a key reaches only the scores of rows that do see it, since hidden
// scores are set to -inf.
#pragma once
#include "arguments.cuh"
#include "elements.cuh"

enum class Pass { PLAIN, CLEAN, TAINT };

// What a value counts as in a pass.
__device__ __forceinline__ float valueIn(Pass pass, float x) {
  if (pass == Pass::PLAIN) {
    return x;
  }
  const bool bad = isNonFinite(x);
  return pass == Pass::CLEAN ? (bad ? 0.0f : x) : (bad ? 1.0f : 0.0f);
}

// Notes, from all threads of a block, whether one of them has seen an output that is not finite.
__device__ __forceinline__ void note(unsigned char* dirty, int64 tile, bool nonFinite) {
  const int any = __syncthreads_or(nonFinite);
  if (threadIdx.x == 0) {
    dirty[tile] = any != 0;
  }
}

// Calls work(tile, pass) for each noted tile and both passes, from all threads of a block; tiles are
// spread over the grid.
template <class Work>
__device__ __forceinline__ void forEachDirty(const unsigned char* dirty, int64 tiles, Work work) {
  const int64 step = gridDim.x;
  for (int64 first = blockIdx.x; first < tiles; first += step * blockDim.x) {
    const int64 mine = first + threadIdx.x * step;
    if (__syncthreads_or(mine < tiles && dirty[mine]) == 0) {
      continue;
    }
    for (int64 tile = first, i = 0; tile < tiles && i < blockDim.x; tile += step, i++) {
      if (dirty[tile]) {
#pragma unroll 1
        for (Pass pass = Pass::CLEAN; pass <= Pass::TAINT; pass = (Pass)((int)pass + 1)) {
          work(tile, pass);
          __syncthreads();
        }
      }
    }
  }
}
