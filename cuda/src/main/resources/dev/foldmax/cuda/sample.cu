// Draws an index from the softmax of each row of logits: (rows, length) in F32, F16 or BF16, as
// dev.foldmax.Sampling defines it. Option: FOLDMAX_TYPE, the type of the logits.
//
// The largest key, logit / temperature - ln(E), wins. It is also the earliest arrival E / w, with
// w = e^score, in a race of exponential clocks: float32 bounds of the arrivals tell which elements
// may still win, and only their keys are computed, in float64, as the definition says. So the winner
// depends neither on the order in which threads find elements nor on how the row is cut. The sums
// that topP asks for are added in an order that the length of the row fixes.
//
// Grid: at most a block a row, as many as have space. Block: SELECTORS threads.
#include "selection.cuh"

struct SampleArguments {
  const unsigned char* x; // (rows, length)
  int64 rows;
  int64 length;           // less than 2^32
  int64 xStride;          // elements from row to row
  unsigned char* indices; // (rows), I64 or I32
  int64 indicesStride;
  Place* space; // (blocks, spaceStride), for topK above LISTED
  int64 spaceStride;
  double temperature;
  double inverse; // 1 / temperature, at most 10^300
  double topP;
  double least; // ln(minP): scores below it are dropped
  int64 topK;   // 0 for all
  int64 seed;
  int64 firstRow; // number of row 0 for the generator
  int areLong;    // indices
  int pad;
};

namespace {

constexpr int WARPS = SELECTORS / WARP;
constexpr int64 NONE = -1;

// Sampling.stream, bits and uniform.

__device__ __forceinline__ unsigned long long mix64(unsigned long long z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

__device__ __forceinline__ unsigned long long streamOf(unsigned long long seed,
                                                       unsigned long long row) {
  constexpr unsigned long long STEP = 0x9e3779b97f4a7c15ull;
  return mix64(mix64(seed + STEP) + row * STEP);
}

__device__ __forceinline__ unsigned mix32(unsigned x) {
  x = (x ^ x >> 16) * 0x21f0aaadu;
  x = (x ^ x >> 15) * 0xd35a2d97u;
  return x ^ x >> 15;
}

__device__ __forceinline__ unsigned bitsOf(unsigned long long stream, unsigned index) {
  return mix32(mix32(index ^ (unsigned)stream) + (unsigned)(stream >> 32));
}

__device__ __forceinline__ double uniformOf(unsigned long long stream, unsigned index) {
  return (bitsOf(stream, index) + 0.5) * 0x1p-32;
}

// What scores of a row are made with.
struct Scale {
  float largest; // element of the row
  double temperature;
  double inverse;
};

__device__ __forceinline__ double scoreOf(const Scale& s, float x) {
  return ((double)x - s.largest) / s.temperature;
}

// e^score, to float32's accuracy.
__device__ __forceinline__ double weightIn(const Scale& s, float x) {
  const double exponent = ((double)x - s.largest) * s.inverse * 1.4426950408889634;
  if (exponent < -200.0) {
    return 0.0;
  }
  const float t = (float)exponent;
  const float power = exp2Fast(t);
  return fmaf(power, (float)(exponent - t) * LN_2, power);
}

// The race.

// The row's largest element, with w = 1, arrives by ln(2^33) = 22.9, whatever its random bits.
constexpr float LATEST = 24.0f;

// A bound up to LATEST lies above the arrival by less than this part: such an element has a score
// above -27, whose roundings come to 1e-5.
constexpr float BOUND_ERROR = 4e-5f;

struct Race {
  Scale scale;
  double least;
  unsigned long long stream;
  volatile float* latest; // bounds above it cannot win; shared by the block, written at any time
  double best;
  int64 winner;

  // Whether an element may still win. Differences are halved, lest they overflow.
  __device__ __forceinline__ bool mayWin(float x, int64 index) const {
    const float inverse = scale.inverse < 1e30 ? (float)scale.inverse : 1e30f;
    const float score = (0.5f * x - 0.5f * scale.largest) * inverse * 2.0f;
    const float u = ((bitsOf(stream, (unsigned)index) >> 1) + 0.25f) * 0x1p-31f;
    const float clock = u * fmaf(0.5f, u, 1.0f); // -ln(1 - u) is later
    const float bound = clock * exp2Fast(fminf(-score * LOG2_E, 115.0f));
    return bound <= *latest && x != EMPTY;
  }

  __device__ __forceinline__ void offer(float x, int64 index) {
    const double score = scoreOf(scale, x);
    if (score < least || score == (double)EMPTY) {
      return;
    }
    const double exponential = -log1p(-uniformOf(stream, (unsigned)index));
    const double key = score - log(exponential);
    if (key > best || (key == best && index < winner)) {
      best = key;
      winner = index;
      const float arrival = (float)exp(-key) * (1.0f + BOUND_ERROR);
      if (arrival < *latest) {
        *latest = arrival;
      }
    }
  }

  __device__ __forceinline__ void meet(double key, int64 index) {
    if (key > best || (key == best && index < winner)) {
      best = key;
      winner = index;
    }
  }
};

// The winner of a block's races, in thread 0.
__device__ __forceinline__ int64 winnerOf(Race& race) {
  __shared__ double keys[WARPS];
  __shared__ int64 winners[WARPS];
#pragma unroll
  for (int distance = WARP / 2; distance > 0; distance /= 2) {
    race.meet(__shfl_xor_sync(ALL_LANES, race.best, distance),
              __shfl_xor_sync(ALL_LANES, race.winner, distance));
  }
  if (threadIdx.x % WARP == 0) {
    keys[threadIdx.x / WARP] = race.best;
    winners[threadIdx.x / WARP] = race.winner;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < WARPS; i++) {
      race.meet(keys[i], winners[i]);
    }
  }
  return race.winner;
}

// The first place of a block's threads, in all of them.
__device__ __forceinline__ Place firstOf(Place place) {
  __shared__ Place places[WARPS];
#pragma unroll
  for (int distance = WARP / 2; distance > 0; distance /= 2) {
    const Place other = __shfl_xor_sync(ALL_LANES, place, distance);
    place = other < place ? other : place;
  }
  if (threadIdx.x % WARP == 0) {
    places[threadIdx.x / WARP] = place;
  }
  __syncthreads();
  for (int i = 0; i < WARPS; i++) {
    place = places[i] < place ? places[i] : place;
  }
  return place;
}

// topP.

// How many of some sorted elements it takes until `reached` grows to the target: the share p of
// their own sum where isWhole, else `target` itself.
__device__ __forceinline__ unsigned countToTarget(const Scale& scale, const Place* places,
                                                  unsigned count, bool isWhole, double reached,
                                                  double target) {
  __shared__ double sums[SELECTORS]; // of runs of `each` elements
  __shared__ unsigned kept;
  const unsigned each = (count + SELECTORS - 1) / SELECTORS;
  double own = 0.0;
  for (unsigned i = threadIdx.x * each; i < (threadIdx.x + 1) * each && i < count; i++) {
    own += weightIn(scale, valueAt(places[i]));
  }
  __syncthreads();
  sums[threadIdx.x] = own;
  if (threadIdx.x == 0) {
    kept = count;
  }
  __syncthreads();
  if (threadIdx.x < WARP) { // each lane has SELECTORS / WARP neighbouring runs
    constexpr int RUNS = SELECTORS / WARP;
    double sum = 0.0;
    for (int i = 0; i < RUNS; i++) {
      sum += sums[threadIdx.x * RUNS + i];
    }
    double before = 0.0;
    double total = 0.0;
    for (int lane = 0; lane < WARP; lane++) {
      const double other = __shfl_sync(ALL_LANES, sum, lane);
      before += lane < (int)threadIdx.x ? other : 0.0;
      total += other;
    }
    const double goal = isWhole ? target * total : target;
    before += reached;
    const unsigned lanes = __ballot_sync(ALL_LANES, before + sum >= goal);
    if (lanes != 0 && (int)threadIdx.x == __ffs(lanes) - 1) {
      unsigned run = threadIdx.x * RUNS;
      while (run + 1 < (threadIdx.x + 1) * RUNS && before + sums[run] < goal) {
        before += sums[run++];
      }
      unsigned i = run * each;
      while (i + 1 < count) {
        before += weightIn(scale, valueAt(places[i]));
        if (before >= goal) {
          break;
        }
        i++;
      }
      kept = i < count ? i + 1 : count;
    }
  }
  __syncthreads();
  return kept;
}

constexpr int CUTS = 8;

// Sums and counts, over a block, in all threads; added in one order.
__device__ __forceinline__ void addUp(double (&sums)[CUTS], unsigned (&counts)[CUTS]) {
  __shared__ double sharedSums[WARPS][CUTS];
  __shared__ unsigned sharedCounts[WARPS][CUTS];
  __syncthreads();
#pragma unroll
  for (int c = 0; c < CUTS; c++) {
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
      sums[c] += __shfl_xor_sync(ALL_LANES, sums[c], distance);
    }
    counts[c] = __reduce_add_sync(ALL_LANES, counts[c]);
    if (threadIdx.x % WARP == 0) {
      sharedSums[threadIdx.x / WARP][c] = sums[c];
      sharedCounts[threadIdx.x / WARP][c] = counts[c];
    }
  }
  __syncthreads();
#pragma unroll
  for (int c = 0; c < CUTS; c++) {
    sums[c] = sharedSums[0][c];
    counts[c] = sharedCounts[0][c];
    for (int i = 1; i < WARPS; i++) {
      sums[c] += sharedSums[i][c];
      counts[c] += sharedCounts[i][c];
    }
  }
}

// The last place that topP keeps of a whole row. Each reading cuts the range of values that holds the
// boundary into CUTS parts of equal width in orderOf, until the part with the boundary is short
// enough to be sorted, or one value.
__device__ __forceinline__ Place lastOfNucleus(const LongRow& row, const Scale& scale, double p,
                                               Desk& desk) {
  unsigned high = orderOf(scale.largest);
  unsigned low = orderOf(-3.402823466e38f);
  double reached = 0.0; // the weight of elements above `high`, and their number
  unsigned before = 0;
  double target = -1.0;
  while (true) {
    const unsigned width = (high - low) / CUTS + 1;
    unsigned ends[CUTS]; // the lowest order of each part
    double sums[CUTS];   // of elements from there up to `high`
    unsigned counts[CUTS];
#pragma unroll
    for (int c = 0; c < CUTS; c++) {
      const unsigned long long down = (unsigned long long)width * (c + 1) - 1;
      ends[c] = down < high - low ? high - (unsigned)down : low;
      sums[c] = 0.0;
      counts[c] = 0;
    }
    forEachBatch<SELECTORS, 1>(row, [&](uint4 (&packs)[1], const Span& span, int first, int64) {
      float x[WIDTH];
      widen<INPUT>(packs[0], x);
#pragma unroll
      for (int i = 0; i < WIDTH; i++) {
        const unsigned order = orderOf(x[i]); // of -inf, also beyond the end: below `low`
        if (low <= order && order <= high) {
          const double weight = weightIn(scale, x[i]);
#pragma unroll
          for (int c = 0; c < CUTS; c++) {
            sums[c] += order >= ends[c] ? weight : 0.0;
            counts[c] += order >= ends[c];
          }
        }
      }
    });
    addUp(sums, counts);
    if (target < 0.0) {
      target = p * sums[CUTS - 1];
    }
    unsigned inside = counts[CUTS - 1];
    unsigned end = low;
    double sumAbove = 0.0;
    unsigned countAbove = 0;
    unsigned top = high;
#pragma unroll
    for (int c = CUTS - 2; c >= 0; c--) { // the first part that takes the sum to the target
      if (ends[c] == low || reached + sums[c] >= target) {
        end = ends[c];
        inside = counts[c];
      } else if (top == high) { // what lies above it
        sumAbove = sums[c];
        countAbove = counts[c];
        top = ends[c] - 1;
      }
    }
    low = end;
    high = top;
    reached += sumAbove;
    before += countAbove;
    inside -= countAbove;
    if (inside <= LISTED) {
      collect(row, (Place)~high << 32, (Place)~low << 32 | 0xffffffffu, desk.places, LISTED);
      fillAndSort(desk.places, inside);
      return desk.places[countToTarget(scale, desk.places, inside, false, reached, target) - 1];
    }
    if (low == high) {
      const double weight = weightIn(scale, valueAt((Place)~high << 32));
      const double more = ceil((target - reached) / weight);
      return lastOfFirst(row, before + (more < 1.0       ? 1u
                                        : more < inside ? (unsigned)more
                                                        : inside),
                         desk.bins);
    }
  }
}

__device__ __forceinline__ void sampleRow(const SampleArguments& a, int64 r, Desk& desk,
                                          volatile float* latest) {
  const LongRow row = {a.x + r * a.xStride * SIZE, a.length};
  const Place best = firstPlaceOf(row, [](uint4 (&)[2]) {});
  const Place first = firstOf(best);
  const float largest = valueAt(first);
  int64 winner = NONE;
  if (!isNonFinite(largest)) { // nor empty: valueAt(NOWHERE) is NaN
    if (a.temperature == 0.0) {
      winner = indexAt(first);
    } else {
      const Scale scale = {largest, a.temperature, a.inverse};
      Race race = {scale, a.least, streamOf(a.seed, a.firstRow + r), latest, EMPTY, NONE};
      if (threadIdx.x == 0) {
        *latest = LATEST;
      }
      if (a.topK > 0 && a.topK < a.length) {
        const unsigned k = (unsigned)a.topK;
        const Place* places =
            firstPlaces(row, k, best, desk, a.space + blockIdx.x * a.spaceStride);
        const unsigned kept =
            a.topP < 1.0 ? countToTarget(scale, places, k, true, 0.0, a.topP) : k;
        for (unsigned i = threadIdx.x; i < kept; i += SELECTORS) {
          race.offer(valueAt(places[i]), indexAt(places[i]));
        }
      } else {
        const Place last = a.topP < 1.0 ? lastOfNucleus(row, scale, a.topP, desk) : NOWHERE;
        __syncthreads();
        forEachWanted<SELECTORS, 2>(
            row,
            [&](float x, int64 index) {
              return (last == NOWHERE || placeOf(x, index) <= last) && race.mayWin(x, index);
            },
            [&](float x, int64 index) { race.offer(x, index); });
      }
      winner = winnerOf(race);
    }
  }
  if (threadIdx.x == 0) {
    if (a.areLong) {
      reinterpret_cast<int64*>(a.indices)[r * a.indicesStride] = winner;
    } else {
      reinterpret_cast<int*>(a.indices)[r * a.indicesStride] = (int)winner;
    }
  }
}

} // namespace

extern "C" __global__ void __launch_bounds__(SELECTORS, 1)
    sample(const __grid_constant__ SampleArguments a) {
  __shared__ Desk desk;
  __shared__ volatile float latest;
  for (int64 r = blockIdx.x; r < a.rows; r += gridDim.x) {
    sampleRow(a, r, desk, &latest);
    __syncthreads();
  }
}
