// How prefill kernels cut a call into tasks, one for a block.
#pragma once
#include "arguments.cuh"
#include "scores.cuh"

// Queries of one head of one sequence, and a slice of the value dimension.
struct Task {
  int sequence;
  int head;
  int slice;
  int64 query; // the first
};

// Task number `index` of (sequence, query head, slice, query tile): blocks that run together share
// keys; the last tiles, which see most under a causal mask, come first.
__device__ __forceinline__ Task taskOf(const AttentionArguments& a, int64 index, int tileQueries,
                                       int slices) {
  const int tiles = (int)((a.mostQueries + tileQueries - 1) / tileQueries);
  const int of = (int)(index / tiles);
  Task task;
  task.query = (int64)(tiles - 1 - (int)(index - (int64)of * tiles)) * tileQueries;
  task.slice = of % slices;
  task.head = of / slices % a.queryHeads;
  task.sequence = of / slices / a.queryHeads;
  return task;
}

// A task and its sequence, in shared memory: registers are scarce, and these are rarely needed.
struct Work {
  Task task;
  Sequence sequence;
};

// Writes down a task. All threads come here, and may read it when they leave.
__device__ __forceinline__ void begin(Work& work, const AttentionArguments& a, const Task& task) {
  constexpr int WORDS = sizeof(Sequence) / sizeof(int64);
  if (threadIdx.x == 0) {
    work.task = task;
  }
  if (threadIdx.x < WORDS) {
    reinterpret_cast<int64*>(&work.sequence)[threadIdx.x] =
        reinterpret_cast<const int64*>(a.sequences + task.sequence)[threadIdx.x];
  }
  __syncthreads();
}

// What each of ROWS queries from `query` on sees; nothing for those that do not exist. For all
// threads; what is written may be read after a barrier.
template <int ROWS>
__device__ __forceinline__ void fillVisible(const Sequence& s, int64 query, int64 (&begin)[ROWS],
                                            int64 (&end)[ROWS]) {
  for (int r = threadIdx.x; r < ROWS; r += blockDim.x) {
    const Interval seen = visibleTo(s, query + r);
    const bool exists = query + r < s.queries;
    begin[r] = exists ? seen.begin : 0;
    end[r] = exists ? seen.end : 0;
  }
}

// Which tiles some rows have something to do in, and in which of those all of them see every key.
struct alignas(16) TileRange {
  int from;
  int plainFrom;
  int plainTo;
  int to;
};

// For the queries from `query` to `last`, and tiles of tileKeys positions, the first from `first` on.
__device__ __forceinline__ TileRange rangeOf(const Sequence& s, int64 query, int64 last, int64 first,
                                             int tileKeys) {
  const Interval lowest = visibleTo(s, query);
  const Interval highest = visibleTo(s, last);
  return {(int)((lowest.begin - first) / tileKeys),
          (int)((highest.begin - first + tileKeys - 1) / tileKeys),
          (int)((lowest.end - first) / tileKeys),
          (int)((highest.end - first + tileKeys - 1) / tileKeys)};
}
