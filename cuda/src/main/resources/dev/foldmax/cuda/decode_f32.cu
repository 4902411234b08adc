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
__device__ constexpr int piecesOf(int dim, Type type) { return (dim * sizeOf(type) + 15) / 16; }
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

// See foldUnits. `seen` is of this lane's key, whose values this lane looks through.
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

// A warp's part in foldUnits. Keys and values are copied in turn, one of each under way.
struct FloatFold {
  Shared& shared;
  unsigned char* keys; // of this warp
  unsigned char* values;
  float unit;
  Walk ahead;
  bool starts; // nothing is under way
  bool isPresent; // this lane's key of the tile ahead
  unsigned present; // all lanes' keys
  Place place;
  float keyScale;
  float valueScale;
  WarpState state;

  __device__ __forceinline__ void clear() { state.clear(); }

  __device__ __forceinline__ bool hasNonFinite() const { return state.hasNonFinite(); }

  __device__ __forceinline__ void restart(const Walk& from) {
    ahead = from;
    starts = true;
  }

  __device__ __forceinline__ void setRows(const AttentionArguments& a, const RowTile& tile) {
    ::setRows(a, tile, shared);
  }

  __device__ __forceinline__ void fold(const AttentionArguments& a, CellStates& states,
                                       const Walk& walk, bool careful) {
    if (starts) {
      starts = false;
      copyKeys(a);
      copyValues(a);
    }
    waitForAllBut<1>();
    __syncwarp();
    float score[ROWS];
    multiply(shared, keys, score);
    const unsigned seen =
        weigh(a, shared, walk.position + threadIdx.x, keyScale, valueScale, unit, score, state);
    __syncwarp();
    copyKeys(a);
    waitForAllBut<1>();
    __syncwarp();
    if (careful) {
      sanitise(states, values, seen);
      __syncwarp();
    }
    addValues(shared, values, state);
    __syncwarp();
    copyValues(a);
  }

  __device__ __forceinline__ void leaveSums(CellStates& states) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      float l = state.l[r];
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        l += __shfl_xor_sync(~0u, l, step);
      }
      if (lane == r) {
        states.sums[threadIdx.x / 32][r] = make_float2(state.m[r], l);
      }
    }
  }

  __device__ __forceinline__ void leaveOutputs(CellStates& states, int first) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < MERGED; r++) {
#pragma unroll
      for (int i = 0; i < LANE_QUADS; i++) {
        if (QUADS % 32 == 0 || lane + 32 * i < QUADS) {
          *reinterpret_cast<float4*>(
              &states.outputs[threadIdx.x / 32][r][4 * (lane + 32 * i)]) = state.o[first + r][i];
        }
      }
    }
  }

private:
  // Starts the keys of the tile ahead, and keeps where its values are.
  __device__ __forceinline__ void copyKeys(const AttentionArguments& a) {
    present = 0;
    if (!ahead.atEnd()) {
      const Sequence& s = a.sequences[ahead.rows().sequence];
      const int head = ahead.rows().keyHead;
      const int64 key = ahead.position + threadIdx.x;
      isPresent = key >= s.firstKey && key < s.endKey;
      present = __ballot_sync(~0u, isPresent);
      place = isPresent ? placeOf(a, s, ahead.rows().sequence, key) : Place{0, 0};
      copyRows<piecesOf(KEY_DIM, KEY_TYPE)>(a.k.data, sizeOf(KEY_TYPE) * elementOf(a.k, place, head),
                                            present, sizeOf(KEY_TYPE) * a.keyDim,
                                            sharedAddress(keys), KEY_PITCH);
      keyScale = scaleOf(a.keyScale, head);
      valueScale = scaleOf(a.valueScale, head);
    }
    commitCopies();
  }

  // Starts the values of that tile, and moves on.
  __device__ __forceinline__ void copyValues(const AttentionArguments& a) {
    if (!ahead.atEnd()) {
      copyRows<piecesOf(VALUE_DIM, VALUE_TYPE)>(
          a.v.data, sizeOf(VALUE_TYPE) * elementOf(a.v, place, ahead.rows().keyHead), present,
          sizeOf(VALUE_TYPE) * a.valueDim, sharedAddress(values), VALUE_PITCH);
      ahead.next();
    }
    commitCopies();
  }

  __device__ __forceinline__ float scaleOf(const Broadcast& scale, int head) const {
    return isPresent && scale.data != nullptr
               ? load(scale.data, scale.type, elementOf(scale, place, head))
               : 1.0f;
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    decode(const __grid_constant__ AttentionArguments a,
           const __grid_constant__ DecodePlan plan) {
  extern __shared__ __align__(128) unsigned char buffers[]; // (WARPS, WARP_BYTES)
  __shared__ Shared shared;
  unsigned char* keys = buffers + threadIdx.x / 32 * WARP_BYTES;
  FloatFold fold = {shared, keys, keys + WARP_KEYS * KEY_PITCH, a.scale * LOG2_E};
  foldUnits(a, plan, shared.states, fold);
}
