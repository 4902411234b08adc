// How kernels keep NaN and infinity in values from rows that do not see them.
//
// Matrix products cannot leave a key out: a hidden key has weight 0, and 0 times NaN is NaN. So a
// first launch runs plainly and notes, for each task, whether one of its outputs is not finite. A
// second launch of the same kernel, on a small grid, does the noted tasks again, in two passes:
//   CLEAN  with non-finite values taken as 0: every row gets the bits that it would have had
//   TAINT  with scores 0 where they are above -inf, and values 1 where they are not finite: a
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

// What a block does next; nothing more if the task is beyond the last.
struct Turn {
  int64 task;
  Pass pass;
};

__device__ __forceinline__ int64 nextNoted(const unsigned char* noted, int64 tasks, int64 task) {
  while (task < tasks && noted[task] == 0) {
    task += gridDim.x;
  }
  return task;
}

// A block's first turn: the task of its number, or with `repair` the first that was noted. All threads
// come here.
__device__ __forceinline__ Turn firstTurn(const unsigned char* noted, int64 tasks, bool repair) {
  if (!repair) {
    return {(int64)blockIdx.x, Pass::PLAIN};
  }
  // Mostly nothing was: all threads look at once.
  bool any = false;
  for (int64 task = blockIdx.x + (int64)threadIdx.x * gridDim.x; task < tasks;
       task += (int64)blockDim.x * gridDim.x) {
    any = any || noted[task] != 0;
  }
  return {__syncthreads_or(any) == 0 ? tasks : nextNoted(noted, tasks, blockIdx.x), Pass::CLEAN};
}

// The turn after one that found outputs that are not finite, or not. All threads come here.
__device__ __forceinline__ Turn nextTurn(unsigned char* noted, int64 tasks, const Turn& turn,
                                         bool nonFinite) {
  const int any = __syncthreads_or(nonFinite);
  if (turn.pass == Pass::PLAIN) {
    if (threadIdx.x == 0) {
      noted[turn.task] = any != 0;
    }
    return {tasks, Pass::PLAIN};
  }
  return turn.pass == Pass::CLEAN
             ? Turn{turn.task, Pass::TAINT}
             : Turn{nextNoted(noted, tasks, turn.task + gridDim.x), Pass::CLEAN};
}
