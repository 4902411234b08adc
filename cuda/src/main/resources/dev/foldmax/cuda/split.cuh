// How the keys of few queries are cut among blocks, and how what the blocks leave is folded: shared by
// the kernels that decode. The fold over keys is fixed, whatever the grid (docs/numerics.md, Row
// invariance): keys are cut at absolute positions into cells, which fold in the binary tree over
// their absolute numbers. A unit of work is ROWS rows (the queries of all heads that share a key head)
// over an aligned chunk of 2^levels cells: it folds its part of the tree and leaves one state.
// `foldChunks` does the rest of the same tree and finishes the rows.
//
// foldChunks   grid: as many warps as rowWarps for each of (batch, query heads, queries of the
//              longest), FOLD_THREADS
//
// Both kernels may be launched as programmatic dependents of whatever comes before them.
//
// Before including this, a kernel defines VALUE_DIM, ROWS and SCORES; WARPS; TILE, the keys that a
// block takes at a time, a divisor of CELL; MERGED, the rows whose warps are folded at a time, a
// divisor of ROWS; and MOST_LEVELS, for which it has shared memory.
#pragma once
#include "scores.cuh"
#include "where.cuh"

constexpr int CELL_SHIFT = 8;
constexpr int CELL = 1 << CELL_SHIFT; // keys
constexpr int LEVEL_STATES = MOST_LEVELS > 0 ? MOST_LEVELS : 1;
constexpr int THREADS = WARPS * 32;
constexpr int QUADS = VALUE_DIM / 4;          // of a row, four dimensions each
constexpr int LANE_QUADS = (QUADS + 31) / 32; // of a lane: lane, lane + 32, ...
constexpr int POISON_WORDS = (VALUE_DIM + 31) / 32;

// Units are numbered by sequence, key head, tile of rows and chunk, so that all of a sequence's, which
// come from its first visible key to its last, are neighbours.
struct DecodePlan {
  float* outputs;        // (units, ROWS, VALUE_DIM): O of the chunks' states
  float2* sums;          // (units, ROWS): their m and l
  const int* firstUnits; // (batch + 1): of each sequence; null where all have as many
  int sequenceUnits;     // of each sequence, where firstUnits is null
  int units;             // of all
  int levels;            // a chunk is 2^levels cells; at most MOST_LEVELS
  int rowWarps; // of foldChunks: FOLD_WARPS where there are more than a few chunks, else 1
};

// A tile of rows of one key head, and the keys that any of them sees.
struct RowTile {
  int sequence;
  int keyHead;
  int firstRow;
  int rows;         // at most ROWS
  int firstUnit;    // of the tile, and its number, too
  int64 firstChunk; // of that unit: the first that any query of the sequence sees
  Interval seen;
};

__device__ __forceinline__ int groupOf(const AttentionArguments& a) {
  return a.queryHeads / a.keyHeads;
}

__device__ __forceinline__ int keyShift(const DecodePlan& plan) { return CELL_SHIFT + plan.levels; }

__device__ __forceinline__ int firstUnitOf(const DecodePlan& plan, int sequence) {
  return plan.firstUnits == nullptr ? sequence * plan.sequenceUnits : plan.firstUnits[sequence];
}

// Tiles of rows of a key head.
__device__ __forceinline__ int tilesOf(const AttentionArguments& a, const Sequence& s) {
  return max(((int)s.queries * groupOf(a) + ROWS - 1) / ROWS, 1);
}

// Chunks of a tile of rows.
__device__ __forceinline__ int chunksOf(const AttentionArguments& a, const DecodePlan& plan,
                                        int sequence) {
  const int units = firstUnitOf(plan, sequence + 1) - firstUnitOf(plan, sequence);
  return units / (a.keyHeads * tilesOf(a, a.sequences[sequence]));
}

// A sequence's tile of rows; `number` counts those of all its key heads.
__device__ __forceinline__ RowTile rowTile(const AttentionArguments& a, const DecodePlan& plan,
                                           int sequence, int number) {
  const Sequence& s = a.sequences[sequence];
  const int group = groupOf(a);
  const int tiles = tilesOf(a, s);
  RowTile tile;
  tile.sequence = sequence;
  tile.keyHead = number / tiles;
  tile.firstRow = number % tiles * ROWS;
  tile.rows = (int)smaller(s.queries * group - tile.firstRow, ROWS);
  tile.firstUnit = firstUnitOf(plan, sequence) + number * chunksOf(a, plan, sequence);
  tile.firstChunk = visibleTo(s, 0).begin >> keyShift(plan);
  tile.seen = {visibleTo(s, tile.firstRow / group).begin,
               visibleTo(s, (tile.firstRow + tile.rows - 1) / group).end};
  return tile;
}

// The sequence of a unit.
__device__ __forceinline__ int sequenceOf(const AttentionArguments& a, const DecodePlan& plan,
                                          int unit) {
  if (plan.firstUnits == nullptr) {
    return unit / plan.sequenceUnits;
  }
  int sequence = 0; // or a later one, before `end`
  int end = a.batch;
  while (end - sequence > 1) {
    const int middle = (sequence + end) / 2;
    if (plan.firstUnits[middle] <= unit) {
      sequence = middle;
    } else {
      end = middle;
    }
  }
  return sequence;
}

// The 16-byte piece of a row in shared memory, `rows` being an address or a pointer. Rows have a multiple
// of 128 bytes; their pieces are permuted within each 128 bytes by the row's number, so that the same
// piece of 8 rows lies in different banks.
template <typename Rows>
__device__ __forceinline__ Rows pieceAt(Rows rows, int pitch, int row, int piece) {
  return rows + row * pitch + (((piece & ~7) | ((piece ^ row) & 7)) << 4);
}

// What the score of a row needs.
struct RowView {
  Row row;
  Interval visible;
  float slope;
};

// Row r of a tile; spare rows repeat the last.
__device__ __forceinline__ RowView rowView(const AttentionArguments& a, const RowTile& tile,
                                           int r) {
  const Sequence& s = a.sequences[tile.sequence];
  const int group = groupOf(a);
  const int own = tile.firstRow + min(r, tile.rows - 1);
  const int head = tile.keyHead * group + own % group;
  return {{tile.sequence, head, own / group, s.firstKey},
          visibleTo(s, own / group),
          slopeOf(a, tile.sequence, head)};
}

// A unit as blocks keep it in shared memory.
struct Unit {
  RowTile rows;
  int64 position; // of the first tile of keys; there is at least one
  int64 end;      // of the keys
};

__device__ __noinline__ void describe(const AttentionArguments& a, const DecodePlan& plan,
                                      int number, Unit& unit) {
  const int sequence = sequenceOf(a, plan, number);
  const RowTile rows =
      rowTile(a, plan, sequence,
              (number - firstUnitOf(plan, sequence)) / chunksOf(a, plan, sequence));
  const int64 from = rows.firstChunk + (number - rows.firstUnit) << keyShift(plan);
  const int64 to = from + (1ll << keyShift(plan));
  unit.rows = rows;
  unit.position = smaller(larger(from, rows.seen.begin), to - 1) & ~(int64)(TILE - 1);
  unit.end = larger(smaller(to, rows.seen.end), unit.position + 1);
}

// A block has neighbouring units. Of these a ring holds KNOWN from the one that the block folds on, as
// a walk ahead of it may need them.
constexpr int KNOWN = 5;
constexpr int RING = 8;

// The first unit of a block.
__device__ __forceinline__ int shareOf(const DecodePlan& plan, int block) {
  const int each = plan.units / (int)gridDim.x;
  return block * each + min(block, plan.units - each * (int)gridDim.x);
}

// Walks over a block's units, and over the tiles of keys in each.
struct Walk {
  const Unit* ring; // (RING)
  int index;        // of the unit among the block's
  int count;        // of these
  int64 position;   // of the tile of keys
  int64 end;        // of the unit's keys

  __device__ __forceinline__ bool atEnd() const { return index >= count; }

  __device__ __forceinline__ const RowTile& rows() const { return ring[index % RING].rows; }

  __device__ __forceinline__ bool isLast() const { return position + TILE >= end; }

  __device__ __forceinline__ void enter(int unit) {
    index = unit;
    position = ring[index % RING].position;
    end = ring[index % RING].end;
  }

  // Goes on to the next tile.
  __device__ __forceinline__ void next() {
    position += TILE;
    if (position >= end) {
      enter(index + 1);
    }
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
  z.l = fmaf(x.l, cx, y.l * cy); // written out: one rounding everywhere
  z.o.x = fmaf(x.o.x, cx, y.o.x * cy);
  z.o.y = fmaf(x.o.y, cx, y.o.y * cy);
  z.o.z = fmaf(x.o.z, cx, y.o.z * cy);
  z.o.w = fmaf(x.o.w, cx, y.o.w * cy);
  return z;
}

// What the warps of a block leave of a cell, and the states of the unit's subtrees: level n holds 2^n
// cells.
struct alignas(16) CellStates {
  float outputs[WARPS][MERGED][VALUE_DIM]; // O of MERGED rows
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

// The kernels of a call, and of calls that follow each other, may overlap: the next may start, up to
// where it waits, while the last blocks of the one before it still run. Before, it reads nothing but
// its arguments and the tables that came up from the host.
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

// Starts copying 16-byte pieces of WARP_KEYS rows of keys or values into shared memory: row n begins
// `begin` bytes from `data`, as lane n says, and is 0 without a bit in `present`; so is what follows a
// row's `bytes`.
template <int PIECES>
__device__ __forceinline__ void copyRows(const unsigned char* data, int64 begin, unsigned present,
                                         int bytes, unsigned target, int pitch) {
  const int lane = threadIdx.x % 32;
#pragma unroll 8
  for (int i = lane; i < WARP_KEYS * PIECES; i += 32) {
    const int key = i / PIECES;
    const int piece = i % PIECES;
    const unsigned char* row = data + __shfl_sync(~0u, begin, key);
    const int part = present >> key & 1 ? min(max(bytes - 16 * piece, 0), 16) : 0;
    copyPartOnce(pieceAt(target, pitch, key, piece), part > 0 ? row + 16 * piece : data, part);
  }
}

// What a block does. A kernel brings a Fold, with
//   restart(walk)                 is to copy from the walk's place on; nothing is under way
//   setRows(a, tile)              takes a tile's rows, and waits for the block
//   fold(a, states, walk, careful)
//                                 the five lines, for the walk's tile of keys
//   clear(), hasNonFinite()       of the states of a warp's share of a cell
//   leaveSums(states), leaveOutputs(states, first)
//                                 for foldWarps: m and l of all rows, O of MERGED rows
//
// A value that is not finite and meets a weight of 0, of a row that does not see it, makes NaN. A cell
// with a non-finite output is therefore folded once more, carefully: whatever is not finite among a
// warp's values becomes 0, which gives rows that do not see it the bits that they would have had, and
// is noted for the rows that do; their components become NaN when the cell is closed.
template <typename Fold>
__device__ __forceinline__ void foldUnits(const AttentionArguments& a, const DecodePlan& plan,
                                          CellStates& states, Fold& fold) {
  __shared__ Unit ring[RING];
  letNextStart();
  const int first = shareOf(plan, blockIdx.x);
  Walk walk = {ring, 0, shareOf(plan, blockIdx.x + 1) - first};
  if (threadIdx.x < min(KNOWN, walk.count)) {
    describe(a, plan, first + threadIdx.x, ring[threadIdx.x]);
  }
  __syncthreads();
  walk.enter(0);
  waitForPrevious();
  fold.restart(walk);
  fold.clear();
  unsigned occupied = 0;
  int rowsOf = -1;   // the row tile that the fold has
  int unitOf = -1;   // the unit that it is in, of the block's
  int64 cellBegin = walk.position;
  bool careful = false;
  while (!walk.atEnd()) {
    if (unitOf != walk.index) {
      unitOf = walk.index;
      if (threadIdx.x == 0 && walk.index + KNOWN < walk.count) {
        describe(a, plan, first + walk.index + KNOWN, ring[(walk.index + KNOWN) % RING]);
      }
      if (rowsOf != walk.rows().firstUnit) {
        rowsOf = walk.rows().firstUnit;
        fold.setRows(a, walk.rows());
      }
    }
    fold.fold(a, states, walk, careful);
    const bool last = walk.isLast();
    if (!last && (walk.position + TILE) % CELL != 0) {
      walk.position += TILE;
      continue;
    }
    if (!careful && __syncthreads_or(fold.hasNonFinite())) {
      careful = true;
      walk.position = cellBegin;
      waitForCopies();
      fold.restart(walk);
      clearPoison(states);
    } else {
      if (careful) {
        __syncthreads(); // a fold may use the states' memory meanwhile
      }
      const RowTile& rows = walk.rows();
      const Closing c =
          closing(plan, first + walk.index, walk.position / CELL, last, careful, occupied);
      fold.leaveSums(states);
#pragma unroll
      for (int row = 0; row < ROWS; row += MERGED) {
        if (row >= rows.rows) {
          break;
        }
        fold.leaveOutputs(states, row);
        __syncthreads();
        foldWarps(plan, states, c, row);
        __syncthreads();
      }
      occupied = c.occupiedAfter();
      careful = false;
      walk.next();
      cellBegin = walk.position;
    }
    fold.clear();
  }
}

// Folds the states of a row's chunks in the rest of the tree and finishes the row. A warp takes eight
// chunks at a time, from a multiple of eight on. Where there are many chunks, eight warps share a row
// and the first folds what they got; where there are few, a warp has a row for itself. A step's state
// carries into the levels of the rest.
constexpr int FOLD_WARPS = 8;
constexpr int FOLD_THREADS = FOLD_WARPS * 32;
constexpr int FOLD_EACH = 8;    // chunks
constexpr int FOLD_LEVELS = 24; // 2^24 steps

struct FoldShared {
  float4 outputs[FOLD_WARPS][32];
  float2 sums[FOLD_WARPS];
};

// The binary tree over eight neighbours.
__device__ __forceinline__ Piece mergeEight(const Piece (&x)[FOLD_EACH]) {
  return merge(merge(merge(x[0], x[1]), merge(x[2], x[3])),
               merge(merge(x[4], x[5]), merge(x[6], x[7])));
}

// Four dimensions of a chunk's state. Predicates, so that loads do not wait for each other.
__device__ __forceinline__ void loadState(const DecodePlan& plan, int64 state, int quad, bool exists,
                                          Piece& piece) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.u32 p, %8, 0;\n"
      "@p ld.global.cg.v2.f32 {%0, %1}, [%6];\n"
      "@p ld.global.cg.v4.f32 {%2, %3, %4, %5}, [%7];\n"
      "}\n"
      : "+f"(piece.m), "+f"(piece.l), "+f"(piece.o.x), "+f"(piece.o.y), "+f"(piece.o.z),
        "+f"(piece.o.w)
      : "l"(plan.sums + state), "l"(plan.outputs + state * VALUE_DIM + 4 * quad),
        "r"((unsigned)exists)
      : "memory");
}

// Eight chunks of a tile from `chunk` on, of those from `from` to before `to`.
__device__ __forceinline__ Piece foldEight(const DecodePlan& plan, const RowTile& tile, int row,
                                           int quad, int64 chunk, int64 from, int64 to) {
  Piece pieces[FOLD_EACH];
#pragma unroll
  for (int i = 0; i < FOLD_EACH; i++) {
    const int64 unit = tile.firstUnit + (chunk + i - tile.firstChunk);
    pieces[i] = {EMPTY, 0.0f, {}};
    loadState(plan, unit * ROWS + row, quad, chunk + i >= from && chunk + i < to, pieces[i]);
  }
  return mergeEight(pieces);
}

// Stores four outputs of a row, of those that there are, and its logarithm.
__device__ __forceinline__ void finishRow(const AttentionArguments& a, const Sequence& s, int head,
                                          int64 query, int quad, const Piece& whole) {
  const bool hasSink = a.sink.data != nullptr;
  const Finish f =
      finish(naturalOf<SCORES>(whole.m), whole.l, hasSink, hasSink ? sinkOf(a, head) : 0.0f);
  const Place place = {s.queryBlock, s.queryRow + query};
  const int64 out = elementOf(a.out, place, head);
  const float o[4] = {whole.o.x * f.factor, whole.o.y * f.factor, whole.o.z * f.factor,
                      whole.o.w * f.factor};
  storeQuad(a.out.data, a.out.type, out + 4 * quad, o, a.valueDim - 4 * quad);
  if (quad == 0 && a.lse.data != nullptr) {
    store(a.lse.data, a.lse.type, elementOf(a.lse, place, head), f.logSumExp);
  }
}

extern "C" __global__ void __launch_bounds__(FOLD_THREADS)
    foldChunks(const __grid_constant__ AttentionArguments a,
               const __grid_constant__ DecodePlan plan) {
  __shared__ FoldShared shared;
  letNextStart();
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const bool shares = plan.rowWarps > 1;
  const int64 number = shares ? blockIdx.x : (int64)blockIdx.x * FOLD_WARPS + warp;
  const int64 query = number % a.mostQueries;
  const int head = (int)(number / a.mostQueries % a.queryHeads);
  const int64 sequence = number / a.mostQueries / a.queryHeads;
  if (sequence >= a.batch || query >= a.sequences[sequence].queries) {
    return; // all warps of the row
  }
  const Sequence& s = a.sequences[sequence];
  const int64 row = query * groupOf(a) + head % groupOf(a);
  const RowTile tile = rowTile(a, plan, (int)sequence,
                               head / groupOf(a) * tilesOf(a, s) + (int)(row / ROWS));
  // Chunks outside of what the tile's rows see have no state.
  const Interval seen = tile.seen;
  const int64 from = seen.begin >> keyShift(plan);
  const int64 to = seen.end <= seen.begin ? from : ((seen.end - 1) >> keyShift(plan)) + 1;
  const int stepChunks = FOLD_EACH * plan.rowWarps;
  waitForPrevious();
  for (int i = 0; i < LANE_QUADS; i++) {
    const int quad = lane + 32 * i;
    Piece levels[FOLD_LEVELS];
    unsigned occupied = 0;
    for (int64 step = from / stepChunks; step * stepChunks < to; step++) {
      const int64 first = step * stepChunks + (shares ? warp * FOLD_EACH : 0);
      Piece piece = foldEight(plan, tile, (int)(row % ROWS), min(quad, QUADS - 1), first, from, to);
      if (shares) {
        shared.outputs[warp][lane] = piece.o;
        if (lane == 0) {
          shared.sums[warp] = make_float2(piece.m, piece.l);
        }
        __syncthreads();
        Piece pieces[FOLD_EACH];
#pragma unroll
        for (int w = 0; w < FOLD_WARPS && warp == 0; w++) {
          pieces[w] = {shared.sums[w].x, shared.sums[w].y, shared.outputs[w][lane]};
        }
        piece = warp == 0 ? mergeEight(pieces) : piece;
        __syncthreads();
      }
      int level = 0;
#pragma unroll 1
      for (; level < FOLD_LEVELS - 1 && (step >> level & 1); level++) {
        if (occupied >> level & 1) {
          piece = merge(levels[level], piece);
        }
      }
      levels[level] = piece;
      occupied = occupied >> level << level | 1u << level;
    }
    Piece whole = {EMPTY, 0.0f, {}};
#pragma unroll 1
    for (int level = 0; occupied >> level != 0; level++) {
      if (occupied >> level & 1) {
        whole = merge(levels[level], whole);
      }
    }
    if (!shares || warp == 0) {
      finishRow(a, s, head, query, quad, whole);
    }
  }
}
