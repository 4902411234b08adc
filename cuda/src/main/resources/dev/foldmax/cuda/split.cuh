// How the keys of few queries are cut among blocks, and how what the blocks leave is folded: shared by
// the kernels that decode. The fold over keys is fixed, whatever the grid (docs/numerics.md, Row
// invariance): keys are cut at absolute positions into cells, which fold in the binary tree over
// their absolute numbers. A unit of work is ROWS rows (the queries of all heads that share a key head)
// over an aligned chunk of 2^levels cells: it folds its part of the tree and leaves one state.
// `foldChunks` does the rest of the same tree and finishes the rows.
//
// foldChunks   grid: batch * query heads * queries of the longest, FOLD_THREADS; may be launched as a
//              programmatic dependent of the kernel before it
//
// Before including this, a kernel defines VALUE_DIM, ROWS and SCORES; WARPS; TILE, the keys that a
// block takes at a time, a divisor of CELL; MERGED, the rows whose warps are folded at a time, a
// divisor of ROWS; and MOST_LEVELS, for which it has shared memory.
#pragma once
#include "scores.cuh"

constexpr int CELL = 512; // keys
constexpr int LEVEL_STATES = MOST_LEVELS > 0 ? MOST_LEVELS : 1;
constexpr int THREADS = WARPS * 32;
constexpr int MERGED_PITCH = VALUE_DIM + 4; // floats
constexpr int POISON_WORDS = (VALUE_DIM + 31) / 32;

struct DecodePlan {
  float* outputs; // (units, ROWS, VALUE_DIM): O of the chunks' states
  float2* sums;   // (units, ROWS): their m and l
  int rowTiles;   // of ROWS rows, of the sequence with the most
  int chunks;     // of the sequence with the most
  int levels;     // a chunk is 2^levels cells; at most MOST_LEVELS
  int units;      // (batch, key heads, rowTiles, chunks)
};

// What one unit computes: rows of one key head over the keys from begin to, exclusively, end.
struct Unit {
  int sequence;
  int keyHead;
  int firstRow;
  int rows;    // at most ROWS
  int64 begin; // a multiple of TILE; the end may be before it
  int64 end;
};

// Chunks of a sequence are counted from the one with the first key that any query sees.
__device__ __forceinline__ int64 chunkKeys(const DecodePlan& plan) {
  return (int64)CELL << plan.levels;
}

__device__ __forceinline__ int64 firstChunk(const DecodePlan& plan, const Sequence& s) {
  return visibleTo(s, 0).begin / chunkKeys(plan);
}

__device__ __forceinline__ int groupOf(const AttentionArguments& a) {
  return a.queryHeads / a.keyHeads;
}

__device__ __forceinline__ Unit unitOf(const AttentionArguments& a, const DecodePlan& plan,
                                       int number) {
  Unit u;
  const int chunk = number % plan.chunks;
  const int tile = number / plan.chunks;
  u.firstRow = tile % plan.rowTiles * ROWS;
  const int pair = tile / plan.rowTiles;
  u.keyHead = pair % a.keyHeads;
  u.sequence = pair / a.keyHeads;
  const Sequence& s = a.sequences[u.sequence];
  const int group = groupOf(a);
  const int64 rows = s.queries * group;
  u.rows = (int)smaller(rows - u.firstRow, ROWS);
  if (u.rows <= 0) {
    u.begin = u.end = 0;
    return u;
  }
  const int64 lastRow = u.firstRow + u.rows - 1;
  const int64 from = (firstChunk(plan, s) + chunk) * chunkKeys(plan);
  const int64 seen = larger(from, visibleTo(s, u.firstRow / group).begin);
  u.begin = seen - seen % TILE;
  u.end = smaller(from + chunkKeys(plan), visibleTo(s, lastRow / group).end);
  return u;
}

__device__ __forceinline__ int queryOf(int row, int group) { return row / group; }

// Walks over the tiles of a block's units.
struct Walk {
  int number;
  Unit unit;
  int64 position;

  __device__ __forceinline__ void start(const AttentionArguments& a, const DecodePlan& plan,
                                        int first) {
    number = first;
    if (number < plan.units) {
      unit = unitOf(a, plan, number);
      position = unit.begin;
    }
  }

  // Moves on over units that have no tile left; false at the end.
  __device__ __forceinline__ bool settle(const AttentionArguments& a, const DecodePlan& plan) {
    while (number < plan.units && position >= unit.end) {
      start(a, plan, number + gridDim.x);
    }
    return number < plan.units;
  }
};

// (m, l, O) of one row, four dimensions of it.
struct Piece {
  float m;
  float l;
  float4 o;
};

// Both states scaled to the larger maximum and added; an empty one changes no bit of the other.
__device__ __forceinline__ Piece merge(const Piece& x, const Piece& y) {
  Piece z;
  z.m = fmaxf(x.m, y.m);
  const float cx = correctionOf<SCORES>(x.m, z.m);
  const float cy = correctionOf<SCORES>(y.m, z.m);
  z.l = x.l * cx + y.l * cy;
  z.o.x = x.o.x * cx + y.o.x * cy;
  z.o.y = x.o.y * cx + y.o.y * cy;
  z.o.z = x.o.z * cx + y.o.z * cy;
  z.o.w = x.o.w * cx + y.o.w * cy;
  return z;
}

// What the warps of a block leave of a cell, and the states of the unit's subtrees: level n holds 2^n
// cells.
struct CellStates {
  float outputs[WARPS][MERGED][MERGED_PITCH]; // O of MERGED rows
  float2 sums[WARPS][ROWS];                   // m and l
  float levelOutputs[LEVEL_STATES][ROWS][VALUE_DIM];
  float2 levelSums[LEVEL_STATES][ROWS];
  unsigned poison[ROWS][POISON_WORDS]; // components that a value that is not finite has reached
};

// How a cell is closed. Its state carries into the levels like one into a binary counter; the unit's
// last cell takes all levels with it and leaves the unit's state in device memory.
struct Closing {
  int unitNumber;
  int level; // where the cell's state goes, unless it is the last
  bool last;
  bool careful;      // poison is to be looked at
  unsigned occupied; // levels that hold a state: a bit for each

  __device__ __forceinline__ unsigned occupiedAfter() const {
    return last ? 0 : occupied >> level << level | 1u << level;
  }
};

__device__ __forceinline__ Closing closing(const DecodePlan& plan, int unitNumber, int64 cell,
                                           bool last, bool careful, unsigned occupied) {
  int level = 0;
  while (!last && (cell >> level & 1)) {
    level++;
  }
  return {unitNumber, level, last, careful, occupied};
}

__device__ __forceinline__ float4 poisoned(float4 o, unsigned poison) {
  const float nan = __int_as_float(0x7fffffff);
  return make_float4(poison & 1 ? nan : o.x, poison & 2 ? nan : o.y, poison & 4 ? nan : o.z,
                     poison & 8 ? nan : o.w);
}

// Folds the warps' states of rows `first` to first + MERGED - 1, in the order of the warps, and goes
// on in the tree. The block has written and waited; it waits again before it writes more.
__device__ __forceinline__ void foldWarps(const DecodePlan& plan, CellStates& states,
                                          const Closing& closing, int first) {
  for (int i = threadIdx.x; i < MERGED * VALUE_DIM / 4; i += THREADS) {
    const int r = first + i / (VALUE_DIM / 4);
    const int d = i % (VALUE_DIM / 4) * 4;
    Piece piece = {EMPTY, 0.0f, {}};
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      const float2 sums = states.sums[w][r];
      const float4 o = *reinterpret_cast<const float4*>(&states.outputs[w][r - first][d]);
      piece = merge(piece, {sums.x, sums.y, o});
    }
    if (closing.careful) {
      piece.o = poisoned(piece.o, states.poison[r][d / 32] >> d % 32);
    }
    if (MOST_LEVELS > 0) {
      for (int n = 0; n < (closing.last ? plan.levels : closing.level); n++) {
        if (closing.occupied >> n & 1) {
          const float2 sums = states.levelSums[n][r];
          const float4 o = *reinterpret_cast<const float4*>(&states.levelOutputs[n][r][d]);
          piece = merge({sums.x, sums.y, o}, piece);
        }
      }
    }
    if (closing.last) {
      const int64 row = (int64)closing.unitNumber * ROWS + r;
      *reinterpret_cast<float4*>(plan.outputs + row * VALUE_DIM + d) = piece.o;
      if (d == 0) {
        plan.sums[row] = make_float2(piece.m, piece.l);
      }
    } else if (MOST_LEVELS > 0) {
      *reinterpret_cast<float4*>(&states.levelOutputs[closing.level][r][d]) = piece.o;
      if (d == 0) {
        states.levelSums[closing.level][r] = make_float2(piece.m, piece.l);
      }
    }
  }
}

// Forgets what non-finite values have reached; the block waits before it goes on.
__device__ __forceinline__ void clearPoison(CellStates& states) {
  for (int i = threadIdx.x; i < ROWS * POISON_WORDS; i += THREADS) {
    states.poison[0][i] = 0;
  }
  __syncthreads();
}

// The kernels of one call may overlap: the next may start, up to where it waits, while the last blocks
// of the one before it still run.
__device__ __forceinline__ void letNextStart() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void waitForPrevious() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Folds the states of a row's chunks in the rest of the tree and finishes the row. A step takes 64
// chunks from a multiple of 64 on: each warp folds eight of them, then each thread the warps' eight
// results for its dimensions, and the step's state carries into the thread's own levels.
constexpr int FOLD_WARPS = 8;
constexpr int FOLD_THREADS = FOLD_WARPS * 32;
constexpr int FOLD_EACH = 8;                        // chunks that a warp takes at a time
constexpr int FOLD_STEP = FOLD_WARPS * FOLD_EACH;   // chunks
constexpr int FOLD_LEVELS = 32;                     // 2^32 steps
constexpr int QUADS = VALUE_DIM / 4;                // of a row, four dimensions each

struct FoldShared {
  float outputs[FOLD_WARPS][VALUE_DIM];
  float2 sums[FOLD_WARPS];
};

// The binary tree over eight neighbours.
__device__ __forceinline__ Piece mergeEight(const Piece (&x)[FOLD_EACH]) {
  return merge(merge(merge(x[0], x[1]), merge(x[2], x[3])),
               merge(merge(x[4], x[5]), merge(x[6], x[7])));
}

__device__ __forceinline__ Piece emptyPiece() { return {EMPTY, 0.0f, {}}; }

// A warp's eight chunks from `chunk` on, of those from `from` to before `to`; `unit` is chunk 0's.
__device__ __forceinline__ void foldEight(const DecodePlan& plan, FoldShared& shared, int64 unit,
                                          int row, int64 chunk, int64 from, int64 to) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  for (int quad = lane; quad < QUADS; quad += 32) {
    Piece pieces[FOLD_EACH];
#pragma unroll
    for (int i = 0; i < FOLD_EACH; i++) {
      pieces[i] = emptyPiece();
      if (chunk + i >= from && chunk + i < to) {
        const int64 state = (unit + chunk + i) * ROWS + row;
        const float2 sums = __ldcg(plan.sums + state);
        pieces[i] = {sums.x, sums.y,
                     __ldcg(reinterpret_cast<const float4*>(plan.outputs + state * VALUE_DIM)
                            + quad)};
      }
    }
    const Piece folded = mergeEight(pieces);
    reinterpret_cast<float4*>(shared.outputs[warp])[quad] = folded.o;
    if (quad == 0) {
      shared.sums[warp] = make_float2(folded.m, folded.l);
    }
  }
}

extern "C" __global__ void __launch_bounds__(FOLD_THREADS)
    foldChunks(const __grid_constant__ AttentionArguments a,
               const __grid_constant__ DecodePlan plan) {
  __shared__ FoldShared shared;
  const int64 query = blockIdx.x % a.mostQueries;
  const int head = (int)(blockIdx.x / a.mostQueries % a.queryHeads);
  const int sequence = (int)(blockIdx.x / a.mostQueries / a.queryHeads);
  const Sequence& s = a.sequences[sequence];
  if (query >= s.queries) {
    return;
  }
  const int group = groupOf(a);
  const int64 row = query * group + head % group;
  const int64 firstRow = row / ROWS * ROWS;
  const int64 lastRow = smaller(s.queries * group, firstRow + ROWS) - 1;
  // What the unit's rows see: chunks outside of that have no state.
  const int64 begin = visibleTo(s, firstRow / group).begin;
  const int64 end = visibleTo(s, lastRow / group).end;
  const int64 from = begin / chunkKeys(plan);
  const int64 to = end <= begin ? from : (end - 1) / chunkKeys(plan) + 1;
  const int64 tile = ((int64)sequence * a.keyHeads + head / group) * plan.rowTiles + row / ROWS;
  const int64 unit = tile * plan.chunks - firstChunk(plan, s);
  waitForPrevious();
  const int d = threadIdx.x;
  Piece levels[FOLD_LEVELS];
  unsigned occupied = 0;
  for (int64 step = from / FOLD_STEP; step * FOLD_STEP < to; step++) {
    const int warp = threadIdx.x / 32;
    foldEight(plan, shared, unit, (int)(row % ROWS), step * FOLD_STEP + warp * FOLD_EACH, from, to);
    __syncthreads();
    Piece pieces[FOLD_EACH];
#pragma unroll
    for (int i = 0; i < FOLD_EACH; i++) {
      const float2 sums = shared.sums[i];
      pieces[i] = {sums.x, sums.y, {shared.outputs[i][min(d, VALUE_DIM - 1)], 0.0f, 0.0f, 0.0f}};
    }
    Piece piece = mergeEight(pieces);
    int level = 0;
    for (; step >> level & 1; level++) {
      if (occupied >> level & 1) {
        piece = merge(levels[level], piece);
      }
    }
    levels[level] = piece;
    occupied = occupied >> level << level | 1u << level;
    __syncthreads();
  }
  Piece whole = emptyPiece();
  for (int level = 0; level < FOLD_LEVELS; level++) {
    if (occupied >> level & 1) {
      whole = merge(levels[level], whole);
    }
  }
  const Finish f = finish(naturalOf<SCORES>(whole.m), whole.l, a.sink.data != nullptr,
                          a.sink.data != nullptr ? sinkOf(a, head) : 0.0f);
  if (d < a.valueDim) {
    const int64 out = s.queryBlock * a.out.block + head * a.out.head
                      + (s.queryRow + query) * a.out.row;
    store(a.out.data, a.out.type, out + d, whole.o.x * f.factor);
  }
  if (d == 0 && a.lse.data != nullptr) {
    store(const_cast<unsigned char*>(a.lse.data), a.lse.type,
          s.queryBlock * a.lse.sequence + head * a.lse.head + (s.queryRow + query) * a.lse.query,
          f.logSumExp);
  }
}
