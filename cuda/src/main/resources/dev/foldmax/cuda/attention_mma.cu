// Attention on matrix units by mma.sync, for F16 and BF16: sm_80 and later.
//
// A block holds BM queries of one head in shared memory and goes over the keys in tiles of BN at
// absolute multiples of BN; while it works on one tile, the next is copied into the other of two
// stages, row by row from wherever the layout has it. A warp has 16 or 32 whole rows: scores, weights
// and outputs stay in its registers.
//
//   S = Q K'        accumulators of 16 x 8
//   the five lines of state.cuh; P becomes an operand where it is
//   O = O c + P V
//
// grid    (sequence, query head, slice of the value dimension, query tile), the last tiles first
// block, shared memory and tiles: launchShape
// options FOLDMAX_TYPE: of queries, keys and values
//         FOLDMAX_KEY_DIM, FOLDMAX_VALUE_DIM: at least the dimensions; 16, or multiples of 32
//         FOLDMAX_SCORES, FOLDMAX_RESCALE
//         FOLDMAX_SHARED: the most bytes of shared memory that a block may have
// repair  see repair.cuh
#include "launch.cuh"
#include "mma.cuh"
#include "prefill.cuh"
#include "scores.cuh"

namespace {

constexpr Type TYPE = (Type)FOLDMAX_TYPE;
constexpr Scores SCORES = (Scores)FOLDMAX_SCORES;
constexpr Rescale DIALECT = (Rescale)FOLDMAX_RESCALE;
constexpr int KEY_DIM = FOLDMAX_KEY_DIM;
constexpr int SLICE = FOLDMAX_VALUE_DIM < 256 ? FOLDMAX_VALUE_DIM : 256;
constexpr int SLICES = (FOLDMAX_VALUE_DIM + SLICE - 1) / SLICE;

constexpr int BLOCKS = SLICE <= 128 && KEY_DIM <= 128 ? 2 : 1; // of a multiprocessor
constexpr int MT = SLICE <= 128 && KEY_DIM <= 128 ? 2 : 1;     // a warp's tiles of 16 rows
constexpr int STAGES = 2;

// Biases and boolean masks go through a patch of shared memory for each warp, so that their reads are
// along the keys and their code is there once.
constexpr int PATCH_KEYS = 32;
constexpr int PATCH_STRIDE = PATCH_KEYS + 4;

// What each warp looks up for each tile, rather than have it in registers.
struct Notes {
  TileSources sources;
  TileRange seen;
  int64 first; // the position at which tile 0 starts
};

template <int BM, int BN>
struct SharedOf {
  unsigned char q[BM * KEY_DIM * 2];
  unsigned char k[STAGES][BN * KEY_DIM * 2];
  unsigned char v[STAGES][BN * SLICE * 2];
  float patch[BM / 16 / MT][16 * PATCH_STRIDE];
  int64 begin[BM]; // what each row sees
  int64 end[BM];
  Work work;
  Notes notes[BM / 16 / MT];
};

// As large as shared memory allows, and registers: for 128 keys those of narrow heads.
template <int BM, int BN>
constexpr bool FITS = sizeof(SharedOf<BM, BN>) <= FOLDMAX_SHARED;
constexpr bool IS_NARROW = KEY_DIM <= 64 && SLICE <= 64;
constexpr int BM = KEY_DIM <= 256 && FITS<128, 16> ? 128 : 64;
constexpr int BN = IS_NARROW && FITS<BM, 128> ? 128 : FITS<BM, 64> ? 64 : FITS<BM, 32> ? 32 : 16;
constexpr int THREADS = BM / 16 / MT * 32;
static_assert(FITS<BM, BN>, "MmaPrefill.java declines what does not fit");
typedef SharedOf<BM, BN> Shared;

// Whether a block's outputs have room where its queries were.
constexpr bool CAN_STAGE = SLICE <= KEY_DIM;
constexpr int NT = BN / 8; // tiles of 8 keys

// One block's work on one task.
struct Block : AtWork<Shared> {
  const int lane;
  const int warpRow; // the warp's first
  const float unit;  // of LINEAR scores
  float o[MT][SLICE / 8][4];
  float m[MT][2];
  float l[MT][2]; // of this thread's columns

  __device__ __forceinline__ Block(const AttentionArguments& a, Shared& shared, Pass pass)
      : AtWork(a, shared, pass),
        lane(threadIdx.x % 32),
        warpRow(threadIdx.x / 32 * 16 * MT),
        unit(a.scale * LOG2_E) {
#pragma unroll
    for (int i = 0; i < MT; i++) {
      m[i][0] = m[i][1] = EMPTY;
      l[i][0] = l[i][1] = 0.0f;
#pragma unroll
      for (int n = 0; n < SLICE / 8; n++) {
        o[i][n][0] = o[i][n][1] = o[i][n][2] = o[i][n][3] = 0.0f;
      }
    }
  }

  // A thread has rows row(i, 0) and row(i, 1), and columns column(n) and the next of each 8.
  __device__ __forceinline__ int row(int i, int h) const {
    return warpRow + i * 16 + h * 8 + lane / 4;
  }
  __device__ __forceinline__ int column(int n) const { return n * 8 + lane % 4 * 2; }

  __device__ __forceinline__ Notes& notes() const { return shared.notes[threadIdx.x / 32]; }
  __device__ __forceinline__ int64 startOf(int tile) const {
    return notes().first + (int64)tile * BN;
  }

  // Starts copies of a tile of rows at one distance, all of which exist; chunks from `columns`, a
  // multiple of 8, on become 0.
  template <int ROWS, int DIM>
  __device__ __forceinline__ void copyRun(const unsigned char* row0, int64 rowBytes, int columns,
                                          const unsigned char* to) {
    constexpr int CHUNKS = Tile<DIM>::CHUNKS;
    const unsigned base = sharedAddress(to);
    if constexpr (THREADS % CHUNKS == 0 && THREADS / CHUNKS % 8 == 0
                  && ROWS % (THREADS / CHUNKS) == 0) {
      constexpr int STEP = THREADS / CHUNKS; // rows, of the same permutation
      const int chunk = threadIdx.x % CHUNKS;
      const int r = threadIdx.x / CHUNKS;
      const bool exists = chunk * 8 < columns;
      const unsigned first = base + Tile<DIM>::offset(r, chunk);
      const unsigned char* from = row0 + r * rowBytes + chunk * 16;
      const int64 step = rowBytes * STEP;
#pragma unroll
      for (int i = 0; i < ROWS / STEP; i++) {
        copy16(first + i * STEP * Tile<DIM>::ROW_BYTES, from, exists);
        from += step;
      }
    } else {
#pragma unroll 2
      for (int i = threadIdx.x; i < ROWS * CHUNKS; i += THREADS) {
        const int r = i / CHUNKS;
        const int chunk = i % CHUNKS;
        copy16(base + Tile<DIM>::offset(r, chunk), row0 + r * rowBytes + chunk * 16,
               chunk * 8 < columns);
      }
    }
  }

  // Starts copies of a tile of any rows: find(row, place) says whether a row exists, and where.
  template <int ROWS, int DIM, class Find>
  __device__ __forceinline__ void gather(const Matrix& matrix, int head, int firstColumn,
                                         int columns, const unsigned char* to, Find find) {
    constexpr int CHUNKS = Tile<DIM>::CHUNKS;
    const unsigned base = sharedAddress(to);
#pragma unroll 2
    for (int i = threadIdx.x; i < ROWS * CHUNKS; i += THREADS) {
      const int r = i / CHUNKS;
      const int chunk = i % CHUNKS;
      const unsigned char* from = matrix.data;
      int bytes = min(max((columns - chunk * 8) * 2, 0), 16);
      Place place;
      if (find(r, place)) {
        from += (elementOf(matrix, place, head) + firstColumn + chunk * 8) * 2;
      } else {
        bytes = 0;
      }
      copyPart(base + Tile<DIM>::offset(r, chunk), from, bytes);
    }
  }

  __device__ __forceinline__ void copyQueries() {
    const Place place = {s.queryBlock, s.queryRow + task.query};
    if (task.query + BM <= s.queries && a.keyDim % 8 == 0) {
      copyRun<BM, KEY_DIM>(a.q.data + elementOf(a.q, place, task.head) * 2, a.q.row * 2, a.keyDim,
                           shared.q);
    } else {
      const int rows = (int)smaller(s.queries - task.query, BM);
      gather<BM, KEY_DIM>(a.q, task.head, 0, a.keyDim, shared.q, [&](int r, Place& at) {
        at = {place.block, place.row + r};
        return r < rows;
      });
    }
  }

  // Starts copies of the keys and values of a tile.
  __device__ __forceinline__ void copyTile(const TileSources& from, int tile, int stage) {
    const int firstColumn = task.slice * SLICE;
    if (tile >= from.runsFrom && tile < from.runsTo) {
      const int64 row = (int64)tile * BN;
      copyRun<BN, KEY_DIM>(from.keys.row0 + row * from.keys.rowBytes, from.keys.rowBytes, a.keyDim,
                           shared.k[stage]);
      copyRun<BN, SLICE>(from.values.row0 + row * from.values.rowBytes, from.values.rowBytes,
                         a.valueDim - firstColumn, shared.v[stage]);
    } else {
      const int64 start = startOf(tile);
      const auto find = [&](int r, Place& at) {
        const bool exists = start + r >= s.firstKey && start + r < s.endKey;
        if (exists) {
          at = placeOf(a, s, task.sequence, start + r);
        }
        return exists;
      };
      gather<BN, KEY_DIM>(a.k, keyHead, 0, a.keyDim, shared.k[stage], find);
      gather<BN, SLICE>(a.v, keyHead, firstColumn, a.valueDim - firstColumn, shared.v[stage], find);
    }
  }

  // CLEAN and TAINT: values as the pass takes them.
  __device__ __forceinline__ void replaceValues(int stage) {
    unsigned short* v = reinterpret_cast<unsigned short*>(shared.v[stage]);
    const unsigned short one = (unsigned short)pack<TYPE>(1.0f, 0.0f);
    for (int i = threadIdx.x; i < BN * SLICE; i += THREADS) {
      const bool bad = isNonFinite16<TYPE>(v[i]);
      v[i] = pass == Pass::CLEAN ? (bad ? 0 : v[i]) : (bad ? one : 0);
    }
    __syncthreads();
  }

  // The address of this lane's row of a 16 x 16 operand at (row, 0), and how it lies: queries and
  // transposed values have 8 rows after 8 rows, keys have 8 columns after 8 columns.
  template <int DIM, bool ROWS_FIRST>
  __device__ __forceinline__ unsigned operand(const unsigned char* tile) const {
    const int r = ROWS_FIRST ? lane % 16 : lane % 8 + lane / 16 * 8;
    const int chunk = ROWS_FIRST ? lane / 16 : lane / 8 % 2;
    return sharedAddress(tile) + Tile<DIM>::offset(r, chunk);
  }

  // S = Q K'
  __device__ __forceinline__ void multiplyKeys(float (&scores)[MT][NT][4], int stage) {
#pragma unroll
    for (int i = 0; i < MT; i++) {
#pragma unroll
      for (int n = 0; n < NT; n++) {
        scores[i][n][0] = scores[i][n][1] = scores[i][n][2] = scores[i][n][3] = 0.0f;
      }
    }
    const unsigned queries = operand<KEY_DIM, true>(shared.q + warpRow * KEY_DIM * 2);
    const unsigned keys = operand<KEY_DIM, false>(shared.k[stage]);
#pragma unroll
    for (int d = 0; d < KEY_DIM / 16; d++) {
      unsigned x[MT][4];
#pragma unroll
      for (int i = 0; i < MT; i++) {
        loadMatrices(x[i], Tile<KEY_DIM>::along(queries, 2 * d) + i * 16 * KEY_DIM * 2);
      }
#pragma unroll
      for (int n = 0; n < NT / 2; n++) {
        unsigned y[4];
        loadMatrices(y, Tile<KEY_DIM>::along(keys, 2 * d) + n * 16 * KEY_DIM * 2);
#pragma unroll
        for (int i = 0; i < MT; i++) {
          multiply<TYPE>(scores[i][2 * n], x[i], y[0], y[1]);
          multiply<TYPE>(scores[i][2 * n + 1], x[i], y[2], y[3]);
        }
      }
    }
  }

  template <class Change>
  static __device__ __forceinline__ void forEachScore(float (&scores)[MT][NT][4], Change change) {
#pragma unroll
    for (int i = 0; i < MT; i++) {
#pragma unroll
      for (int n = 0; n < NT; n++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
          scores[i][n][e] = change(scores[i][n][e]);
        }
      }
    }
  }

  // GENERAL: scale, soft cap and ALiBi, where scores are.
  __device__ __forceinline__ void transform(float (&scores)[MT][NT][4], int64 start) {
    forEachScore(scores, [&](float x) { return x * a.scale; });
    if (a.softCap != 0.0f) {
      const float inverseCap = 1.0f / a.softCap;
      forEachScore(scores, [&](float x) { return cappedNearly(x, a.softCap, inverseCap); });
    }
    if (a.slope.data != nullptr) {
      const float slope = slopeOf(a, task.sequence, task.head);
#pragma unroll
      for (int i = 0; i < MT; i++) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
          // From the thread's first column.
          const int64 distance = task.query + row(i, h) + s.alibiShift - start - column(0);
          // Rounded once: whole numbers are exact in 32 bits, and in float64 further away.
          if (distance == (int)distance && (int)distance > BN - 0x7fffffff) {
#pragma unroll
            for (int n = 0; n < NT; n++) {
#pragma unroll
              for (int e = 0; e < 2; e++) {
                float& x = scores[i][n][2 * h + e];
                x = lowered(x, slope, (float)((int)distance - (n * 8 + e)));
              }
            }
          } else {
#pragma unroll
            for (int n = 0; n < NT; n++) {
#pragma unroll
              for (int e = 0; e < 2; e++) {
                float& x = scores[i][n][2 * h + e];
                x = lowered(x, slope, (float)((double)distance - (n * 8 + e)));
              }
            }
          }
        }
      }
    }
  }

  // Biases and boolean masks, by way of the warp's patch.
  __device__ __forceinline__ void consult(float (&scores)[MT][NT][4], int64 start) {
    constexpr int KEYS = BN < PATCH_KEYS ? BN : PATCH_KEYS;
    float* patch = shared.patch[threadIdx.x / 32];
#pragma unroll
    for (int i = 0; i < MT; i++) {
#pragma unroll
      for (int part = 0; part < BN / KEYS; part++) {
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
          for (int e = 0; e < 4; e++) {
            patch[(e / 2 * 8 + lane / 4) * PATCH_STRIDE + column(n) + e % 2] =
                scores[i][part * (KEYS / 8) + n][e];
          }
        }
        __syncwarp();
#pragma unroll 1
        for (int at = lane; at < 16 * KEYS; at += 32) {
          const int r = warpRow + i * 16 + at / KEYS;
          const int64 position = start + part * KEYS + at % KEYS;
          if (position >= shared.begin[r] && position < shared.end[r]) {
            float& x = patch[at / KEYS * PATCH_STRIDE + at % KEYS];
            const Row of = {task.sequence, task.head, task.query + r, s.firstKey};
            if (SCORES == Scores::GENERAL && a.bias.data != nullptr) {
              x = biased(x, a, of, position);
            }
            if (!shownByMasks(a, of, position)) {
              x = EMPTY;
            }
          }
        }
        __syncwarp();
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
          for (int e = 0; e < 4; e++) {
            scores[i][part * (KEYS / 8) + n][e] =
                patch[(e / 2 * 8 + lane / 4) * PATCH_STRIDE + column(n) + e % 2];
          }
        }
        __syncwarp();
      }
    }
  }

  // Hides what lies outside of the rows' intervals.
  __device__ __forceinline__ void hide(float (&scores)[MT][NT][4], int64 start) {
#pragma unroll
    for (int i = 0; i < MT; i++) {
#pragma unroll
      for (int h = 0; h < 2; h++) {
        // As columns from the thread's first on, so that those are constants.
        const int begin = columnIn(shared.begin[row(i, h)] - start, BN) - column(0);
        const int end = columnIn(shared.end[row(i, h)] - start, BN) - column(0);
#pragma unroll
        for (int n = 0; n < NT; n++) {
#pragma unroll
          for (int e = 0; e < 2; e++) {
            float& x = scores[i][n][2 * h + e];
            x = n * 8 + e >= begin && n * 8 + e < end ? x : EMPTY;
          }
        }
      }
    }
  }

  // The new maxima, and O and l corrected to them.
  __device__ __forceinline__ void raise(const float (&scores)[MT][NT][4]) {
    float c[MT][2];
    bool rescale = DIALECT == Rescale::ALWAYS;
#pragma unroll
    for (int i = 0; i < MT; i++) {
#pragma unroll
      for (int h = 0; h < 2; h++) {
        float largest = EMPTY;
#pragma unroll
        for (int n = 0; n < NT; n++) {
          largest = fmaxf(largest, fmaxf(scores[i][n][2 * h], scores[i][n][2 * h + 1]));
        }
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
        const float now = nextMaximum<DIALECT>(m[i][h], maximumOf<SCORES>(largest, unit),
                                               toleranceOf<SCORES>(tau()));
        c[i][h] = correctionOf<SCORES>(m[i][h], now);
        rescale = rescale || now != m[i][h];
        m[i][h] = now;
        l[i][h] *= c[i][h];
      }
    }
    if (__any_sync(~0u, rescale)) {
#pragma unroll
      for (int i = 0; i < MT; i++) {
#pragma unroll
        for (int n = 0; n < SLICE / 8; n++) {
          o[i][n][0] *= c[i][0];
          o[i][n][1] *= c[i][0];
          o[i][n][2] *= c[i][1];
          o[i][n][3] *= c[i][1];
        }
      }
    }
  }

  // LAZY: weights must be finite in F16.
  __device__ __forceinline__ float tau() const {
    return TYPE == Type::F16 ? fminf(a.tau, 15.0f) : a.tau;
  }

  // P = exp(S - m), and O += P V, 16 keys at a time.
  __device__ __forceinline__ void multiplyValues(float (&scores)[MT][NT][4], int stage) {
    const unsigned values = operand<SLICE, true>(shared.v[stage]);
#pragma unroll
    for (int k = 0; k < NT / 2; k++) {
      unsigned x[MT][4];
#pragma unroll
      for (int i = 0; i < MT; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const int h = e % 2;
          float(&two)[4] = scores[i][2 * k + e / 2];
          float p[2];
#pragma unroll
          for (int f = 0; f < 2; f++) {
            p[f] = weight<SCORES>(two[2 * h + f], shift(m[i][h]), unit);
          }
          l[i][h] += p[0] + p[1];
          x[i][e] = pack<TYPE>(p[0], p[1]);
        }
      }
#pragma unroll
      for (int n = 0; n < SLICE / 16; n++) {
        unsigned y[4];
        loadTransposed(y, Tile<SLICE>::along(values, 2 * n) + k * 16 * SLICE * 2);
#pragma unroll
        for (int i = 0; i < MT; i++) {
          multiply<TYPE>(o[i][2 * n], x[i], y[0], y[1]);
          multiply<TYPE>(o[i][2 * n + 1], x[i], y[2], y[3]);
        }
      }
    }
  }

  // Goes over the keys that one of the block's queries sees.
  __device__ __forceinline__ void fold() {
    const int rows = (int)smaller(s.queries - task.query, BM);
    copyQueries();
    const int64 first = visibleTo(s, task.query).begin / BN * BN;
    const int64 end = smaller(s.endKey, visibleTo(s, task.query + rows - 1).end);
    const int tiles = (int)((end - first + BN - 1) / BN);
    if (lane == 0) {
      notes() = {sourcesOf(a, s, keyHead, task.slice * SLICE, first, BN), {0, 0, 0, 0}, first};
      if (warpRow < rows) {
        const int last = min(warpRow + 16 * MT, rows) - 1;
        notes().seen = rangeOf(s, task.query + warpRow, task.query + last, first, BN);
      }
    }
    __syncwarp();
    const bool consults = a.maskCount > 0 || (SCORES == Scores::GENERAL && a.bias.data != nullptr);
#pragma unroll 1
    for (int tile = -1; tile < tiles; tile++) { // the first turn only starts copies
      const TileSources sources = notes().sources;
      const TileRange seen = notes().seen;
      const int stage = tile & 1;
      if (tile >= 0) {
        waitForCopies();
        __syncthreads();
      }
      if (tile + 1 < tiles) {
        copyTile(sources, tile + 1, stage ^ 1);
      }
      if (tile < 0) {
        fillVisible(s, task.query, shared.begin, shared.end);
        continue;
      }
      if (pass != Pass::PLAIN) {
        replaceValues(stage);
      }
      // A warp leaves out what none of its rows sees, which would change nothing.
      if (tile >= seen.from && tile < seen.to) {
        float scores[MT][NT][4];
        multiplyKeys(scores, stage);
        if (SCORES == Scores::GENERAL) {
          transform(scores, startOf(tile));
        }
        if (consults) {
          consult(scores, startOf(tile));
        }
        if (tile < seen.plainFrom || tile >= seen.plainTo) {
          hide(scores, startOf(tile));
        }
        if (pass == Pass::TAINT) { // a visible key weighs 1
          forEachScore(scores, [](float x) { return x == EMPTY ? EMPTY : 0.0f; });
        }
        raise(scores);
        multiplyValues(scores, stage);
      }
    }
    waitForCopies();
    if (SLICE < KEY_DIM || tiles <= 0) {
      __syncthreads(); // outputs are staged over queries that other warps copy or still read
    }
  }

  // Writes outputs and logarithms; returns whether one of this thread's is not finite.
  __device__ __forceinline__ bool finishRows() {
    const bool hasSink = a.sink.data != nullptr;
    const float sink = hasSink ? sinkOf(a, task.head) : 0.0f;
    float zero[4] = {}; // unless something is not finite
#pragma unroll
    for (int i = 0; i < MT; i++) {
#pragma unroll
      for (int h = 0; h < 2; h++) {
        float sum = l[i][h];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        const Finish end = finish(naturalOf<SCORES>(m[i][h]), sum, hasSink, sink);
#pragma unroll
        for (int n = 0; n < SLICE / 8; n++) {
#pragma unroll
          for (int e = 0; e < 2; e++) {
            float& x = o[i][n][2 * h + e];
            // Adding 0 makes -0 a 0, so that tiles that a row does not see make no difference.
            x = pass == Pass::TAINT ? (x > 0.0f ? NAN_VALUE : 0.0f) : x * end.factor + 0.0f;
            zero[n % 2 * 2 + e] = fmaf(x, 0.0f, zero[n % 2 * 2 + e]);
          }
        }
        if (lane % 4 == 0) {
          storeLogSumExp(row(i, h), end.logSumExp);
        }
      }
    }
    if (CAN_STAGE && a.out.type == TYPE && a.valueDim % 8 == 0 && pass != Pass::TAINT) {
      writeStaged();
    } else {
      writeRows();
    }
    return zero[0] + zero[1] + zero[2] + zero[3] != 0.0f;
  }

  // Writes outputs of the type of the inputs by way of where queries were, 16 bytes at a
  // time.
  __device__ __forceinline__ void writeStaged() {
#pragma unroll
    for (int i = 0; i < MT; i++) {
#pragma unroll
      for (int h = 0; h < 2; h++) {
#pragma unroll
        for (int n = 0; n < SLICE / 8; n++) {
          unsigned char* to = shared.q + Tile<SLICE>::offset(row(i, h), n) + lane % 4 * 4;
          *reinterpret_cast<unsigned*>(to) = pack<TYPE>(o[i][n][2 * h], o[i][n][2 * h + 1]);
        }
      }
    }
    __syncwarp();
    constexpr int CHUNKS = Tile<SLICE>::CHUNKS;
    const int firstColumn = task.slice * SLICE;
    unsigned char* out =
        a.out.data + (elementOf(a.out, placeOfRow(0), task.head) + firstColumn) * 2;
    const int64 rowBytes = a.out.row * 2;
    const int rows = (int)smaller(s.queries - task.query, BM);
    const int columns = a.valueDim - firstColumn;
#pragma unroll
    for (int i = 0; i < 16 * MT * CHUNKS / 32; i++) {
      const int at = lane + i * 32;
      const int r = warpRow + at / CHUNKS;
      const int chunk = at % CHUNKS;
      if (r < rows && chunk * 8 < columns) {
        *reinterpret_cast<uint4*>(out + r * rowBytes + chunk * 16) =
            *reinterpret_cast<const uint4*>(shared.q + Tile<SLICE>::offset(r, chunk));
      }
    }
  }

  // Writes outputs of any type by way of the warp's patch, so that whole sectors of memory are
  // written; TAINT writes only what is NaN.
  __device__ __forceinline__ void writeRows() {
    constexpr int PART = SLICE < PATCH_KEYS ? SLICE : PATCH_KEYS;
    float* patch = shared.patch[threadIdx.x / 32];
#pragma unroll
    for (int i = 0; i < MT; i++) {
#pragma unroll
      for (int part = 0; part < SLICE / PART; part++) {
#pragma unroll
        for (int n = 0; n < PART / 8; n++) {
#pragma unroll
          for (int e = 0; e < 4; e++) {
            patch[(e / 2 * 8 + lane / 4) * PATCH_STRIDE + column(n) + e % 2] =
                o[i][part * (PART / 8) + n][e];
          }
        }
        __syncwarp();
        writePatch(i * 16, part * PART, PART);
        __syncwarp();
      }
    }
  }

  // Writes 16 rows of `columns` from the patch.
  __device__ __forceinline__ void writePatch(int row, int column, int columns) {
    const float* patch = shared.patch[threadIdx.x / 32];
#pragma unroll 1
    for (int pair = lane; pair < 16 * columns / 2; pair += 32) {
      const int r = pair / (columns / 2);
      const int c = pair % (columns / 2) * 2;
      const int at = warpRow + row + r;
      const int dim = task.slice * SLICE + column + c;
      if (hasRow(at)) {
        writePair(elementOf(a.out, placeOfRow(at), task.head) + dim, a.valueDim - dim,
                  patch[r * PATCH_STRIDE + c], patch[r * PATCH_STRIDE + c + 1]);
      }
    }
  }

  // Writes the first `count` of two neighbours.
  __device__ __forceinline__ void writePair(int64 at, int count, float x, float y) {
    if (pass != Pass::TAINT && count >= 2) {
      storePair(a.out.data, a.out.type, at, x, y);
      return;
    }
    if (count >= 1 && (pass != Pass::TAINT || x != x)) {
      store(a.out.data, a.out.type, at, x);
    }
    if (count >= 2 && y != y) {
      store(a.out.data, a.out.type, at + 1, y);
    }
  }
};

} // namespace

extern "C" __constant__ LaunchShape launchShape = {THREADS, sizeof(Shared), BM, SLICES};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attend(const __grid_constant__ AttentionArguments a, unsigned char* noted, int64 tasks,
           int repair) {
  extern __shared__ __align__(128) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  attendTasks<Block, BM, SLICES>(a, shared, noted, tasks, repair != 0);
}
