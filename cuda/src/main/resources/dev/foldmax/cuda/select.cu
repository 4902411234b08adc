// The k largest of each row with their softmax probabilities over the whole row: (rows, length) in
// F32, F16 or BF16. Option: FOLDMAX_TYPE, the type of x.
//
//   topK_8, topK_32   k to 8 or 32, in the same reading as the sum (Milakov and Gimelshein, arXiv
//                     1805.02867, section 4): each warp keeps its first places sorted in its lanes
//   topK              any k: a second reading, and more where values crowd; see firstPlaces
//
// The state (m, l) of state.cuh is kept by `absorb` of rows.cuh. Which kernel serves a row follows
// from k; which thread an element, from its index.
#include "selection.cuh"

namespace {

__device__ __forceinline__ LongRow longRow(const SelectArguments& a, int64 row) {
  return {a.x + row * a.xStride * SIZE, a.length};
}

// Writes the element at a place as number i of its row.
__device__ __forceinline__ void writeElement(const SelectArguments& a, int64 row, int64 i,
                                             Place place, const Finish& finish) {
  const int64 index = indexAt(place);
  const float x = elementAt(longRow(a, row), index); // as it is: placeOf forgets the sign of zero
  store(a.values, a.valuesType, row * a.valuesStride + i, x);
  writeIndex(a.indices, a.areLong, row * a.indicesStride + i, index);
  if (a.probabilities != nullptr) {
    store(a.probabilities, a.probabilitiesType, row * a.probabilitiesStride + i,
          finished<false, Type::F32, false>(x, finish));
  }
}

// Numbers as integers of the same order, and back.

__device__ __forceinline__ int integerOf(float x) {
  const int bits = __float_as_int(x);
  return bits < 0 ? bits ^ 0x7fffffff : bits;
}

__device__ __forceinline__ float floatOf(int integer) {
  return __int_as_float(integer < 0 ? integer ^ 0x7fffffff : integer);
}

// A warp's first KEPT places so far, in order, one a lane; NOWHERE in the others.
template <int KEPT>
struct Shortlist {
  Place own = NOWHERE;
  float worst = __uint_as_float(0xffffffffu); // the value of the last; NaN while there is none

  __device__ __forceinline__ void offer(Place place) {
    const int at = __popc(__ballot_sync(ALL_LANES, own < place));
    if (at >= KEPT) {
      return;
    }
    const Place before = shuffledUp(own, 1);
    const int lane = threadIdx.x % WARP;
    if (lane < KEPT && lane >= at) {
      own = lane == at ? place : before;
    }
    worst = valueAt(__shfl_sync(ALL_LANES, own, KEPT - 1));
  }
};

// The KEPT-th largest of the lanes' numbers.
template <int KEPT>
__device__ __forceinline__ float largestButFew(float x) {
  unsigned order = orderOf(x);
  if (KEPT == WARP) {
    return valueAt((Place)~__reduce_min_sync(ALL_LANES, order) << 32);
  }
  unsigned largest = 0;
#pragma unroll 1
  for (int i = 0; i < KEPT; i++) {
    largest = __reduce_max_sync(ALL_LANES, order);
    const unsigned holders = __ballot_sync(ALL_LANES, order == largest);
    if ((int)(threadIdx.x % WARP) == __ffs(holders) - 1) {
      order = 0;
    }
  }
  return valueAt((Place)~largest << 32);
}

template <int THREADS, int PACKS, int KEPT>
__device__ __forceinline__ void selectWhileSumming(const SelectArguments& a, int64 r) {
  constexpr int WARPS = THREADS / WARP;
  __shared__ State states[WARPS];
  __shared__ Place lists[WARPS * KEPT];
  // The best of the warps' worst, in the order of floats as integers: KEPT elements are no smaller.
  // How soon a warp learns of it is a matter of chance, and of no consequence: what it turns away
  // is not among the first of the row.
  __shared__ int commonWorst;
  const LongRow row = longRow(a, r);
  __syncthreads(); // after the row before
  if (threadIdx.x == 0) {
    commonWorst = integerOf(EMPTY);
  }
  __syncthreads();
  const int lane = threadIdx.x % WARP;
  State s = {EMPTY, 0.0f};
  Shortlist<KEPT> list;
  float known = EMPTY; // of commonWorst
  forEachBatch<THREADS, PACKS>(
      row, [&](uint4 (&packs)[PACKS], const Span& span, int first, int64 begin) {
        const float m = maximumOf<PACKS>(packs);
        absorb<PACKS>(s, packs);
        // What came earlier has lower indices: an equal element of this warp is too late.
        const float worst = list.worst;
        float common = known;
        const bool mayPass = (!(m <= worst) && !(m < common)) || s.l != s.l;
        const unsigned passing = __ballot_sync(ALL_LANES, mayPass);
        if (passing == 0) {
          return;
        }
        if (__popc(passing) > KEPT) {
          common = fmaxf(common, largestButFew<KEPT>(m));
        }
        unsigned wanted = 0;
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
          float x[WIDTH];
          widen<INPUT>(packs[k], x);
#pragma unroll
          for (int i = 0; i < WIDTH; i++) {
            const bool passes = !(x[i] <= worst) && !(x[i] < common);
            const bool exists = (first + k * THREADS) * WIDTH + i < span.length;
            wanted |= passes && exists ? 1u << (k * WIDTH + i) : 0;
          }
        }
        for (unsigned lanes; (lanes = __ballot_sync(ALL_LANES, wanted != 0)) != 0;) {
          const int from = __ffs(lanes) - 1;
          const int bit = __shfl_sync(ALL_LANES, __ffs(wanted) - 1, from);
          if (lane == from) {
            wanted &= wanted - 1;
          }
          const int pack = first - lane + from + bit / WIDTH * THREADS;
          const int64 index = begin + pack * WIDTH + bit % WIDTH;
          list.offer(placeOf(elementAt(row, index), index));
        }
        int best = 0;
        if (lane == 0) {
          const int own = list.worst >= known ? integerOf(list.worst) : integerOf(known);
          best = max(own, atomicMax(&commonWorst, own));
        }
        known = floatOf(__shfl_sync(ALL_LANES, best, 0));
      });
  s = mergedOverBlock<THREADS>(s, states);
  if (lane < KEPT) {
    lists[threadIdx.x / WARP * KEPT + lane] = list.own;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < WARPS * KEPT; i += THREADS) {
    const Place place = lists[i];
    int rank = 0;
    for (int j = 0; j < WARPS * KEPT; j++) {
      rank += lists[j] < place;
    }
    if (place != NOWHERE && rank < a.k) {
      writeElement(a, r, rank, place, finishOf(s));
    }
  }
}

} // namespace

// Grid: at most a block a row.
extern "C" __global__ void __launch_bounds__(256, INPUT == Type::F32 ? 6 : 4)
    topK_8(const __grid_constant__ SelectArguments a) {
  for (int64 r = blockIdx.x; r < a.rows; r += gridDim.x) {
    selectWhileSumming<256, 4, 8>(a, r);
  }
}

extern "C" __global__ void __launch_bounds__(256, INPUT == Type::F32 ? 6 : 4)
    topK_32(const __grid_constant__ SelectArguments a) {
  for (int64 r = blockIdx.x; r < a.rows; r += gridDim.x) {
    selectWhileSumming<256, 4, 32>(a, r);
  }
}

// Grid: at most a block a row, as many as have space.
extern "C" __global__ void __launch_bounds__(SELECTORS, 2)
    topK(const __grid_constant__ SelectArguments a) {
  __shared__ Desk desk;
  __shared__ State states[SELECTORS / WARP];
  for (int64 r = blockIdx.x; r < a.rows; r += gridDim.x) {
    const LongRow row = longRow(a, r);
    State s = {EMPTY, 0.0f};
    forEachBatch<SELECTORS, 2>(
        row, [&](uint4 (&packs)[2], const Span&, int, int64) { absorb<2>(s, packs); });
    const float largest = s.m;
    s = mergedOverBlock<SELECTORS>(s, states);
    const Place* places =
        firstPlaces(row, a.k, largest, desk, a.space + blockIdx.x * a.spaceStride);
    const Finish finish = finishOf(s);
    for (int64 i = threadIdx.x; i < a.k; i += SELECTORS) {
      writeElement(a, r, i, places[i], finish);
    }
    __syncthreads();
  }
}
