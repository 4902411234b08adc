// Attention in float32 multiply-adds, for queries, keys and values of any storage type: no TF32.
//
// A block of 256 threads holds BM queries of one head and a slice of the value dimension; it goes
// over the keys in tiles of BN at absolute multiples of BN. Keys arrive in chunks of CHUNK dimensions
// and values in chunks of CHUNK keys; while one chunk is worked on, the next is on its way into the
// other of two buffers: directly where it is F32 and in order, else by registers, as stored, and is
// widened when it is put there.
//
//   S = Q K'   each thread 8 x BN / 16 of (BM, BN)
//   the five lines of state.cuh, P to shared memory
//   O = O c + P V   each thread 8 x SLICE / 16 of (BM, SLICE)
//
// grid    (sequence, query head, slice, query tile), the last query tiles first
// block, shared memory and tiles: launchShape
// options FOLDMAX_KEY_DIM, FOLDMAX_VALUE_DIM: at least the dimensions, multiples of 16
//         FOLDMAX_RESCALE
//         FOLDMAX_SHARED: the most bytes of shared memory that a block may have
// repair  see repair.cuh
#include "async.cuh"
#include "launch.cuh"
#include "prefill.cuh"
#include "scores.cuh"

namespace {

constexpr Rescale DIALECT = (Rescale)FOLDMAX_RESCALE;
constexpr int BM = 128;
constexpr int THREADS = 256;
constexpr int CHUNK = 32;
constexpr int QUAD = 4; // elements that are fetched at once
constexpr int KEY_DIM = (FOLDMAX_KEY_DIM + CHUNK - 1) / CHUNK * CHUNK;

// Rows in shared memory are padded by 16 bytes, so that 8 rows lie in different banks.
constexpr int K_STRIDE = CHUNK + QUAD;

template <int BN, int SLICE, bool RESIDENT>
struct SharedOf {
  // All queries, or two chunks of them, which come along with the keys.
  float q[RESIDENT ? 1 : 2][BM * ((RESIDENT ? KEY_DIM : CHUNK) + QUAD)];
  // Keys (BN, K_STRIDE) or values (CHUNK, SLICE).
  float chunk[2][BN * K_STRIDE > CHUNK * SLICE ? BN * K_STRIDE : CHUNK * SLICE];
  float p[BM * (BN + QUAD)];
  float halves[2][BM]; // of the rows' reductions: each half of the columns is another warp's
  int64 begin[BM];     // what each row sees
  int64 end[BM];
  Work work;
  TileSources sources;
  TileRange seen;
  int64 first; // the position at which tile 0 starts
};

// As large as shared memory allows.
template <int BN, int SLICE, bool RESIDENT>
constexpr bool FITS = sizeof(SharedOf<BN, SLICE, RESIDENT>) <= FOLDMAX_SHARED;
constexpr int MOST_SLICE = FOLDMAX_VALUE_DIM <= 64 ? 64 : 128;
constexpr bool RESIDENT = FITS<128, MOST_SLICE, true>;
constexpr bool IS_LARGE = RESIDENT || FITS<128, MOST_SLICE, false>;
constexpr int BN = IS_LARGE ? 128 : 64;
constexpr int SLICE = IS_LARGE ? MOST_SLICE : 64;
typedef SharedOf<BN, SLICE, RESIDENT> Shared;
static_assert(sizeof(Shared) <= FOLDMAX_SHARED, "every device has so much");

constexpr int SLICES = (FOLDMAX_VALUE_DIM + SLICE - 1) / SLICE;
constexpr int KEY_CHUNKS = KEY_DIM / CHUNK;
constexpr int VALUE_CHUNKS = BN / CHUNK;
constexpr int QUERY_QUADS = BM * CHUNK / QUAD / THREADS; // a thread's part of a chunk of queries
constexpr int KEY_QUADS = BN * CHUNK / QUAD / THREADS;
constexpr int VALUE_QUADS = SLICE * CHUNK / QUAD / THREADS;
constexpr int STAGED = KEY_QUADS > VALUE_QUADS ? KEY_QUADS : VALUE_QUADS;
constexpr int KEY_STEPS = SLICE <= 64 ? 2 : 1; // unrolled, as far as there are registers
constexpr int Q_STRIDE = (RESIDENT ? KEY_DIM : CHUNK) + QUAD;
constexpr int P_STRIDE = BN + QUAD;

// Four elements as they are stored; where they leave words, y of I8 and z of 16-bit types are the row's
// scale.
typedef uint4 Quad;
constexpr unsigned ONE = 0x3f800000u; // the bits of 1.0f

__device__ __forceinline__ Quad fetch(const Matrix& m, int64 row, int column) {
  const unsigned char* at = m.data + (row + column) * sizeOf(m.type);
  if (m.type == Type::F32) {
    return load16(at);
  }
  if (m.type == Type::I8) {
    return {__ldg(reinterpret_cast<const unsigned*>(at)), ONE, 0, 0};
  }
  const uint2 two = __ldg(reinterpret_cast<const uint2*>(at));
  return {two.x, two.y, ONE, 0};
}

// The same elements times a row's scale.
__device__ __forceinline__ Quad scaled(Quad quad, Type type, float scale) {
  if (type == Type::F32) {
    return {__float_as_uint(__uint_as_float(quad.x) * scale),
            __float_as_uint(__uint_as_float(quad.y) * scale),
            __float_as_uint(__uint_as_float(quad.z) * scale),
            __float_as_uint(__uint_as_float(quad.w) * scale)};
  }
  if (type == Type::I8) {
    quad.y = __float_as_uint(scale);
  } else {
    quad.z = __float_as_uint(scale);
  }
  return quad;
}

// The values of a quad of which the first `count` lie in the row; the others are 0.
__device__ __forceinline__ float4 widened(const Quad& quad, Type type, int count) {
  float x[QUAD];
  if (type == Type::F32) {
    x[0] = __uint_as_float(quad.x);
    x[1] = __uint_as_float(quad.y);
    x[2] = __uint_as_float(quad.z);
    x[3] = __uint_as_float(quad.w);
  } else if (type == Type::I8) {
#pragma unroll
    for (int i = 0; i < QUAD; i++) {
      x[i] = (float)(signed char)(quad.x >> (8 * i)) * __uint_as_float(quad.y);
    }
  } else {
    if (type == Type::F16) {
      unpack<Type::F16>(quad.x, x[0], x[1]);
      unpack<Type::F16>(quad.y, x[2], x[3]);
    } else {
      unpack<Type::BF16>(quad.x, x[0], x[1]);
      unpack<Type::BF16>(quad.y, x[2], x[3]);
    }
#pragma unroll
    for (int i = 0; i < QUAD; i++) {
      x[i] *= __uint_as_float(quad.z);
    }
  }
  return {count > 0 ? x[0] : 0.0f, count > 1 ? x[1] : 0.0f, count > 2 ? x[2] : 0.0f,
          count > 3 ? x[3] : 0.0f};
}

__device__ __forceinline__ float& component(float4& x, int i) {
  return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

// One block's work on one task. Threads are (4, 2) warps of (4, 8) lanes over (BM, BN) and
// (BM, SLICE): a thread has rows row(0..7) and columns 8 apart, of values 4 in a row.
struct Block : AtWork<Shared> {
  static constexpr int ROWS = 8;
  static constexpr int COLUMNS = BN / 16;
  static constexpr int GROUPS = SLICE / 64; // of 4 columns of values

  const int half;     // of the columns, a warp's
  const int lane8;    // of the columns within
  const int firstRow; // 4 apart from here
  float o[ROWS][GROUPS * QUAD] = {};
  float m[ROWS];
  float l[ROWS] = {}; // of this thread's columns
  Quad staged[STAGED];
  Quad stagedQ[RESIDENT ? 1 : QUERY_QUADS];

  __device__ __forceinline__ Block(const AttentionArguments& a, Shared& shared, Pass pass)
      : AtWork(a, shared, pass),
        half(threadIdx.x / 32 % 2),
        lane8(threadIdx.x % 8),
        firstRow(threadIdx.x / 64 * 32 + threadIdx.x % 32 / 8) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
      m[i] = EMPTY;
    }
  }

  __device__ __forceinline__ int row(int i) const { return firstRow + 4 * i; }
  __device__ __forceinline__ int column(int j) const { return half * (BN / 2) + lane8 + 8 * j; }
  __device__ __forceinline__ int valueColumn(int g) const {
    return half * (SLICE / 2) + lane8 * QUAD + 32 * g;
  }

  __device__ __forceinline__ Quad fetchQuery(int r, int dim) const {
    if (!hasRow(r) || dim >= a.keyDim) {
      return {0, 0, 0, 0};
    }
    return fetch(a.q, elementOf(a.q, placeOfRow(r), task.head), dim);
  }

  __device__ __forceinline__ Quad fetchKey(const Matrix& matrix, const Broadcast& scale,
                                           int64 position, int dim, int dims) const {
    if (position < s.firstKey || position >= s.endKey || dim >= dims) {
      return {0, 0, 0, 0};
    }
    const Place place = placeOf(a, s, task.sequence, position);
    const Quad quad = fetch(matrix, elementOf(matrix, place, keyHead), dim);
    return scale.data == nullptr
               ? quad
               : scaled(quad, matrix.type,
                        load(scale.data, scale.type, elementOf(scale, place, keyHead)));
  }

  // Whether a chunk of a tile can be copied directly.
  __device__ __forceinline__ bool isDirect(int tile, int chunk) const {
    return (chunk < KEY_CHUNKS
                ? RESIDENT && a.k.type == Type::F32 && a.keyScale.data == nullptr
                : pass == Pass::PLAIN && a.v.type == Type::F32 && a.valueScale.data == nullptr)
           && tile >= shared.sources.runsFrom && tile < shared.sources.runsTo;
  }

  // Starts copies of it.
  __device__ __forceinline__ void copyChunk(int tile, int chunk, int buffer) {
    const unsigned to = sharedAddress(shared.chunk[buffer]);
    if (chunk < KEY_CHUNKS) {
      copyRows<CHUNK / QUAD, KEY_QUADS>(shared.sources.keys, tile * BN, chunk * CHUNK, a.keyDim, to,
                                        K_STRIDE);
    } else {
      copyRows<SLICE / QUAD, VALUE_QUADS>(shared.sources.values,
                                          tile * BN + (chunk - KEY_CHUNKS) * CHUNK, 0,
                                          a.valueDim - task.slice * SLICE, to, SLICE);
    }
  }

  // Rows of QUADS quads from row `row` and column `column` on, COUNT for each thread.
  template <int QUADS, int COUNT>
  __device__ __forceinline__ void copyRows(const Run& from, int row, int column,
                                           int columns, unsigned to, int stride) {
    const int r = threadIdx.x / QUADS;
    const int c = threadIdx.x % QUADS * QUAD;
    const int64 rowBytes = from.rowBytes;
    const unsigned char* at = from.row0 + (row + r) * rowBytes + (column + c) * sizeof(float);
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      copy16(to + ((r + i * (THREADS / QUADS)) * stride + c) * sizeof(float), at,
             column + c < columns);
      at += rowBytes * (THREADS / QUADS);
    }
  }

  // Starts the way of a chunk of the tile at `start`: keys first, then values.
  __device__ __forceinline__ void fetchChunk(int64 start, int chunk) {
    if (chunk < KEY_CHUNKS) {
#pragma unroll
      for (int i = 0; i < KEY_QUADS; i++) {
        const int r = (threadIdx.x + THREADS * i) / (CHUNK / QUAD);
        const int dim = chunk * CHUNK + threadIdx.x % (CHUNK / QUAD) * QUAD;
        staged[i] = fetchKey(a.k, a.keyScale, start + r, dim, a.keyDim);
      }
#pragma unroll
      for (int i = 0; i < (RESIDENT ? 0 : QUERY_QUADS); i++) {
        const int r = (threadIdx.x + THREADS * i) / (CHUNK / QUAD);
        stagedQ[i] = fetchQuery(r, chunk * CHUNK + threadIdx.x % (CHUNK / QUAD) * QUAD);
      }
    } else {
#pragma unroll
      for (int i = 0; i < VALUE_QUADS; i++) {
        const int key = (chunk - KEY_CHUNKS) * CHUNK
                        + (threadIdx.x + THREADS * i) / (SLICE / QUAD);
        const int dim = task.slice * SLICE + threadIdx.x % (SLICE / QUAD) * QUAD;
        staged[i] = fetchKey(a.v, a.valueScale, start + key, dim, a.valueDim);
      }
    }
  }

  // Puts what was fetched into a buffer.
  __device__ __forceinline__ void putChunk(int chunk, int buffer) {
    float* to = shared.chunk[buffer];
    if (chunk < KEY_CHUNKS) {
#pragma unroll
      for (int i = 0; i < KEY_QUADS; i++) {
        const int r = (threadIdx.x + THREADS * i) / (CHUNK / QUAD);
        const int dim = threadIdx.x % (CHUNK / QUAD) * QUAD;
        *reinterpret_cast<float4*>(to + r * K_STRIDE + dim) = 
            widened(staged[i], a.k.type, a.keyDim - chunk * CHUNK - dim);
      }
#pragma unroll
      for (int i = 0; i < (RESIDENT ? 0 : QUERY_QUADS); i++) {
        const int r = (threadIdx.x + THREADS * i) / (CHUNK / QUAD);
        const int dim = threadIdx.x % (CHUNK / QUAD) * QUAD;
        *reinterpret_cast<float4*>(shared.q[RESIDENT ? 0 : buffer] + r * Q_STRIDE + dim) =
            widened(stagedQ[i], a.q.type, a.keyDim - chunk * CHUNK - dim);
      }
    } else {
#pragma unroll
      for (int i = 0; i < VALUE_QUADS; i++) {
        const int dim = task.slice * SLICE + threadIdx.x % (SLICE / QUAD) * QUAD;
        float4 x = widened(staged[i], a.v.type, a.valueDim - dim);
        if (pass != Pass::PLAIN) {
#pragma unroll
          for (int c = 0; c < QUAD; c++) {
            component(x, c) = valueIn(pass, component(x, c));
          }
        }
        *reinterpret_cast<float4*>(to + (threadIdx.x + THREADS * i) * QUAD) = x;
      }
    }
  }

  __device__ __forceinline__ void putQueries() {
#pragma unroll 4
    for (int i = threadIdx.x; i < BM * KEY_DIM / QUAD; i += THREADS) {
      const int r = i / (KEY_DIM / QUAD);
      const int dim = i % (KEY_DIM / QUAD) * QUAD;
      *reinterpret_cast<float4*>(shared.q[0] + r * Q_STRIDE + dim) =
          widened(fetchQuery(r, dim), a.q.type, a.keyDim - dim);
    }
  }

  // S += Q K' over a chunk of dimensions; the first chunk starts from 0.
  __device__ __forceinline__ void multiplyKeys(float (&scores)[ROWS][COLUMNS], int chunk,
                                               int buffer) {
    const float* q = shared.q[RESIDENT ? 0 : buffer] + firstRow * Q_STRIDE
                     + (RESIDENT ? chunk * CHUNK : 0);
    const float* k = shared.chunk[buffer] + column(0) * K_STRIDE;
    if (chunk == 0) {
#pragma unroll
      for (int i = 0; i < ROWS; i++) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
          scores[i][j] = 0.0f;
        }
      }
    }
#pragma unroll KEY_STEPS
    for (int d = 0; d < CHUNK; d += QUAD, q += QUAD, k += QUAD) {
      float4 x[ROWS];
#pragma unroll
      for (int i = 0; i < ROWS; i++) {
        x[i] = *reinterpret_cast<const float4*>(q + 4 * i * Q_STRIDE);
      }
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) {
        float4 y = *reinterpret_cast<const float4*>(k + 8 * j * K_STRIDE);
#pragma unroll
        for (int c = 0; c < QUAD; c++) {
#pragma unroll
          for (int i = 0; i < ROWS; i++) {
            scores[i][j] = fmaf(component(x[i], c), component(y, c), scores[i][j]);
          }
        }
      }
    }
  }

  // O += P V over a chunk of keys.
  __device__ __forceinline__ void multiplyValues(int chunk, int buffer) {
    const float* p = shared.p + firstRow * P_STRIDE + chunk * CHUNK;
    const float* v = shared.chunk[buffer] + valueColumn(0);
#pragma unroll 2
    for (int key = 0; key < CHUNK; key += QUAD, p += QUAD, v += QUAD * SLICE) {
      float4 x[ROWS];
#pragma unroll
      for (int i = 0; i < ROWS; i++) {
        x[i] = *reinterpret_cast<const float4*>(p + 4 * i * P_STRIDE);
      }
#pragma unroll
      for (int e = 0; e < QUAD; e++) {
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
          float4 y = *reinterpret_cast<const float4*>(v + e * SLICE + 32 * g);
#pragma unroll
          for (int i = 0; i < ROWS; i++) {
#pragma unroll
            for (int c = 0; c < QUAD; c++) {
              o[i][g * QUAD + c] = fmaf(component(x[i], e), component(y, c), o[i][g * QUAD + c]);
            }
          }
        }
      }
    }
  }

  // Scores of what has nothing but a scale and an interval.
  __device__ __forceinline__ void scale(float (&scores)[ROWS][COLUMNS], int64 start, bool edge) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) {
        scores[i][j] *= a.scale;
      }
      if (edge) {
        const int begin = columnIn(shared.begin[row(i)] - start, BN);
        const int end = columnIn(shared.end[row(i)] - start, BN);
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
          scores[i][j] = column(j) >= begin && column(j) < end ? scores[i][j] : EMPTY;
        }
      }
    }
  }

  // The same with everything that a score may have; through shared memory, so that the code for
  // one element is there once. No thread reads what another wrote.
  __device__ __forceinline__ void transform(float (&scores)[ROWS][COLUMNS], int64 start) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) {
        shared.p[row(i) * P_STRIDE + column(j)] = scores[i][j];
      }
    }
    const float slope = slopeOf(a, task.sequence, task.head);
#pragma unroll 1
    for (int i = 0; i < ROWS; i++) {
      const Row r = {task.sequence, task.head, task.query + row(i), s.firstKey};
      const int64 begin = shared.begin[row(i)];
      const int64 end = shared.end[row(i)];
#pragma unroll 1
      for (int j = 0; j < COLUMNS; j++) {
        const int64 position = start + column(j);
        float& x = shared.p[row(i) * P_STRIDE + column(j)];
        x = position >= begin && position < end && shownByMasks(a, r, position)
                ? generalScore(a, s, r, slope, x, position)
                : EMPTY;
      }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) {
        scores[i][j] = shared.p[row(i) * P_STRIDE + column(j)];
      }
    }
  }

  // TAINT: a visible key weighs 1.
  __device__ __forceinline__ void flatten(float (&scores)[ROWS][COLUMNS]) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) {
        scores[i][j] = scores[i][j] == EMPTY ? EMPTY : 0.0f;
      }
    }
  }

  // The value of a row's reduction over both halves of its columns. All threads come here.
  template <class Combine>
  __device__ __forceinline__ void reduce(float (&x)[ROWS], Combine combine) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
      for (int step = 1; step < 8; step *= 2) {
        x[i] = combine(x[i], __shfl_xor_sync(~0u, x[i], step));
      }
      if (lane8 == 0) {
        shared.halves[half][row(i)] = x[i];
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
      x[i] = combine(shared.halves[0][row(i)], shared.halves[1][row(i)]);
    }
  }

  // The five lines but for the product: scores to weights in shared memory.
  __device__ __forceinline__ void weigh(float (&scores)[ROWS][COLUMNS]) {
    float tileMaximum[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
      tileMaximum[i] = EMPTY;
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) {
        tileMaximum[i] = fmaxf(tileMaximum[i], scores[i][j]);
      }
    }
    reduce(tileMaximum, [](float x, float y) { return fmaxf(x, y); });
    float c[ROWS];
    bool rescale = DIALECT == Rescale::ALWAYS;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
      const float now =
          nextMaximum<DIALECT>(m[i], tileMaximum[i], toleranceOf<Scores::GENERAL>(a.tau));
      c[i] = correctionOf<Scores::GENERAL>(m[i], now);
      rescale = rescale || now != m[i];
      m[i] = now;
      float sum = 0.0f;
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) {
        const float p = weight<Scores::GENERAL>(scores[i][j], shift(now), 1.0f);
        shared.p[row(i) * P_STRIDE + column(j)] = p;
        sum += p;
      }
      l[i] = fmaf(l[i], c[i], sum);
    }
    if (__any_sync(~0u, rescale)) {
#pragma unroll
      for (int i = 0; i < ROWS; i++) {
#pragma unroll
        for (int j = 0; j < GROUPS * QUAD; j++) {
          o[i][j] *= c[i];
        }
      }
    }
  }

  __device__ __forceinline__ int64 startOf(int tile) const {
    return shared.first + (int64)tile * BN;
  }

  // Goes over the keys that one of the block's queries sees.
  __device__ __forceinline__ void fold() {
    const bool plain = a.softCap == 0.0f && a.bias.data == nullptr && a.slope.data == nullptr
                       && a.maskCount == 0;
    const int64 last = smaller(s.queries, task.query + BM) - 1;
    const int64 first = visibleTo(s, task.query).begin / BN * BN;
    const int64 end = smaller(s.endKey, visibleTo(s, last).end);
    const int tiles = (int)((end - first + BN - 1) / BN);
    if (threadIdx.x == 0) {
      shared.first = first;
      shared.sources = sourcesOf(a, s, keyHead, task.slice * SLICE, first, BN);
      shared.seen = rangeOf(s, task.query, last, first, BN);
    }
    fillVisible(s, task.query, shared.begin, shared.end);
    if (RESIDENT) {
      putQueries();
    }
    __syncthreads();
    float scores[ROWS][COLUMNS];
    int tile = 0;
    int chunk = -1; // the first turn only fetches
    int buffer = 1;
#pragma unroll 1
    while (tile < tiles) {
      const bool wrap = chunk == KEY_CHUNKS + VALUE_CHUNKS - 1;
      const int next = wrap ? 0 : chunk + 1;
      const int nextTile = wrap ? tile + 1 : tile;
      const bool direct = nextTile < tiles && isDirect(nextTile, next);
      const bool staged = nextTile < tiles && !direct;
      if (direct) {
        copyChunk(nextTile, next, buffer ^ 1);
      } else if (staged) {
        fetchChunk(startOf(nextTile), next);
      }
      if (chunk >= KEY_CHUNKS) {
        multiplyValues(chunk - KEY_CHUNKS, buffer);
      } else if (chunk >= 0) {
        multiplyKeys(scores, chunk, buffer);
      }
      if (chunk == KEY_CHUNKS - 1) {
        if (plain) {
          scale(scores, startOf(tile), tile < shared.seen.plainFrom || tile >= shared.seen.plainTo);
        } else {
          transform(scores, startOf(tile));
        }
        if (pass == Pass::TAINT) {
          flatten(scores);
        }
        weigh(scores);
      }
      buffer ^= 1;
      if (staged) {
        putChunk(next, buffer);
      }
      waitForCopies();
      __syncthreads();
      chunk = next;
      tile = nextTile;
    }
  }

  // Writes outputs and logarithms; returns whether one that this thread writes is not finite.
  __device__ __forceinline__ bool finishRows() {
    reduce(l, [](float x, float y) { return x + y; });
    const bool hasSink = a.sink.data != nullptr;
    const float sink = hasSink ? sinkOf(a, task.head) : 0.0f;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
      const Finish end = finish(m[i], l[i], hasSink, sink);
#pragma unroll
      for (int j = 0; j < GROUPS * QUAD; j++) {
        // Adding 0 makes -0 a 0, so that tiles that a row does not see make no difference.
        shared.p[row(i) * P_STRIDE + valueColumn(j / QUAD) + j % QUAD] =
            pass == Pass::TAINT ? o[i][j] : o[i][j] * end.factor + 0.0f;
      }
      if (half == 0 && lane8 == 0) {
        storeLogSumExp(row(i), end.logSumExp);
      }
    }
    __syncthreads();
    return writeRows();
  }

  // Writes the outputs in shared.p; TAINT writes NaN where sums are above 0.
  __device__ __forceinline__ bool writeRows() {
    bool nonFinite = false;
#pragma unroll 1
    for (int at = threadIdx.x; at < BM * SLICE / QUAD; at += THREADS) {
      const int r = at / (SLICE / QUAD);
      const int column = at % (SLICE / QUAD) * QUAD;
      const int dim = task.slice * SLICE + column;
      if (!hasRow(r) || dim >= a.valueDim) {
        continue;
      }
      const int64 index = elementOf(a.out, placeOfRow(r), task.head) + dim;
      float x[QUAD];
#pragma unroll
      for (int c = 0; c < QUAD; c++) {
        x[c] = shared.p[r * P_STRIDE + column + c];
        if (pass != Pass::TAINT) {
          nonFinite = nonFinite || isNonFinite(x[c]);
        } else if (x[c] > 0.0f && dim + c < a.valueDim) {
          store(a.out.data, a.out.type, index + c, NAN_VALUE);
        }
      }
      if (pass != Pass::TAINT) {
        storeQuad(a.out.data, a.out.type, index, x, a.valueDim - dim);
      }
    }
    return nonFinite;
  }
};

} // namespace

extern "C" __constant__ LaunchShape launchShape = {THREADS, sizeof(Shared), BM, SLICES};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attend(const __grid_constant__ AttentionArguments a, unsigned char* noted, int64 tasks,
           int repair) {
  extern __shared__ float4 memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  attendTasks<Block, BM, SLICES>(a, shared, noted, tasks, repair != 0);
}
