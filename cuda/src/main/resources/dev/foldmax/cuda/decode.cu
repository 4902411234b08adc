// Decoding: few queries over many keys, F16 or BF16, on matrix units; sm_80 and later.
//
// The rows of a unit of work are the queries of all heads that share a key head (up to ROWS of them),
// so that a key is read once for all of them. A warp takes 16 keys at a time and computes transposed:
// S' = K Q' has keys on the long side of the matrix instruction and rows on the short one, and
// O' = V' P' dimensions on the long side, so that 4 or 8 rows fill it. Each warp brings its own keys
// into shared memory by asynchronous copies, row by row, some steps ahead, and waits for no other
// warp; it does not matter to it in which layout the rows lie.
//
// Within a cell (split.cuh), warp w folds keys 16 w to 16 w + 15 of each tile of 64, and the warps are
// folded in order.
//
// decode       grid: any (a block takes neighbouring units), THREADS, WARPS * STAGES * STAGE bytes of
//              dynamic shared memory; then foldChunks of split.cuh
// Options: FOLDMAX_TYPE (1 F16, 2 BF16), FOLDMAX_KEY_DIM and FOLDMAX_VALUE_DIM (multiples of 16, up
// to 256), FOLDMAX_SCORES, FOLDMAX_RESCALE; and, for the same bits, FOLDMAX_ROWS (4, 8 or 16) and
// FOLDMAX_STAGES (2 or 3).
#include "elements.cuh"
#include "mma.cuh"
#include "scores.cuh"
#include "where.cuh"

constexpr Type TYPE = Type(FOLDMAX_TYPE);
constexpr int KEY_DIM = FOLDMAX_KEY_DIM;
constexpr int VALUE_DIM = FOLDMAX_VALUE_DIM;
constexpr int ROWS = FOLDMAX_ROWS;
constexpr Scores SCORES = Scores(FOLDMAX_SCORES);
constexpr Rescale DIALECT = Rescale(FOLDMAX_RESCALE);

constexpr int WARPS = 4;
constexpr int WARP_KEYS = 16;             // that a warp takes at a time
constexpr int TILE = WARPS * WARP_KEYS;   // keys
constexpr int MOST_LEVELS = ROWS == 4 ? 3 : ROWS == 8 ? 1 : 0; // shared memory sets it
constexpr int STAGES = FOLDMAX_STAGES;    // of a warp's keys and values in shared memory
constexpr int PARTS = (ROWS + 7) / 8;     // column blocks of the matrix instruction
constexpr int MERGED = 4;                 // rows whose warps are folded at a time

// Of rows of keys and values in shared memory, see pieceAt.
constexpr int KEY_PITCH = (KEY_DIM + 63) / 64 * 128;     // bytes
constexpr int VALUE_PITCH = (VALUE_DIM + 63) / 64 * 128; // bytes
constexpr int STAGE = WARP_KEYS * (KEY_PITCH + VALUE_PITCH);

#include "split.cuh"

// Whether a row has a score above -inf for a key.
typedef unsigned char Seen[WARPS][WARP_KEYS][ROWS];

// Starts copying 16 whole rows of keys or values, which lie at a distance of `stride` bytes, into
// shared memory.
template <int DIM>
__device__ __forceinline__ void copyWholeRows(const unsigned char* first, int64 stride,
                                              unsigned target, int pitch) {
  constexpr int PIECES = DIM / 8;                 // of a row
  constexpr int STEP = 32 / PIECES;               // rows of one copy
  constexpr int PERIOD = STEP < 8 ? 8 / STEP : 1; // copies after which the permutation repeats
  const int key = threadIdx.x % 32 / PIECES;
  const int piece = threadIdx.x % PIECES;
  const unsigned char* source = first + key * stride + 16 * piece;
  unsigned targets[PERIOD];
#pragma unroll
  for (int i = 0; i < PERIOD; i++) {
    targets[i] = pieceAt(target, pitch, i * STEP + key, piece);
  }
#pragma unroll
  for (int i = 0; i < WARP_KEYS / STEP; i++) {
    copyPartOnce(targets[i % PERIOD] + i / PERIOD * (PERIOD * STEP * pitch), source, 16);
    source += STEP * stride;
  }
}

// The states of a warp's share of a cell. Thread (g, t) of a warp, g = lane / 4 and t = lane % 4,
// holds rows 8 p + 2 t and the next, dimensions 16 d + g and 16 d + g + 8.
struct WarpState {
  float m[PARTS][2];
  float l[PARTS][2];                 // of this thread's keys alone
  float o[PARTS][VALUE_DIM / 16][4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
      m[p][0] = m[p][1] = EMPTY;
      l[p][0] = l[p][1] = 0.0f;
#pragma unroll
      for (int d = 0; d < VALUE_DIM / 16; d++) {
        o[p][d][0] = o[p][d][1] = o[p][d][2] = o[p][d][3] = 0.0f;
      }
    }
  }

  __device__ __forceinline__ bool hasNonFinite() const {
    bool found = false;
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
#pragma unroll
      for (int d = 0; d < VALUE_DIM / 16; d++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
          found |= isNonFinite(o[p][d][i]);
        }
      }
    }
    return found;
  }
};

// Queries as the right operand: a thread has row 8 p + g, dimensions 16 c + 8 h + 2 t and the next.
typedef unsigned Queries[PARTS][KEY_DIM / 16][2];

// What a block knows of its rows.
struct BlockRows {
  RowView views[ROWS];
};

// Takes a tile's rows; the block has waited, and waits again before it uses them.
__device__ __forceinline__ void setRows(const AttentionArguments& a, const RowTile& tile,
                                        BlockRows& rows, Queries& queries) {
  const Sequence& s = a.sequences[tile.sequence];
  const int group = groupOf(a);
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < ROWS) {
    rows.views[threadIdx.x] = rowView(a, tile, threadIdx.x);
  }
#pragma unroll
  for (int p = 0; p < PARTS; p++) {
    const bool isRow = 8 * p + lane / 4 < tile.rows;
    const int r = tile.firstRow + 8 * p + lane / 4;
    const int64 element = s.queryBlock * a.q.block + (tile.keyHead * group + r % group) * a.q.head
                          + (s.queryRow + r / group) * a.q.row;
    const unsigned short* q = reinterpret_cast<const unsigned short*>(a.q.data) + element;
#pragma unroll
    for (int c = 0; c < KEY_DIM / 16; c++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int d = 16 * c + 8 * half + 2 * (lane % 4);
        queries[p][c][half] =
            isRow && d < a.keyDim ? *reinterpret_cast<const unsigned*>(q + d) : 0;
      }
    }
  }
  if (a.keyDim % 2 != 0) { // what follows the last may be anything
#pragma unroll
    for (int i = 0; i < PARTS * KEY_DIM / 8; i++) {
      const int last = 8 * (i % (KEY_DIM / 8)) + 2 * (lane % 4);
      unsigned& pair = queries[i / (KEY_DIM / 8)][i % (KEY_DIM / 8) / 2][i % 2];
      pair = last + 1 == a.keyDim ? pair & 0xffff : pair;
    }
  }
  __syncthreads();
}

// See foldUnits.
__device__ __noinline__ void sanitise(CellStates& states, const Seen& seen,
                                      unsigned char* values) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  for (int i = lane; i < WARP_KEYS * VALUE_DIM; i += 32) {
    const int key = i / VALUE_DIM;
    const int d = i % VALUE_DIM;
    unsigned short* element =
        reinterpret_cast<unsigned short*>(values + pieceAt(0u, VALUE_PITCH, key, d / 8)) + d % 8;
    if (isNonFinite16<TYPE>(*element)) {
      *element = 0;
      for (int r = 0; r < ROWS; r++) {
        if (seen[warp][key][r]) {
          atomicOr(&states.poison[r][d / 32], 1u << d % 32);
        }
      }
    }
  }
}

// The five lines, for a warp's 16 keys from `position` on.
__device__ __forceinline__ void foldKeys(const AttentionArguments& a, CellStates& states, Seen& seen,
                                         const BlockRows& rows, const Queries& queries,
                                         int64 position, float unit,
                                         unsigned char* stage, bool careful, WarpState& state) {
  const int lane = threadIdx.x % 32;
  const int matrix = lane / 8;
  const unsigned keys = sharedAddress(stage);
  const unsigned values = keys + WARP_KEYS * KEY_PITCH;
  float s[PARTS][2][4] = {}; // even and odd columns apart, for shorter chains
#pragma unroll
  for (int c = 0; c < KEY_DIM / 16; c++) {
    unsigned k[4];
    loadMatrices(k, pieceAt(keys, KEY_PITCH, matrix % 2 * 8 + lane % 8, 2 * c + matrix / 2));
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
      multiply<TYPE>(s[p][c % 2], k, queries[p][c][0], queries[p][c][1]);
    }
  }
  // Neither end of what a row sees falls from row to row.
  const bool whole = a.maskCount == 0 && position >= rows.views[ROWS - 1].visible.begin
                     && position + WARP_KEYS <= rows.views[0].visible.end;
  unsigned weights[PARTS][2]; // as the right operand
  float c[PARTS][2];
  bool corrects = false;
#pragma unroll
  for (int p = 0; p < PARTS; p++) {
    float score[4]; // (key g, row 2t), (key g, row 2t + 1), the same of key g + 8
#pragma unroll
    for (int i = 0; i < 4; i++) {
      score[i] = s[p][0][i] + s[p][1][i];
    }
    if (SCORES == Scores::GENERAL || !whole) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int64 key = position + lane / 4 + i / 2 * 8;
        const RowView& view = rows.views[min(8 * p + 2 * (lane % 4) + i % 2, ROWS - 1)];
        const bool shown = key >= view.visible.begin && key < view.visible.end
                           && shownByMasks(a, view.row, key);
        if (SCORES == Scores::GENERAL && shown) {
          score[i] = generalScore(a, a.sequences[view.row.sequence], view.row, view.slope,
                                  score[i], key);
        }
        score[i] = shown ? score[i] : EMPTY;
      }
    }
    if (careful) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int r = 8 * p + 2 * (lane % 4) + i % 2;
        if (r < ROWS) {
          seen[threadIdx.x / 32][lane / 4 + i / 2 * 8][r] = score[i] != EMPTY;
        }
      }
    }
#pragma unroll
    for (int e = 0; e < 2; e++) {
      float largest = fmaxf(score[e], score[2 + e]);
#pragma unroll
      for (int step = 4; step < 32; step *= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
      }
      const float before = state.m[p][e];
      const float now = nextMaximum<DIALECT>(before, maximumOf<SCORES>(largest, unit),
                                             toleranceOf<SCORES>(a.tau));
      c[p][e] = correctionOf<SCORES>(before, now);
      score[e] = weight<SCORES>(score[e], shift(now), unit);
      score[2 + e] = weight<SCORES>(score[2 + e], shift(now), unit);
      state.l[p][e] = fmaf(state.l[p][e], c[p][e], score[e] + score[2 + e]);
      state.m[p][e] = now;
      corrects |= c[p][e] != 1.0f;
    }
    weights[p][0] = transposed(pack<TYPE>(score[0], score[1]));
    weights[p][1] = transposed(pack<TYPE>(score[2], score[3]));
  }
  if (careful) {
    __syncwarp();
    sanitise(states, seen, stage + WARP_KEYS * KEY_PITCH);
    __syncwarp();
  }
  if (__any_sync(~0u, corrects)) { // a product by 1 changes no bit
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
#pragma unroll
      for (int d = 0; d < VALUE_DIM / 16; d++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
          state.o[p][d][i] *= c[p][i % 2];
        }
      }
    }
  }
#pragma unroll
  for (int d = 0; d < VALUE_DIM / 16; d++) {
    unsigned v[4];
    loadTransposed(
        v, pieceAt(values, VALUE_PITCH, matrix / 2 * 8 + lane % 8, 2 * d + matrix % 2));
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
      multiply<TYPE>(state.o[p][d], v, weights[p][0], weights[p][1]);
    }
  }
}

// Starts copying a warp's keys and values, wherever they lie; `key` is this lane's.
__device__ __noinline__ void copyAnyRows(const AttentionArguments& a, int sequence, int head,
                                         int64 key, unsigned target) {
  const Sequence& s = a.sequences[sequence];
  const bool isPresent = key >= s.firstKey && key < s.endKey;
  const unsigned present = __ballot_sync(~0u, isPresent);
  const Place place = isPresent ? placeOf(a, s, sequence, key) : Place{0, 0};
  copyRows<KEY_DIM / 8>(a.k.data, 2 * elementOf(a.k, place, head), present, 2 * a.keyDim, target,
                        KEY_PITCH);
  copyRows<VALUE_DIM / 8>(a.v.data, 2 * elementOf(a.v, place, head), present, 2 * a.valueDim,
                          target + WARP_KEYS * KEY_PITCH, VALUE_PITCH);
}

// A warp's part in foldUnits. Copies run as far ahead of the fold as there are stages.
struct MatrixFold {
  unsigned char* stages; // of this warp
  BlockRows& rows;
  Seen& seen;
  float unit;
  Walk ahead;
  int filled;    // the stage to fill next
  int folded;    // and to fold
  int underWay;  // stages that are filled or being so
  int64 blockOf; // the position whose block of keys is known, or -1
  int block;     // that one
  Queries queries;
  WarpState state;

  __device__ __forceinline__ void clear() { state.clear(); }

  __device__ __forceinline__ bool hasNonFinite() const { return state.hasNonFinite(); }

  __device__ __forceinline__ void restart(const Walk& from) {
    ahead = from;
    filled = 0;
    folded = 0;
    blockOf = -1;
    underWay = 0;
  }

  __device__ __forceinline__ void setRows(const AttentionArguments& a, const RowTile& tile) {
    ::setRows(a, tile, rows, queries);
  }

  __device__ __forceinline__ void fold(const AttentionArguments& a, CellStates& states,
                                       const Walk& walk, bool careful) {
#pragma unroll 1
    for (; underWay < STAGES; underWay++) {
      copyNext(a);
    }
    waitForAllBut<STAGES - 1>();
    __syncwarp();
    foldKeys(a, states, seen, rows, queries, walk.position + threadIdx.x / 32 * WARP_KEYS, unit,
             stages + folded * STAGE, careful, state);
    __syncwarp();
    underWay--;
    folded = folded + 1 == STAGES ? 0 : folded + 1;
  }

  __device__ __forceinline__ void leaveSums(CellStates& states) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float l = state.l[p][e];
#pragma unroll
        for (int step = 4; step < 32; step *= 2) {
          l += __shfl_xor_sync(~0u, l, step);
        }
        if (lane < 4 && 8 * p + 2 * lane + e < ROWS) {
          states.sums[threadIdx.x / 32][8 * p + 2 * lane + e] = make_float2(state.m[p][e], l);
        }
      }
    }
  }

  __device__ __forceinline__ void leaveOutputs(CellStates& states, int first) const {
    const int lane = threadIdx.x % 32;
    if (lane % 4 / 2 == first % 8 / MERGED) {
#pragma unroll
      for (int d = 0; d < VALUE_DIM / 16; d++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
          states.outputs[threadIdx.x / 32][2 * (lane % 2) + i % 2]
                        [16 * d + lane / 4 + i / 2 * 8] = state.o[first / 8][d][i];
        }
      }
    }
  }

private:
  __device__ __forceinline__ void copyNext(const AttentionArguments& a) {
    if (!ahead.atEnd()) {
      const int sequence = ahead.rows().sequence;
      const Sequence& s = a.sequences[sequence];
      const int64 first = ahead.position + threadIdx.x / 32 * WARP_KEYS;
      const unsigned target = sharedAddress(stages + filled * STAGE);
      const int head = ahead.rows().keyHead;
      // Head dimensions with a pattern that repeats, and rows at one distance.
      constexpr bool REGULAR = (KEY_DIM & (KEY_DIM - 1)) == 0 && (VALUE_DIM & (VALUE_DIM - 1)) == 0;
      if (REGULAR && (a.layout == Layout::STRAIGHT || a.rows % WARP_KEYS == 0)
          && a.keyDim == KEY_DIM && a.valueDim == VALUE_DIM && first >= s.firstKey
          && first + WARP_KEYS <= s.endKey) {
        const Place place = placeAhead(a, s, sequence, first);
        copyWholeRows<REGULAR ? KEY_DIM : 16>(a.k.data + 2 * elementOf(a.k, place, head),
                                              2 * a.k.row, target, KEY_PITCH);
        copyWholeRows<REGULAR ? VALUE_DIM : 16>(a.v.data + 2 * elementOf(a.v, place, head),
                                                2 * a.v.row, target + WARP_KEYS * KEY_PITCH,
                                                VALUE_PITCH);
      } else {
        copyAnyRows(a, sequence, head, first + threadIdx.x % WARP_KEYS, target);
      }
      ahead.next();
    }
    commitCopies();
    filled = filled + 1 == STAGES ? 0 : filled + 1;
  }

  // placeOf; what the next position of the walk needs from a block table is on its way meanwhile.
  __device__ __forceinline__ Place placeAhead(const AttentionArguments& a, const Sequence& s,
                                              int sequence, int64 first) {
    if (a.layout != Layout::PAGED) {
      return placeOf(a, s, sequence, first);
    }
    const int* table = a.table + sequence * a.tableStride;
    int64 page;
    int64 row;
    divide(first, a.rows, page, row);
    const Place place = {blockOf == first ? block : __ldg(table + page), row};
    blockOf = first + TILE < ahead.end ? first + TILE : -1;
    if (blockOf >= 0) {
      divide(blockOf, a.rows, page, row);
      block = __ldg(table + page);
    }
    return place;
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, KEY_DIM + VALUE_DIM <= 256 ? 2 : 1)
    decode(const __grid_constant__ AttentionArguments a,
           const __grid_constant__ DecodePlan plan) {
  extern __shared__ __align__(128) unsigned char stages[]; // (WARPS, STAGES, STAGE)
  __shared__ CellStates states;
  __shared__ BlockRows rows;
  MatrixFold fold = {stages + threadIdx.x / 32 * STAGES * STAGE, rows,
                     // Used only while a cell is folded carefully.
                     *reinterpret_cast<Seen*>(states.outputs), a.scale * LOG2_E};
  foldUnits(a, plan, states, fold);
}
