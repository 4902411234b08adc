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
#include "repair.cuh"
#include "scores.cuh"
#include "task.cuh"
#include "where.cuh"

namespace {

constexpr Type TYPE = (Type)FOLDMAX_TYPE;
constexpr Scores SCORES = (Scores)FOLDMAX_SCORES;
constexpr Rescale DIALECT = (Rescale)FOLDMAX_RESCALE;
constexpr int KEY_DIM = FOLDMAX_KEY_DIM;
constexpr int SLICE = FOLDMAX_VALUE_DIM < 256 ? FOLDMAX_VALUE_DIM : 256;
constexpr int SLICES = (FOLDMAX_VALUE_DIM + SLICE - 1) / SLICE;

constexpr int BM = KEY_DIM <= 256 ? 128 : 64;
constexpr int BLOCKS = SLICE <= 128 && KEY_DIM <= 128 ? 2 : 1; // of a multiprocessor
constexpr int MT = SLICE <= 128 && KEY_DIM <= 128 ? 2 : 1;     // a warp's tiles of 16 rows
constexpr int WARPS = BM / 16 / MT;
constexpr int THREADS = WARPS * 32;
constexpr int STAGES = 2;

// Biases and boolean masks go through a patch of shared memory for each warp, so that their reads are
// along the keys and their code is there once.
constexpr int PATCH_KEYS = 32;
constexpr int PATCH_STRIDE = PATCH_KEYS + 4;

template <int BN>
struct SharedOf {
  unsigned char q[BM * KEY_DIM * 2];
  unsigned char k[STAGES][BN * KEY_DIM * 2];
  unsigned char v[STAGES][BN * SLICE * 2];
  float patch[WARPS][16 * PATCH_STRIDE];
  int64 begin[BM]; // what each row sees
  int64 end[BM];
  Work work;
};

// GENERAL scores take registers of their own.
constexpr int MOST_KEYS = SCORES == Scores::GENERAL && MT == 2 ? 32 : 64;
#ifdef FOLDMAX_BN
constexpr int BN = FOLDMAX_BN;
#else
constexpr int BN = MOST_KEYS >= 64 && sizeof(SharedOf<64>) <= FOLDMAX_SHARED ? 64
                   : sizeof(SharedOf<32>) <= FOLDMAX_SHARED                  ? 32
                                                                             : 16;
#endif
typedef SharedOf<BN> Shared;
constexpr int NT = BN / 8; // tiles of 8 keys

// The operands of queries stay in registers where there is room.
constexpr bool Q_IN_REGISTERS = KEY_DIM <= 64;

// Whether all threads have a part of a tile of keys, each always at the same chunk of a row.
template <int DIM>
constexpr bool CAN_COPY_STRAIGHT = THREADS % Tile<DIM>::CHUNKS == 0
                                   && THREADS / Tile<DIM>::CHUNKS % 8 == 0
                                   && BN % (THREADS / Tile<DIM>::CHUNKS) == 0;

// One block's work on one task.
struct Block {
  const AttentionArguments& a;
  Shared& shared;
  const Task& task; // in shared memory, and so is the sequence
  const Pass pass;
  const Sequence& s;
  const int keyHead;
  const int lane;
  const int warpRow; // the warp's first
  const float unit;  // of LINEAR scores
  unsigned q[Q_IN_REGISTERS ? MT : 1][Q_IN_REGISTERS ? KEY_DIM / 16 : 1][4];
  float o[MT][SLICE / 8][4];
  float m[MT][2];
  float l[MT][2]; // of this thread's columns

  __device__ __forceinline__ Block(const AttentionArguments& a, Shared& shared, Pass pass)
      : a(a),
        shared(shared),
        task(shared.work.task),
        pass(pass),
        s(shared.work.sequence),
        keyHead(task.head / (a.queryHeads / a.keyHeads)),
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

  // Starts copies of ROWS rows of a matrix, of `columns` elements from `first` on; rows that `place`
  // says do not exist become 0.
  template <int ROWS, int DIM, class Place_>
  __device__ __forceinline__ void copyRows(const Matrix& matrix, int head, int first, int columns,
                                           const unsigned char* to, Place_ place) {
    const unsigned base = sharedAddress(to);
    constexpr int CHUNKS = Tile<DIM>::CHUNKS;
#pragma unroll
    for (int i = 0; i < (ROWS * CHUNKS + THREADS - 1) / THREADS; i++) {
      const int index = threadIdx.x + i * THREADS;
      if (ROWS * CHUNKS % THREADS != 0 && index >= ROWS * CHUNKS) {
        break;
      }
      const bool even = THREADS % CHUNKS == 0;
      const int r = even ? threadIdx.x / CHUNKS + i * (THREADS / CHUNKS) : index / CHUNKS;
      const int chunk = even ? threadIdx.x % CHUNKS : index % CHUNKS;
      int bytes = min(max((columns - first - chunk * 8) * 2, 0), 16);
      const unsigned char* from = matrix.data;
      Place at;
      if (bytes > 0 && place(r, at)) {
        from += (elementOf(matrix, at, head) + first + chunk * 8) * 2;
      } else {
        bytes = 0;
      }
      copy16(base + Tile<DIM>::offset(r, chunk), from, bytes);
    }
  }

  __device__ __forceinline__ void copyQueries() {
    copyRows<BM, KEY_DIM>(a.q, task.head, 0, a.keyDim, shared.q, [&](int r, Place& at) {
      at = {s.queryBlock, s.queryRow + task.query + r};
      return task.query + r < s.queries;
    });
  }

  // The same of a tile of keys or values that lie one after the other, all of them present.
  template <int DIM>
  __device__ __forceinline__ void copyStraight(const Matrix& matrix, int64 position, int first,
                                               int columns, const unsigned char* to) {
    constexpr int CHUNKS = Tile<DIM>::CHUNKS;
    constexpr int STEP = THREADS / CHUNKS;
    const int r = threadIdx.x / CHUNKS;
    const int chunk = threadIdx.x % CHUNKS;
    const int bytes = min(max((columns - first - chunk * 8) * 2, 0), 16);
    const unsigned base = sharedAddress(to) + Tile<DIM>::offset(r, chunk);
    const Place place = {s.keyBlock, s.keyRow + position + r};
    const unsigned char* from =
        matrix.data + (bytes > 0 ? elementOf(matrix, place, keyHead) + first + chunk * 8 : 0) * 2;
    const int64 step = bytes > 0 ? matrix.row * STEP * 2 : 0;
#pragma unroll
    for (int i = 0; i < BN / STEP; i++) {
      copy16(base + i * STEP * Tile<DIM>::ROW_BYTES, from, bytes);
      from += step;
    }
  }

  template <int DIM, class Place_>
  __device__ __forceinline__ void copyKeys(const Matrix& matrix, int64 start, int first,
                                           int columns, const unsigned char* to, Place_ place) {
    if constexpr (CAN_COPY_STRAIGHT<DIM>) {
      if (a.layout == Layout::STRAIGHT && start >= s.firstKey && start + BN <= s.endKey) {
        copyStraight<DIM>(matrix, start, first, columns, to);
        return;
      }
    }
    copyRows<BN, DIM>(matrix, keyHead, first, columns, to, place);
  }

  // Starts copies of the keys and values of the tile at `start`.
  __device__ __forceinline__ void copyTile(int64 start, int stage) {
    const auto place = [&](int r, Place& at) {
      const int64 position = start + r;
      const bool present = position >= s.firstKey && position < s.endKey;
      if (present) {
        at = placeOf(a, s, task.sequence, position);
      }
      return present;
    };
    copyKeys<KEY_DIM>(a.k, start, 0, a.keyDim, shared.k[stage], place);
    copyKeys<SLICE>(a.v, start, task.slice * SLICE, a.valueDim, shared.v[stage], place);
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
        if (Q_IN_REGISTERS) {
#pragma unroll
          for (int e = 0; e < 4; e++) {
            x[i][e] = q[Q_IN_REGISTERS ? i : 0][Q_IN_REGISTERS ? d : 0][e];
          }
        } else {
          loadMatrices(x[i], Tile<KEY_DIM>::along(queries, 2 * d) + i * 16 * KEY_DIM * 2);
        }
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

  __device__ __forceinline__ void loadQueries() {
    const unsigned queries = operand<KEY_DIM, true>(shared.q + warpRow * KEY_DIM * 2);
#pragma unroll
    for (int i = 0; i < MT; i++) {
#pragma unroll
      for (int d = 0; d < KEY_DIM / 16; d++) {
        loadMatrices(q[i][d], Tile<KEY_DIM>::along(queries, 2 * d) + i * 16 * KEY_DIM * 2);
      }
    }
  }

  // GENERAL: scale, soft cap and ALiBi, where scores are.
  __device__ __forceinline__ void transform(float (&scores)[MT][NT][4], int64 start) {
    const bool caps = a.softCap != 0.0f;
    const float inverseCap = 1.0f / a.softCap;
#pragma unroll
    for (int i = 0; i < MT; i++) {
#pragma unroll
      for (int n = 0; n < NT; n++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const float x = scores[i][n][e] * a.scale;
          scores[i][n][e] = caps ? cappedNearly(x, a.softCap, inverseCap) : x;
        }
      }
    }
    if (a.slope.data != nullptr) {
      const float slope = slopeOf(a, task.sequence, task.head);
#pragma unroll
      for (int i = 0; i < MT; i++) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int64 distance = task.query + row(i, h) + s.alibiShift - start;
          // Rounded once: whole numbers are exact in 32 bits, and in float64 further away.
          if (distance == (int)distance && (int)distance > BN - 0x7fffffff) {
#pragma unroll
            for (int n = 0; n < NT; n++) {
#pragma unroll
              for (int e = 0; e < 2; e++) {
                float& x = scores[i][n][2 * h + e];
                x = lowered(x, slope, (float)((int)distance - column(n) - e));
              }
            }
          } else {
#pragma unroll
            for (int n = 0; n < NT; n++) {
#pragma unroll
              for (int e = 0; e < 2; e++) {
                float& x = scores[i][n][2 * h + e];
                x = lowered(x, slope, (float)((double)distance - (column(n) + e)));
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
        const int begin = (int)larger(shared.begin[row(i, h)] - start, 0);
        const int end = (int)smaller(shared.end[row(i, h)] - start, BN);
#pragma unroll
        for (int n = 0; n < NT; n++) {
#pragma unroll
          for (int e = 0; e < 2; e++) {
            float& x = scores[i][n][2 * h + e];
            x = column(n) + e >= begin && column(n) + e < end ? x : EMPTY;
          }
        }
      }
    }
  }

  // TAINT: a visible key weighs 1.
  __device__ __forceinline__ void flatten(float (&scores)[MT][NT][4]) {
#pragma unroll
    for (int i = 0; i < MT; i++) {
#pragma unroll
      for (int n = 0; n < NT; n++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
          scores[i][n][e] = scores[i][n][e] == EMPTY ? EMPTY : 0.0f;
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
    fillVisible(s, task.query, shared.begin, shared.end);
    const int64 first = visibleTo(s, task.query).begin / BN * BN;
    const int64 end = visibleTo(s, task.query + rows - 1).end;
    copyQueries();
    copyTile(first, 0);
    const int lastRow = min(warpRow + 16 * MT, rows) - 1; // of the warp
    const bool consults = a.maskCount > 0 || (SCORES == Scores::GENERAL && a.bias.data != nullptr);
    int stage = 0;
#pragma unroll 1
    for (int64 start = first; start < end; start += BN) {
      waitForCopies();
      __syncthreads();
      if (start + BN < end) {
        copyTile(start + BN, stage ^ 1);
      }
      if (pass != Pass::PLAIN) {
        replaceValues(stage);
      }
      if (Q_IN_REGISTERS && start == first) {
        loadQueries();
      }
      // A warp leaves out what none of its rows sees, which would change nothing.
      if (warpRow <= lastRow && start + BN > shared.begin[warpRow] && start < shared.end[lastRow]) {
        float scores[MT][NT][4];
        multiplyKeys(scores, stage);
        if (SCORES == Scores::GENERAL) {
          transform(scores, start);
        }
        if (consults) {
          consult(scores, start);
        }
        if (start < shared.begin[lastRow] || start + BN > shared.end[warpRow]) {
          hide(scores, start);
        }
        if (pass == Pass::TAINT) {
          flatten(scores);
        }
        raise(scores);
        multiplyValues(scores, stage);
      }
      stage ^= 1;
    }
    waitForCopies();
  }

  // Writes outputs and logarithms; returns whether one of this thread's is not finite.
  __device__ __forceinline__ bool finishRows() {
    const bool hasSink = a.sink.data != nullptr;
    const float sink = hasSink ? sinkOf(a, task.head) : 0.0f;
    float zero = 0.0f; // unless something is not finite
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
            zero = fmaf(x, 0.0f, zero);
          }
        }
        const int64 query = task.query + row(i, h);
        if (pass != Pass::TAINT && a.lse.data != nullptr && task.slice == 0 && lane % 4 == 0
            && query < s.queries) {
          const Place place = {s.queryBlock, s.queryRow + query};
          store(a.lse.data, a.lse.type, elementOf(a.lse, place, task.head), end.logSumExp);
        }
      }
      writeRows(i);
    }
    return zero != 0.0f;
  }

  // Writes 16 rows of outputs by way of the warp's patch, so that whole sectors of memory are written;
  // TAINT writes only what is NaN.
  __device__ __forceinline__ void writeRows(int i) {
    constexpr int PART = SLICE < PATCH_KEYS ? SLICE : PATCH_KEYS;
    float* patch = shared.patch[threadIdx.x / 32];
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
#pragma unroll 1
      for (int at = lane; at < 16 * PART / 2; at += 32) {
        const int64 query = task.query + warpRow + i * 16 + at / (PART / 2);
        const int dim = task.slice * SLICE + part * PART + at % (PART / 2) * 2;
        const float* x = patch + at / (PART / 2) * PATCH_STRIDE + at % (PART / 2) * 2;
        if (query < s.queries) {
          const Place place = {s.queryBlock, s.queryRow + query};
          writePair(elementOf(a.out, place, task.head) + dim, a.valueDim - dim, x[0], x[1]);
        }
      }
      __syncwarp();
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

} // namespace

extern "C" __constant__ LaunchShape launchShape = {THREADS, sizeof(Shared), BM, SLICES};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attend(const __grid_constant__ AttentionArguments a, unsigned char* noted, int64 tasks,
           int repair) {
  extern __shared__ __align__(128) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  Turn turn = firstTurn(noted, tasks, repair != 0);
#pragma unroll 1
  while (turn.task < tasks) {
    const bool nonFinite =
        attendTask(a, shared, taskOf(a, turn.task, BM, SLICES), turn.pass);
    turn = nextTurn(noted, tasks, turn, nonFinite);
  }
}
