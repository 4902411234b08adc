// Decoding in float32 multiply-adds: few queries over many keys of any type, also I8 with a scale for
// each row; sm_80 and later.
//
// The rows of a unit of work are the queries of all heads that share a key head (up to ROWS of them).
// A warp takes 32 keys at a time: for scores its lanes are keys, for outputs dimensions. It brings its
// own keys and values into shared memory as they are stored, by asynchronous copies: the next keys
// while it weighs values, the next values while it scores keys.
//
// Within a cell (split.cuh), warp w folds keys 32 w to 32 w + 31 of each tile, and the warps are
// folded in order.
//
// decode       grid: any (a block takes neighbouring units), THREADS, WARPS * WARP_BYTES bytes of
//              dynamic shared memory; then foldChunks of split.cuh
// Options: FOLDMAX_KEY_TYPE and FOLDMAX_VALUE_TYPE (a Type other than F64 and BOOL), FOLDMAX_KEY_DIM
// and FOLDMAX_VALUE_DIM (multiples of 16, up to 256), FOLDMAX_SCORES, FOLDMAX_RESCALE.
#include "elements.cuh"
#include "async.cuh"
#include "scores.cuh"
#include "where.cuh"

constexpr Type KEY_TYPE = Type(FOLDMAX_KEY_TYPE);
constexpr Type VALUE_TYPE = Type(FOLDMAX_VALUE_TYPE);
constexpr int KEY_DIM = FOLDMAX_KEY_DIM;
constexpr int VALUE_DIM = FOLDMAX_VALUE_DIM;
constexpr int ROWS = 8;
constexpr Scores SCORES = Scores(FOLDMAX_SCORES);
constexpr Rescale DIALECT = Rescale(FOLDMAX_RESCALE);

constexpr int WARP_KEYS = 32; // that a warp takes at a time: a key a lane

// Of rows in shared memory, see pieceAt.
__device__ constexpr int pitchOf(int dim, Type type) {
  return (dim * sizeOf(type) + 127) / 128 * 128;
}
constexpr int KEY_PITCH = pitchOf(KEY_DIM, KEY_TYPE);       // bytes
constexpr int VALUE_PITCH = pitchOf(VALUE_DIM, VALUE_TYPE); // bytes
constexpr int WARP_BYTES = WARP_KEYS * (KEY_PITCH + VALUE_PITCH);

constexpr int WARPS = 4 * WARP_BYTES <= 160 * 1024 ? 4 : 2;
constexpr int TILE = WARPS * WARP_KEYS; // keys
constexpr int MERGED = 4;
constexpr int MOST_LEVELS = 2;

#include "split.cuh"


struct Shared {
  CellStates states;
  float q[ROWS][KEY_DIM];
  float weights[WARPS][WARP_KEYS][ROWS];
  RowView views[ROWS];
};

// Starts copying a warp's 32 rows into shared memory; lane l knows the first element of row l. Columns
// past the head dimension and rows past the end become 0.
template <int DIM, Type TYPE>
__device__ __forceinline__ void copyRows(const Matrix& m, int dim, int64 element, bool present,
                                         unsigned char* target, int pitch) {
  constexpr int PIECES = (DIM * sizeOf(TYPE) + 15) / 16; // of a row
  const int lane = threadIdx.x % 32;
#pragma unroll 4
  for (int i = lane; i < WARP_KEYS * PIECES; i += 32) {
    const int key = i / PIECES;
    const int piece = i % PIECES;
    const int64 row = __shfl_sync(~0u, element, key);
    const bool there = __shfl_sync(~0u, (int)present, key);
    const int bytes = there ? min(max(sizeOf(TYPE) * dim - 16 * piece, 0), 16) : 0;
    const unsigned char* source = bytes > 0 ? m.data + sizeOf(TYPE) * row + 16 * piece : m.data;
    copyPart(sharedAddress(pieceAt(target, pitch, key, piece)), source, bytes);
  }
  commitCopies();
}

// Four elements, from a multiple of four on.
template <Type TYPE>
__device__ __forceinline__ float4 quadAt(unsigned char* rows, int pitch, int key, int quad) {
  constexpr int BYTES = 4 * sizeOf(TYPE);
  const unsigned char* data = pieceAt(rows, pitch, key, quad * BYTES / 16) + quad * BYTES % 16;
  float4 x;
  if (TYPE == Type::F32) {
    x = *reinterpret_cast<const float4*>(data);
  } else if (TYPE == Type::I8) {
    const char4 bytes = *reinterpret_cast<const char4*>(data);
    x = make_float4(bytes.x, bytes.y, bytes.z, bytes.w);
  } else {
    const uint2 words = *reinterpret_cast<const uint2*>(data);
    unpack<TYPE>(words.x, x.x, x.y);
    unpack<TYPE>(words.y, x.z, x.w);
  }
  return x;
}

__device__ __forceinline__ void setRows(const AttentionArguments& a, const RowTile& u,
                                        Shared& shared) {
  const Sequence& s = a.sequences[u.sequence];
  const int group = groupOf(a);
  const int rows = u.rows;
  for (int i = threadIdx.x; i < ROWS * KEY_DIM; i += THREADS) {
    const int r = u.firstRow + min(i / KEY_DIM, rows - 1); // spare rows repeat the last
    const int d = i % KEY_DIM;
    const int64 element = s.queryBlock * a.q.block + (u.keyHead * group + r % group) * a.q.head
                          + (s.queryRow + r / group) * a.q.row;
    shared.q[i / KEY_DIM][d] = d < a.keyDim ? load(a.q.data, a.q.type, element + d) : 0.0f;
  }
  if (threadIdx.x < ROWS) {
    shared.views[threadIdx.x] = rowView(a, u, threadIdx.x);
  }
  __syncthreads();
}

// The state of a warp's share of a cell; the same m in all lanes.
struct WarpState {
  float m[ROWS];
  float l[ROWS]; // of this lane's keys alone
  float4 o[ROWS][LANE_QUADS];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      m[r] = EMPTY;
      l[r] = 0.0f;
#pragma unroll
      for (int i = 0; i < LANE_QUADS; i++) {
        o[r][i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      }
    }
  }

  __device__ __forceinline__ bool hasNonFinite() const {
    bool found = false;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
#pragma unroll
      for (int i = 0; i < LANE_QUADS; i++) {
        found |= isNonFinite(o[r][i].x) || isNonFinite(o[r][i].y) || isNonFinite(o[r][i].z)
                 || isNonFinite(o[r][i].w);
      }
    }
    return found;
  }
};

// The dot products of this lane's key with all rows.
__device__ __forceinline__ void multiply(const Shared& shared, unsigned char* keys,
                                         float (&score)[ROWS]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    score[r] = 0.0f;
  }
#pragma unroll 4
  for (int i = 0; i < KEY_DIM / 4; i++) {
    const float4 k = quadAt<KEY_TYPE>(keys, KEY_PITCH, lane, i);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const float4 q = *reinterpret_cast<const float4*>(&shared.q[r][4 * i]);
      score[r] = fmaf(q.x, k.x, score[r]);
      score[r] = fmaf(q.y, k.y, score[r]);
      score[r] = fmaf(q.z, k.z, score[r]);
      score[r] = fmaf(q.w, k.w, score[r]);
    }
  }
}

// The first three of the five lines: scores become weights, in shared memory for the lanes that add
// values, each times its value's scale. Returns which rows see this lane's key, a bit for each.
__device__ __forceinline__ unsigned weigh(const AttentionArguments& a, Shared& shared, int64 key,
                                          float keyScale, float valueScale, float unit,
                                          float (&score)[ROWS], WarpState& state) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  unsigned seen = 0;
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    float s = score[r] * keyScale;
    const RowView& view = shared.views[r];
    const bool shown = key >= view.visible.begin && key < view.visible.end
                       && shownByMasks(a, view.row, key);
    if (SCORES == Scores::GENERAL && shown) {
      s = generalScore(a, a.sequences[view.row.sequence], view.row, view.slope, s, key);
    }
    s = shown ? s : EMPTY;
    float largest = s;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
    }
    const float before = state.m[r];
    const float now = nextMaximum<DIALECT>(before, maximumOf<SCORES>(largest, unit),
                                           toleranceOf<SCORES>(a.tau));
    const float c = correctionOf<SCORES>(before, now);
    const float p = weight<SCORES>(s, shift(now), unit);
    state.m[r] = now;
    state.l[r] = fmaf(state.l[r], c, p);
    if (c != 1.0f) { // the same in all lanes; a product by 1 changes no bit
#pragma unroll
      for (int i = 0; i < LANE_QUADS; i++) {
        state.o[r][i].x *= c;
        state.o[r][i].y *= c;
        state.o[r][i].z *= c;
        state.o[r][i].w *= c;
      }
    }
    const bool isSeen = s != EMPTY;
    shared.weights[warp][lane][r] = isSeen ? p * valueScale : 0.0f;
    seen |= (unsigned)isSeen << r;
  }
  return seen;
}

// A value that is not finite and meets a weight of 0, of a row that does not see it, makes NaN. A cell
// with a non-finite output is therefore folded once more, carefully: whatever is not finite among a
// warp's values becomes 0, and is noted for the rows that see it; their components become NaN when the
// cell is closed. `seen` is of this lane's key, whose values this lane looks through.
__device__ __noinline__ void sanitise(CellStates& states, unsigned char* values, unsigned seen) {
  const int lane = threadIdx.x % 32;
  for (int d = 0; d < VALUE_DIM; d++) {
    const int byte = d * sizeOf(VALUE_TYPE);
    unsigned char* element = pieceAt(values, VALUE_PITCH, lane, byte / 16) + byte % 16;
    bool odd = false;
    if (VALUE_TYPE == Type::F32) {
      float* x = reinterpret_cast<float*>(element);
      odd = isNonFinite(*x);
      *x = odd ? 0.0f : *x;
    } else if (VALUE_TYPE != Type::I8) {
      unsigned short* x = reinterpret_cast<unsigned short*>(element);
      odd = isNonFinite16<VALUE_TYPE>(*x);
      *x = odd ? 0 : *x;
    }
    for (int r = 0; odd && r < ROWS; r++) {
      if (seen >> r & 1) {
        atomicOr(&states.poison[r][d / 32], 1u << d % 32);
      }
    }
  }
}

// The last but one of the five lines.
__device__ __forceinline__ void addValues(const Shared& shared, unsigned char* values,
                                          WarpState& state) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
#pragma unroll 4
  for (int key = 0; key < WARP_KEYS; key++) {
    float p[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r += 4) {
      *reinterpret_cast<float4*>(&p[r]) =
          *reinterpret_cast<const float4*>(&shared.weights[warp][key][r]);
    }
#pragma unroll
    for (int i = 0; i < LANE_QUADS; i++) {
      const int quad = lane + 32 * i;
      if (QUADS % 32 == 0 || quad < QUADS) {
        const float4 v = quadAt<VALUE_TYPE>(values, VALUE_PITCH, key, quad);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
          state.o[r][i].x = fmaf(p[r], v.x, state.o[r][i].x);
          state.o[r][i].y = fmaf(p[r], v.y, state.o[r][i].y);
          state.o[r][i].z = fmaf(p[r], v.z, state.o[r][i].z);
          state.o[r][i].w = fmaf(p[r], v.w, state.o[r][i].w);
        }
      }
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
  for (int r = 0; r < ROWS; r++) {
    float l = state.l[r];
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      l += __shfl_xor_sync(~0u, l, step);
    }
    if (lane == r) {
      states.sums[warp][r] = make_float2(state.m[r], l);
    }
  }
#pragma unroll
  for (int first = 0; first < ROWS; first += MERGED) {
    if (first >= rows) {
      break;
    }
#pragma unroll
    for (int r = 0; r < MERGED; r++) {
#pragma unroll
      for (int i = 0; i < LANE_QUADS; i++) {
        if (QUADS % 32 == 0 || lane + 32 * i < QUADS) {
          *reinterpret_cast<float4*>(&states.outputs[warp][r][4 * (lane + 32 * i)]) =
              state.o[first + r][i];
        }
      }
    }
    __syncthreads();
    foldWarps(plan, states, closing, first);
    __syncthreads();
  }
}

// The copies of a warp: keys and values in turn, one of each under way.
struct Copies {
  unsigned char* keys;
  unsigned char* values;
  Walk ahead;
  bool present; // of this lane's key of the tile ahead
  Place place;
  float keyScale;
  float valueScale;

  // Starts the keys of the tile ahead, and keeps where its values are.
  __device__ __forceinline__ void copyKeys(const AttentionArguments& a, const DecodePlan& plan) {
    present = false;
    place = {0, 0};
    if (!ahead.settle(a, plan)) {
      commitCopies();
      return;
    }
    const Sequence& s = a.sequences[ahead.rows.sequence];
    const int64 key = ahead.position + threadIdx.x;
    present = key >= s.firstKey && key < s.endKey;
    if (present) {
      place = placeOf(a, s, ahead.rows.sequence, key);
    }
    copyRows<KEY_DIM, KEY_TYPE>(a.k, a.keyDim, elementOf(a.k, place, ahead.rows.keyHead), present,
                                keys, KEY_PITCH);
    keyScale = present && a.keyScale.data != nullptr
                   ? load(a.keyScale.data, a.keyScale.type,
                          elementOf(a.keyScale, place, ahead.rows.keyHead))
                   : 1.0f;
    valueScale = present && a.valueScale.data != nullptr
                     ? load(a.valueScale.data, a.valueScale.type,
                            elementOf(a.valueScale, place, ahead.rows.keyHead))
                     : 1.0f;
  }

  // Starts the values of that tile, and moves on.
  __device__ __forceinline__ void copyValues(const AttentionArguments& a,
                                             const DecodePlan& plan) {
    if (!ahead.settle(a, plan)) {
      commitCopies();
      return;
    }
    copyRows<VALUE_DIM, VALUE_TYPE>(a.v, a.valueDim, elementOf(a.v, place, ahead.rows.keyHead),
                                    present, values, VALUE_PITCH);
    ahead.position += TILE;
  }

  __device__ __forceinline__ void restart(const AttentionArguments& a, const DecodePlan& plan,
                                          const Walk& from) {
    waitForCopies();
    ahead = from;
    copyKeys(a, plan);
    copyValues(a, plan);
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    decode(const __grid_constant__ AttentionArguments a,
           const __grid_constant__ DecodePlan plan) {
  extern __shared__ __align__(128) unsigned char buffers[]; // (WARPS, WARP_BYTES)
  __shared__ Shared shared;
  const float unit = a.scale * LOG2_E;
  letNextStart();
  Walk walk = blocksWalk(a, plan);
  Copies copies;
  copies.keys = buffers + threadIdx.x / 32 * WARP_BYTES;
  copies.values = copies.keys + WARP_KEYS * KEY_PITCH;
  copies.restart(a, plan, walk);
  WarpState state;
  unsigned occupied = 0;
  int rowsOf = -1;  // the row tile that is in shared memory
  int cellsOf = -1; // the unit whose cell is being folded
  int64 cellBegin = 0;
  bool careful = false; // see sanitise
  while (walk.settle(a, plan)) {
    if (rowsOf != walk.rows.number) {
      rowsOf = walk.rows.number;
      setRows(a, walk.rows, shared);
    }
    if (cellsOf != walk.unit) {
      cellsOf = walk.unit;
      cellBegin = walk.position;
      state.clear();
    }
    waitForAllBut<1>();
    __syncwarp();
    float score[ROWS];
    multiply(shared, copies.keys, score);
    const unsigned seen = weigh(a, shared, walk.position + threadIdx.x, copies.keyScale,
                                copies.valueScale, unit, score, state);
    __syncwarp();
    copies.copyKeys(a, plan);
    waitForAllBut<1>();
    __syncwarp();
    if (careful) {
      sanitise(shared.states, copies.values, seen);
      __syncwarp();
    }
    addValues(shared, copies.values, state);
    __syncwarp();
    copies.copyValues(a, plan);
    walk.position += TILE;
    const bool last = walk.position >= walk.end;
    if (!last && walk.position % CELL != 0) {
      continue;
    }
    if (!careful && __syncthreads_or(state.hasNonFinite())) {
      careful = true;
      walk.position = cellBegin;
      copies.restart(a, plan, walk);
      clearPoison(shared.states);
    } else {
      const Closing c = closing(plan, walk.unit, (walk.position - 1) / CELL, last, careful,
                                occupied);
      closeCell(plan, shared.states, state, c, walk.rows.rows);
      occupied = c.occupiedAfter();
      careful = false;
      cellBegin = walk.position;
    }
    state.clear();
  }
}
