// The verbs on rows of F64, in float64: plain kernels, a block a row, for those who need the
// digits. No options; results are rounded once to their types, which are run-time branches.
//
//   softmax, logSoftmax, logSumExp   two readings; the state (m, l) is kept by the five lines of
//                                    state.cuh, in natural units
//   topK, sample                     sort the row in `space`, in which a row has three numbers for
//                                    each element of the power of 2 from its length on
//
// Grid: at most a block a row, as many as have space. Block: THREADS. Elements belong to threads by
// their index, so a row has the same bits in any company.
#include "doubles.cuh"
#include "rows_arguments.cuh"
#include "sampling.cuh"
#include "state.cuh"

namespace {

constexpr int THREADS = 512;
constexpr int WARP = 32;
constexpr int WARPS = THREADS / WARP;
constexpr unsigned ALL_LANES = 0xffffffffu;
constexpr int64 NONE = -1;

struct State {
  double m;
  double l;
};

// The second and third of the five lines, in float64.

__device__ __forceinline__ double shift(double m) { return m == EMPTY ? 0.0 : m; }

__device__ __forceinline__ double correction(double before, double now) {
  return exp(before - shift(now));
}

__device__ __forceinline__ State merged(State a, State b) {
  const double m = fmax(a.m, b.m);
  return {m, __dadd_rn(__dmul_rn(a.l, correction(a.m, m)), __dmul_rn(b.l, correction(b.m, m)))};
}

// The state of a row, in all threads.
__device__ State stateOf(const double* row, int64 length) {
  __shared__ State shared[WARPS];
  State s = {EMPTY, 0.0};
  for (int64 i = threadIdx.x; i < length; i += THREADS) {
    const double m = fmax(s.m, row[i]);
    s = {m, fma(s.l, correction(s.m, m), exp(row[i] - shift(m)))};
  }
  for (int distance = WARP / 2; distance > 0; distance /= 2) {
    s = merged(s, {__shfl_xor_sync(ALL_LANES, s.m, distance),
                   __shfl_xor_sync(ALL_LANES, s.l, distance)});
  }
  __syncthreads(); // after the row before
  if (threadIdx.x % WARP == 0) {
    shared[threadIdx.x / WARP] = s;
  }
  __syncthreads();
  s = shared[0];
  for (int i = 1; i < WARPS; i++) {
    s = merged(s, shared[i]);
  }
  return s;
}

__device__ __forceinline__ double weightOf(double x, State s) {
  return s.l == 0.0 ? 0.0 : exp(x - s.m) / s.l;
}

__device__ __forceinline__ double logWeightOf(double x, State s) {
  return s.l == 0.0 ? EMPTY : x - s.m - log(s.l);
}

__device__ __forceinline__ const double* rowAt(const unsigned char* x, int64 row, int64 stride) {
  return reinterpret_cast<const double*>(x) + row * stride;
}

template <bool IS_LOG>
__device__ __forceinline__ void map(const RowArguments& a) {
  for (int64 r = blockIdx.x; r < a.rows; r += gridDim.x) {
    const double* row = rowAt(a.x, r, a.xStride);
    const State s = stateOf(row, a.length);
    for (int64 i = threadIdx.x; i < a.length; i += THREADS) {
      write(a.out, a.outType, r * a.outStride + i,
            IS_LOG ? logWeightOf(row[i], s) : weightOf(row[i], s));
    }
  }
}

// A row's elements in order: the largest first, NaN before all numbers, zeros of either sign equal,
// ties by index. `orders` holds values so that the first is the smallest, and ~0 at the end.
struct Sorted {
  unsigned long long* orders;
  int64* indices;
  double* sums; // room for as many
};

__device__ __forceinline__ unsigned long long orderOf(double x) {
  if (x != x) {
    return 0;
  }
  const unsigned long long bits = __double_as_longlong(x + 0.0); // -0 + 0 is 0
  return bits >> 63 ? bits : ~(bits | 1ull << 63);
}

__device__ Sorted sorted(const double* row, int64 length, unsigned long long* space) {
  int64 size = 2;
  while (size < length) {
    size *= 2;
  }
  const Sorted s = {space, reinterpret_cast<int64*>(space + size),
                    reinterpret_cast<double*>(space + 2 * size)};
  __syncthreads(); // after the row before
  for (int64 i = threadIdx.x; i < size; i += THREADS) {
    s.orders[i] = i < length ? orderOf(row[i]) : ~0ull;
    s.indices[i] = i;
  }
  for (int64 run = 2; run <= size; run *= 2) {
    for (int64 distance = run / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int64 i = threadIdx.x; i < size / 2; i += THREADS) {
        const int64 low = 2 * i - (i & (distance - 1));
        const int64 high = low + distance;
        const unsigned long long a = s.orders[low];
        const unsigned long long b = s.orders[high];
        const int64 indexA = s.indices[low];
        const int64 indexB = s.indices[high];
        const bool isAfter = a > b || (a == b && indexA > indexB);
        if (isAfter == ((low & run) == 0)) {
          s.orders[low] = b;
          s.orders[high] = a;
          s.indices[low] = indexB;
          s.indices[high] = indexA;
        }
      }
    }
  }
  __syncthreads();
  return s;
}

// How many of the first `count` it takes to reach a share p of their weights.
__device__ int64 nucleusOf(const double* row, const Sorted& s, int64 count, double temperature,
                           double p) {
  __shared__ int64 kept;
  const double largest = row[s.indices[0]];
  for (int64 i = threadIdx.x; i < count; i += THREADS) {
    s.sums[i] = exp((row[s.indices[i]] - largest) / temperature);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    double sum = 0.0;
    for (int64 i = 0; i < count; i++) {
      sum += s.sums[i];
    }
    double reached = s.sums[0];
    int64 i = 1;
    while (i < count && reached < p * sum) {
      reached += s.sums[i++];
    }
    kept = i;
  }
  __syncthreads();
  return kept;
}

// An element's key and index: the larger key wins, of equal ones the lower index.
struct Draw {
  double key;
  int64 index;

  __device__ __forceinline__ void meet(Draw other) {
    if (other.key > key || (other.key == key && other.index < index)) {
      *this = other;
    }
  }
};

__device__ Draw winnerOf(Draw own) {
  __shared__ Draw shared[WARPS];
  for (int distance = WARP / 2; distance > 0; distance /= 2) {
    own.meet({__shfl_xor_sync(ALL_LANES, own.key, distance),
              __shfl_xor_sync(ALL_LANES, own.index, distance)});
  }
  __syncthreads();
  if (threadIdx.x % WARP == 0) {
    shared[threadIdx.x / WARP] = own;
  }
  __syncthreads();
  for (int i = 0; i < WARPS; i++) {
    own.meet(shared[i]);
  }
  return own;
}

__device__ int64 draw(const SampleArguments& a, const double* row, int64 r) {
  const State s = stateOf(row, a.length);
  if (s.l == 0.0 || s.l != s.l) { // without a logit above -inf; with NaN or +inf
    return NONE;
  }
  const bool isGreedy = a.temperature == 0.0;
  const bool isSorted = !isGreedy && ((a.topK > 0 && a.topK < a.length) || a.topP < 1.0);
  Sorted order = {};
  int64 count = a.length;
  if (isSorted) {
    order = sorted(row, a.length, a.space + blockIdx.x * a.spaceStride);
    count = a.topK > 0 && a.topK < a.length ? a.topK : a.length;
    if (a.topP < 1.0) {
      count = nucleusOf(row, order, count, a.temperature, a.topP);
    }
  }
  const unsigned long long stream = streamOf(a.seed, a.firstRow + r);
  Draw own = {EMPTY, NONE};
  for (int64 i = threadIdx.x; i < count; i += THREADS) {
    const int64 index = isSorted ? order.indices[i] : i;
    const double score = isGreedy ? row[index] : (row[index] - s.m) / a.temperature;
    if (isGreedy || (score >= a.least && score > EMPTY)) {
      const double exponential = -log1p(-uniformOf(stream, (unsigned)index));
      own.meet({isGreedy ? score : score - log(exponential), index});
    }
  }
  return winnerOf(own).index;
}

} // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
    softmax(const __grid_constant__ RowArguments a) {
  map<false>(a);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    logSoftmax(const __grid_constant__ RowArguments a) {
  map<true>(a);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    logSumExp(const __grid_constant__ RowArguments a) {
  for (int64 r = blockIdx.x; r < a.rows; r += gridDim.x) {
    const State s = stateOf(rowAt(a.x, r, a.xStride), a.length);
    if (threadIdx.x == 0) {
      write(a.out, a.outType, r * a.outStride, s.l == 0.0 ? EMPTY : s.m + log(s.l));
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    topK(const __grid_constant__ SelectArguments a) {
  for (int64 r = blockIdx.x; r < a.rows; r += gridDim.x) {
    const double* row = rowAt(a.x, r, a.xStride);
    const State s = stateOf(row, a.length);
    const Sorted order = sorted(row, a.length, a.space + blockIdx.x * a.spaceStride);
    for (int64 i = threadIdx.x; i < a.k; i += THREADS) {
      const int64 index = order.indices[i];
      write(a.values, a.valuesType, r * a.valuesStride + i, row[index]);
      writeIndex(a.indices, a.areLong, r * a.indicesStride + i, index);
      if (a.probabilities != nullptr) {
        write(a.probabilities, a.probabilitiesType, r * a.probabilitiesStride + i,
              weightOf(row[index], s));
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sample(const __grid_constant__ SampleArguments a) {
  for (int64 r = blockIdx.x; r < a.rows; r += gridDim.x) {
    const int64 index = draw(a, rowAt(a.x, r, a.xStride), r);
    if (threadIdx.x == 0) {
      writeIndex(a.indices, a.areLong, r * a.indicesStride, index);
    }
  }
}
