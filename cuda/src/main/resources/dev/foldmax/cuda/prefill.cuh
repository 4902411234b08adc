// What a block of the portable prefill kernels (attention_f32.cu, attention_mma.cu) has at hand, and
// how it goes over its tasks.
#pragma once
#include "repair.cuh"
#include "task.cuh"
#include "where.cuh"

// A task and what it is done with; rows count from the task's first query.
template <typename Shared>
struct AtWork {
  const AttentionArguments& a;
  Shared& shared;
  const Task& task; // in shared memory, and so is the sequence
  const Pass pass;
  const Sequence& s;
  const int keyHead;

  __device__ __forceinline__ AtWork(const AttentionArguments& a, Shared& shared, Pass pass)
      : a(a),
        shared(shared),
        task(shared.work.task),
        pass(pass),
        s(shared.work.sequence),
        keyHead(task.head / (a.queryHeads / a.keyHeads)) {}

  __device__ __forceinline__ bool hasRow(int row) const { return task.query + row < s.queries; }

  // Where a row's query lies, its output and its logarithm.
  __device__ __forceinline__ Place placeOfRow(int row) const {
    return {s.queryBlock, s.queryRow + task.query + row};
  }

  // Stores a row's logarithm of the sum of exponentials, if it is wanted; for one thread a row.
  __device__ __forceinline__ void storeLogSumExp(int row, float value) const {
    if (pass != Pass::TAINT && a.lse.data != nullptr && task.slice == 0 && hasRow(row)) {
      store(a.lse.data, a.lse.type, elementOf(a.lse, placeOfRow(row), task.head), value);
    }
  }
};

// Does a task; returns whether an output that this thread writes is not finite.
template <typename Block, typename Shared>
__device__ __forceinline__ bool attendTask(const AttentionArguments& a, Shared& shared,
                                           const Task& task, Pass pass) {
  begin(shared.work, a, task);
  if (task.query >= shared.work.sequence.queries) {
    return false;
  }
  Block block(a, shared, pass);
  block.fold();
  return block.finishRows();
}

// Does a block's tasks, of ROWS queries and one of SLICES each, as repair.cuh tells them.
template <typename Block, int ROWS, int SLICES, typename Shared>
__device__ __forceinline__ void attendTasks(const AttentionArguments& a, Shared& shared,
                                            unsigned char* noted, int64 tasks, bool repair) {
  Turn turn = firstTurn(noted, tasks, repair);
#pragma unroll 1
  while (turn.task < tasks) {
    const Task task = taskOf(a, turn.task, ROWS, SLICES);
    const bool nonFinite = attendTask<Block>(a, shared, task, turn.pass);
    turn = nextTurn(noted, tasks, turn, nonFinite);
  }
}
