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
// decode       grid: any (units are taken in strides of it), THREADS, WARPS * STAGES * STAGE bytes of
//              dynamic shared memory; then foldChunks of split.cuh
// Options: FOLDMAX_TYPE (1 F16, 2 BF16), FOLDMAX_KEY_DIM and FOLDMAX_VALUE_DIM (multiples of 16, up
// to 256), FOLDMAX_SCORES, FOLDMAX_RESCALE; and, for the same bits, FOLDMAX_ROWS (8 or 16) and
// FOLDMAX_STAGES (2 or 3).
#include "elements.cuh"
#include "matrix.cuh"
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
constexpr int MOST_LEVELS = ROWS == 8 ? 2 : 0; // of the tree inside a unit; shared memory sets it
constexpr int STAGES = FOLDMAX_STAGES;    // of a warp's keys and values in shared memory
constexpr int PARTS = ROWS / 8;           // column blocks of the matrix instruction
constexpr int MERGED = 4;                 // rows whose warps are folded at a time

// Rows of keys and values in shared memory have a multiple of 128 bytes; their 16-byte pieces are
// permuted within each 128 bytes by the key's number, so that 8 keys' pieces lie in different banks.
constexpr int KEY_PITCH = (KEY_DIM + 63) / 64 * 128;     // bytes
constexpr int VALUE_PITCH = (VALUE_DIM + 63) / 64 * 128; // bytes
constexpr int STAGE = WARP_KEYS * (KEY_PITCH + VALUE_PITCH);

#include "split.cuh"

// Whether a row has a score above -inf for a key.
typedef unsigned char Seen[WARPS][WARP_KEYS][ROWS];

// The 16-byte piece of a row in shared memory.
__device__ __forceinline__ unsigned pieceAt(unsigned rows, int pitch, int key, int piece) {
  return rows + key * pitch + (((piece & ~7) | ((piece ^ key) & 7)) << 4);
}

// Starts copying 16 rows of keys or values into shared memory. Columns past the head dimension and
// rows without a bit in `present` become 0. `begin` is where a row begins, in bytes from `data`: that
// of the tile's first row if IS_STRAIGHT, the others following at a distance of `stride`; else lane l
// has that of row l % 16.
template <int DIM, bool IS_STRAIGHT>
__device__ __forceinline__ void copyRows(const unsigned char* data, int64 begin, int64 stride,
                                         unsigned present, int dim, unsigned target, int pitch) {
  constexpr int PIECES = DIM / 8; // of a row
  const int lane = threadIdx.x % 32;
  const unsigned char* first = data + begin;
#pragma unroll
  for (int i = 0; i < WARP_KEYS * PIECES / 32; i++) {
    const int key = (i * 32 + lane) / PIECES;
    const int piece = (i * 32 + lane) % PIECES;
    const unsigned char* row =
        IS_STRAIGHT ? first + key * stride : data + __shfl_sync(~0u, begin, key);
    const int bytes = present >> key & 1 ? min(max(2 * dim - 16 * piece, 0), 16) : 0;
    copyAsync16(pieceAt(target, pitch, key, piece), bytes > 0 ? row + 16 * piece : data, bytes);
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

// What a thread knows of its rows in a unit.
struct ThreadRows {
  unsigned q[PARTS][KEY_DIM / 16][2]; // of row 8 p + g, as the right operand
  Row row[PARTS][2];                  // of rows 8 p + 2 t and the next
  Interval visible[PARTS][2];
  float slope[PARTS][2];
  Interval visibleToAll; // keys that every row of the unit sees, boolean masks aside
};

__device__ __forceinline__ void setRows(const AttentionArguments& a, const RowTile& u,
                                        ThreadRows& mine) {
  const Sequence& s = a.sequences[u.sequence];
  const int group = groupOf(a);
  const int rows = u.firstRow + u.rows;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int p = 0; p < PARTS; p++) {
    const int r = u.firstRow + 8 * p + lane / 4;
    const int64 element = s.queryBlock * a.q.block + (u.keyHead * group + r % group) * a.q.head
                          + (s.queryRow + r / group) * a.q.row;
    const unsigned short* q = reinterpret_cast<const unsigned short*>(a.q.data) + element;
#pragma unroll
    for (int c = 0; c < KEY_DIM / 16; c++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int d = 16 * c + 8 * half + 2 * (lane % 4);
        const unsigned low = r < rows && d < a.keyDim ? q[d] : 0;
        const unsigned high = r < rows && d + 1 < a.keyDim ? q[d + 1] : 0;
        mine.q[p][c][half] = low | high << 16;
      }
    }
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int own = min(u.firstRow + 8 * p + 2 * (lane % 4) + e, rows - 1); // spare rows repeat
      mine.row[p][e] = {u.sequence, u.keyHead * group + own % group, own / group,
                        s.firstKey};
      mine.visible[p][e] = visibleTo(s, own / group);
      mine.slope[p][e] = slopeOf(a, u.sequence, mine.row[p][e].head);
    }
  }
  mine.visibleToAll = {visibleTo(s, (rows - 1) / group).begin,
                       visibleTo(s, u.firstRow / group).end};
}

// A value that is not finite and meets a weight of 0, of a row that does not see it, makes NaN. A cell
// with a non-finite output is therefore folded once more, carefully: whatever is not finite among a
// warp's 16 values becomes 0, which gives rows that do not see it the bits that they would have had,
// and is noted for the rows that do; their components become NaN when the cell is closed.
__device__ __noinline__ void sanitise(CellStates& states, const Seen& seen,
                                      unsigned char* values) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  for (int i = lane; i < WARP_KEYS * VALUE_DIM; i += 32) {
    const int key = i / VALUE_DIM;
    const int d = i % VALUE_DIM;
    unsigned short* element =
        reinterpret_cast<unsigned short*>(values + pieceAt(0, VALUE_PITCH, key, d / 8)) + d % 8;
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
                                         const ThreadRows& mine, int64 position, float unit,
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
      multiplyAdd<TYPE>(s[p][c % 2], k, mine.q[p][c]);
    }
  }
  const bool whole = a.maskCount == 0 && position >= mine.visibleToAll.begin
                     && position + WARP_KEYS <= mine.visibleToAll.end;
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
        const Interval& visible = mine.visible[p][i % 2];
        const Row& row = mine.row[p][i % 2];
        const bool shown = key >= visible.begin && key < visible.end
                           && shownByMasks(a, row, key);
        if (SCORES == Scores::GENERAL && shown) {
          score[i] = generalScore(a, a.sequences[row.sequence], row, mine.slope[p][i % 2],
                                  score[i], key);
        }
        score[i] = shown ? score[i] : EMPTY;
      }
    }
    if (careful) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        seen[threadIdx.x / 32][lane / 4 + i / 2 * 8][8 * p + 2 * (lane % 4) + i % 2] =
            score[i] != EMPTY;
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
    loadTransposedMatrices(
        v, pieceAt(values, VALUE_PITCH, matrix / 2 * 8 + lane % 8, 2 * d + matrix % 2));
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
      multiplyAdd<TYPE>(state.o[p][d], v, weights[p]);
    }
  }
}

// Closes the block's cell, of a unit of `rows` rows.
__device__ __forceinline__ void closeCell(const DecodePlan& plan, CellStates& states,
                                          const WarpState& state, const Closing& closing,
                                          int rows) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
#pragma unroll
  for (int p = 0; p < PARTS; p++) {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      float l = state.l[p][e];
#pragma unroll
      for (int step = 4; step < 32; step *= 2) {
        l += __shfl_xor_sync(~0u, l, step);
      }
      if (lane < 4) {
        states.sums[warp][8 * p + 2 * lane + e] = make_float2(state.m[p][e], l);
      }
    }
  }
#pragma unroll
  for (int first = 0; first < ROWS; first += MERGED) {
    if (first >= rows) {
      break;
    }
    if (lane % 4 / 2 == first % 8 / MERGED) {
#pragma unroll
      for (int d = 0; d < VALUE_DIM / 16; d++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
          states.outputs[warp][2 * (lane % 2) + i % 2][16 * d + lane / 4 + i / 2 * 8] =
              state.o[first / 8][d][i];
        }
      }
    }
    __syncthreads();
    foldWarps(plan, states, closing, first);
    __syncthreads();
  }
}

// Copies of a warp's tiles run STAGES - 1 steps ahead of the fold.
struct Pipeline {
  unsigned char* stages; // of this warp
  Walk ahead;
  int next; // stage to fill

  __device__ __forceinline__ void copyNext(const AttentionArguments& a, const DecodePlan& plan) {
    if (ahead.settle(a, plan)) {
      const Sequence& s = a.sequences[ahead.rows.sequence];
      const int64 first = ahead.position + threadIdx.x / 32 * WARP_KEYS;
      const int64 key = first + threadIdx.x % WARP_KEYS;
      const bool isPresent = key >= s.firstKey && key < s.endKey;
      const unsigned present = __ballot_sync(~0u, isPresent);
      const unsigned target = sharedAddress(stages + next * STAGE);
      const int head = ahead.rows.keyHead;
      const unsigned values = target + WARP_KEYS * KEY_PITCH;
      if (a.layout == Layout::STRAIGHT) {
        const Place place = {s.keyBlock, s.keyRow + first};
        copyRows<KEY_DIM, true>(a.k.data, 2 * elementOf(a.k, place, head), 2 * a.k.row, present,
                                a.keyDim, target, KEY_PITCH);
        copyRows<VALUE_DIM, true>(a.v.data, 2 * elementOf(a.v, place, head), 2 * a.v.row, present,
                                  a.valueDim, values, VALUE_PITCH);
      } else {
        const Place place =
            isPresent ? placeOf(a, s, ahead.rows.sequence, key) : Place{0, 0};
        copyRows<KEY_DIM, false>(a.k.data, 2 * elementOf(a.k, place, head), 0, present, a.keyDim,
                                 target, KEY_PITCH);
        copyRows<VALUE_DIM, false>(a.v.data, 2 * elementOf(a.v, place, head), 0, present,
                                   a.valueDim, values, VALUE_PITCH);
      }
      ahead.position += TILE;
    }
    commitCopies();
    next = next + 1 == STAGES ? 0 : next + 1;
  }

  // From the walk's place on, once nothing is under way.
  __device__ __forceinline__ void refill(const AttentionArguments& a, const DecodePlan& plan,
                                         const Walk& from) {
    ahead = from;
    next = 0;
    for (int i = 0; i < STAGES - 1; i++) {
      copyNext(a, plan);
    }
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, KEY_DIM + VALUE_DIM <= 256 ? 2 : 1)
    decode(const __grid_constant__ AttentionArguments a,
           const __grid_constant__ DecodePlan plan) {
  extern __shared__ __align__(128) unsigned char stages[]; // (WARPS, STAGES, STAGE)
  __shared__ CellStates states;
  Seen& seen = *reinterpret_cast<Seen*>(states.outputs); // the one is done with before the other
  const int warp = threadIdx.x / 32;
  const float unit = a.scale * LOG2_E;
  letNextStart();
  Walk walk = blocksWalk(a, plan);
  Pipeline pipeline;
  pipeline.stages = stages + warp * STAGES * STAGE;
  pipeline.refill(a, plan, walk);
  ThreadRows mine;
  WarpState state;
  unsigned occupied = 0;
  int rowsOf = -1;   // the row tile that `mine` belongs to
  int cellsOf = -1;  // the unit whose cell is being folded
  int stage = 0;
  int64 cellBegin = 0;
  bool careful = false; // see sanitise
  while (walk.settle(a, plan)) {
    if (rowsOf != walk.rows.number) {
      rowsOf = walk.rows.number;
      setRows(a, walk.rows, mine);
    }
    if (cellsOf != walk.unit) {
      cellsOf = walk.unit;
      cellBegin = walk.position;
      state.clear();
    }
    waitForCopies<STAGES - 2>();
    __syncwarp();
    pipeline.copyNext(a, plan);
    foldKeys(a, states, seen, mine, walk.position + warp * WARP_KEYS, unit,
             pipeline.stages + stage * STAGE, careful, state);
    __syncwarp();
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    walk.position += TILE;
    const bool last = walk.position >= walk.end;
    if (!last && walk.position % CELL != 0) {
      continue;
    }
    if (!careful && __syncthreads_or(state.hasNonFinite())) {
      careful = true;
      walk.position = cellBegin;
      waitForCopies<0>();
      pipeline.refill(a, plan, walk);
      stage = 0;
      clearPoison(states);
    } else {
      const Closing c = closing(plan, walk.unit, (walk.position - 1) / CELL, last, careful,
                                occupied);
      closeCell(plan, states, state, c, walk.rows.rows);
      occupied = c.occupiedAfter();
      careful = false;
      cellBegin = walk.position;
    }
    state.clear();
  }
}
