// Draws an index from the softmax of each row of logits: (rows, length) in F32, F16 or BF16, as
// dev.foldmax.Sampling defines it. Option: FOLDMAX_TYPE, the type of the logits.
//
// The largest key, logit / temperature - ln(E), wins. It is also the earliest arrival E / w, with w
// = e^score, in a race of exponential clocks: float32 bounds of the arrivals tell which elements
// may still win, and only their keys are computed, in float64, as the definition says. So the
// winner depends neither on the order in which threads find elements nor on how the row is cut. The
// sums that topP asks for are added in an order that the length of the row fixes.
//
//   sample          temperature 0, topK (also with topP among what it keeps), minP, or everything
//   sampleNucleus   topP of a whole row
//
// Grid: at most a block a row, as many as have space. Block: SELECTORS threads.
#include "sampling.cuh"
#include "selection.cuh"

namespace {

constexpr int WARPS = SELECTORS / WARP;
constexpr int64 NONE = -1;

// What scores of a row are made with: score = (x - largest) / temperature.
struct Scale {
  float largest; // element of the row
  double temperature;
  float binary; // 2 * log2(e) / temperature, at most 10^30: what lies below it is far below

  // score * log2(e), in float32. Differences are halved, lest they overflow.
  __device__ __forceinline__ float binaryScoreOf(float x) const {
    return fmaf(0.5f, x, -0.5f * largest) * binary;
  }

  // e^score.
  __device__ __forceinline__ float weightOf(float x) const { return exp2Fast(binaryScoreOf(x)); }
};

__device__ __forceinline__ Scale scaleOf(float largest, double temperature) {
  return {largest, temperature, (float)fmin(2.0 * 1.4426950408889634 / temperature, 1e30)};
}

// The race.

// The row's largest element, with w = 1, arrives by ln(2^33) = 22.9, whatever its random bits.
constexpr float LATEST = 24.0f;

// A bound up to LATEST lies above the arrival by less than this part: such an element has a score
// above -27, whose roundings come to 1e-5.
constexpr float BOUND_ERROR = 4e-5f;

// A thread's part in it: a sieve of what may still win.
struct Race {
  Scale scale;
  double least; // scores below it are dropped
  unsigned long long stream;
  Place last;             // places after it are dropped
  unsigned* latest; // bits of the bound above which none can win; shared by the block
  float knownLatest;
  double best;
  int64 winner;

  // For whole warps. How soon a thread learns of another's arrival is a matter of chance, and of no
  // consequence for the winner.
  __device__ __forceinline__ void refresh() {
    unsigned bits = 0;
    if (threadIdx.x % WARP == 0) {
      bits = atomicMin(latest, __float_as_uint(LATEST));
    }
    knownLatest = __uint_as_float(__shfl_sync(ALL_LANES, bits, 0));
  }

  __device__ __forceinline__ bool wants(float x, int64 index) const {
    const float u = (bitsOf(stream, (unsigned)index) + 0.25f) * (0x1p-32f * (1.0f - 0x1p-20f));
    const float clock = u * fmaf(0.5f, u, 1.0f); // -ln(1 - u) is later
    const float bound = clock * exp2Fast(fminf(-scale.binaryScoreOf(x), 115.0f));
    return bound <= knownLatest && x != EMPTY;
  }

  __device__ __forceinline__ void take(float x, int64 index) {
    const double score = ((double)x - scale.largest) / scale.temperature;
    if (score < least || score == (double)EMPTY || placeOf(x, index) > last) {
      return;
    }
    const double exponential = -log1p(-uniformOf(stream, (unsigned)index));
    const double key = score - log(exponential);
    if (key > best || (key == best && index < winner)) {
      best = key;
      winner = index;
      atomicMin(latest, __float_as_uint((float)exp(-key) * (1.0f + BOUND_ERROR)));
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

// A thread's largest element, NaN if it has one, and the batch in which it came first.
struct Largest {
  float x;
  int64 batch; // the index of the batch's first element that is the thread's
};

constexpr int SEEN_PACKS = 4;

__device__ __forceinline__ Largest largestOf(const LongRow& row) {
  Largest largest = {EMPTY, 0};
  forEachBatch<SELECTORS, SEEN_PACKS>(
      row, [&](uint4 (&packs)[SEEN_PACKS], const Span&, int first, int64 begin) {
        const float m = maximumOf<SEEN_PACKS, Nans::KEPT>(packs);
        if (!(m <= largest.x)) {
          largest = {m, begin + (int64)first * WIDTH};
        }
      });
  return largest;
}

// The largest of a block's threads, NaN if one has it, in all of them.
__device__ __forceinline__ float largestOverBlock(float x) {
  __shared__ float shared[WARPS];
#pragma unroll
  for (int distance = WARP / 2; distance > 0; distance /= 2) {
    x = larger<Nans::KEPT>(x, __shfl_xor_sync(ALL_LANES, x, distance));
  }
  if (threadIdx.x % WARP == 0) {
    shared[threadIdx.x / WARP] = x;
  }
  __syncthreads();
  for (int i = 0; i < WARPS; i++) {
    x = larger<Nans::KEPT>(x, shared[i]);
  }
  return x;
}

// The lowest index of the row's largest element; no more threads than hold it look again.
__device__ __forceinline__ int64 indexOfLargest(const LongRow& row, const Largest& own,
                                                float largest) {
  __shared__ unsigned lowest;
  __syncthreads();
  if (threadIdx.x == 0) {
    lowest = 0xffffffffu;
  }
  __syncthreads();
  if (own.x == largest) {
    for (int k = 0; k < SEEN_PACKS; k++) {
      for (int i = 0; i < WIDTH; i++) {
        const int64 index = own.batch + (int64)k * SELECTORS * WIDTH + i;
        if (index < row.length && elementAt(row, index) == largest) {
          atomicMin(&lowest, (unsigned)index);
        }
      }
    }
  }
  __syncthreads();
  return lowest;
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
    own += scale.weightOf(valueAt(places[i]));
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
        before += scale.weightOf(valueAt(places[i]));
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

// The values that hold the end of what topP keeps, as orderOf gives them, and what lies above.
struct Range {
  unsigned high;
  unsigned low;
  double weightAbove;
  unsigned countAbove;
  unsigned count; // of elements inside
};

// Narrows a range to the part in which the weights come to the target, a share p of all weights if
// it is negative. Part c ends with ends[c], the last with the range.
__device__ __forceinline__ void narrow(const LongRow& row, const Scale& scale,
                                       const unsigned (&ends)[CUTS], double p, double& target,
                                       Range& range) {
  const float highest = valueAt((Place)~range.high << 32);
  float lowest[CUTS];
  double sums[CUTS]; // from the top of the range to the end of each part
  unsigned counts[CUTS];
#pragma unroll
  for (int c = 0; c < CUTS; c++) {
    lowest[c] = valueAt((Place)~ends[c] << 32);
    sums[c] = 0.0;
    counts[c] = 0;
  }
  forEachBatch<SELECTORS, 1>(row, [&](uint4 (&packs)[1], const Span&, int, int64) {
    float some[CUTS] = {};
    float x[WIDTH];
    widen<INPUT>(packs[0], x);
#pragma unroll
    for (int i = 0; i < WIDTH; i++) { // -inf, also beyond the end, lies below the range
      const float weight = x[i] <= highest ? scale.weightOf(x[i]) : 0.0f;
#pragma unroll
      for (int c = 0; c < CUTS; c++) {
        const bool isInside = x[i] <= highest && x[i] >= lowest[c];
        some[c] += isInside ? weight : 0.0f;
        counts[c] += isInside;
      }
    }
#pragma unroll
    for (int c = 0; c < CUTS; c++) {
      sums[c] += some[c];
    }
  });
  addUp(sums, counts);
  if (target < 0.0) {
    target = p * sums[CUTS - 1];
  }
  const Range whole = range;
  range.low = ends[CUTS - 1];
  range.count = counts[CUTS - 1];
#pragma unroll
  for (int c = CUTS - 2; c >= 0; c--) { // the first part that takes the sum to the target
    if (ends[c] == whole.low || whole.weightAbove + sums[c] >= target) {
      range.low = ends[c];
      range.count = counts[c];
    } else if (range.high == whole.high) { // what lies above that part
      range.high = ends[c] - 1;
      range.weightAbove = whole.weightAbove + sums[c];
      range.countAbove = whole.countAbove + counts[c];
    }
  }
  range.count -= range.countAbove - whole.countAbove;
}

// The last place that topP keeps of a whole row. Each reading narrows the range of values that
// holds the end, first by score, then by equal parts in orderOf, until it is short enough to be
// sorted, or one value.
__device__ __forceinline__ Place lastOfNucleus(const LongRow& row, const Scale& scale, double p,
                                               Desk& desk) {
  constexpr float LOWEST = -3.402823466e38f;
  constexpr float SCORES[CUTS - 1] = {-0.5f, -1.5f, -3.0f, -4.5f, -6.5f, -9.0f, -13.0f};
  Range range = {orderOf(scale.largest), orderOf(LOWEST), 0.0, 0, 0};
  double target = -1.0;
  unsigned ends[CUTS];
#pragma unroll
  for (int c = 0; c < CUTS - 1; c++) {
    const float end = (float)(scale.largest + SCORES[c] * scale.temperature);
    ends[c] = orderOf(fmaxf(end, LOWEST));
  }
  ends[CUTS - 1] = range.low;
  while (true) {
    narrow(row, scale, ends, p, target, range);
    if (range.count <= LISTED) {
      collect(row, (Place)~range.high << 32, (Place)~range.low << 32 | 0xffffffffu, desk.places,
              LISTED);
      fillAndSort(desk.places, range.count);
      const unsigned kept = countToTarget(scale, desk.places, range.count, false,
                                          range.weightAbove, target);
      return desk.places[kept - 1];
    }
    if (range.low == range.high) {
      const double weight = scale.weightOf(valueAt((Place)~range.high << 32));
      const double more = ceil((target - range.weightAbove) / weight);
      return lastOfFirst(row,
                         range.countAbove + (more < 1.0           ? 1u
                                             : more < range.count ? (unsigned)more
                                                                  : range.count),
                         desk.bins);
    }
    const unsigned width = (range.high - range.low) / CUTS + 1;
#pragma unroll
    for (int c = 0; c < CUTS; c++) {
      const unsigned long long down = (unsigned long long)width * (c + 1) - 1;
      ends[c] = down < range.high - range.low ? range.high - (unsigned)down : range.low;
    }
  }
}

template <bool HAS_NUCLEUS>
__device__ __forceinline__ void sampleRow(const SampleArguments& a, int64 r, Desk& desk,
                                          unsigned* latest) {
  const LongRow row = {a.x + r * a.xStride * SIZE, a.length};
  const Largest own = largestOf(row);
  const float largest = largestOverBlock(own.x);
  int64 winner = NONE;
  if (!isNonFinite(largest)) { // the row is not empty either
    if (a.temperature == 0.0) {
      winner = indexOfLargest(row, own, largest);
    } else {
      const Scale scale = scaleOf(largest, a.temperature);
      if (threadIdx.x == 0) {
        *latest = __float_as_uint(LATEST);
      }
      Race race = {scale,  a.least, streamOf(a.seed, a.firstRow + r), NOWHERE, latest,
                   LATEST, EMPTY,   NONE};
      if (!HAS_NUCLEUS && a.topK > 0 && a.topK < a.length) {
        const unsigned k = (unsigned)a.topK;
        const Place* places =
            firstPlaces(row, k, own.x, desk, a.space + blockIdx.x * a.spaceStride);
        const unsigned kept =
            a.topP < 1.0 ? countToTarget(scale, places, k, true, 0.0, a.topP) : k;
        for (unsigned i = threadIdx.x; i < kept; i += SELECTORS) {
          race.take(valueAt(places[i]), indexAt(places[i]));
        }
      } else {
        if (HAS_NUCLEUS) {
          race.last = lastOfNucleus(row, scale, a.topP, desk);
        }
        __syncthreads();
        sift<SELECTORS, 2>(row, race);
      }
      winner = winnerOf(race);
    }
  }
  if (threadIdx.x == 0) {
    writeIndex(a.indices, a.areLong, r * a.indicesStride, winner);
  }
}

template <bool HAS_NUCLEUS>
__device__ __forceinline__ void sampleRows(const SampleArguments& a) {
  __shared__ Desk desk;
  __shared__ unsigned latest;
  for (int64 r = blockIdx.x; r < a.rows; r += gridDim.x) {
    sampleRow<HAS_NUCLEUS>(a, r, desk, &latest);
    __syncthreads();
  }
}

} // namespace

extern "C" __global__ void __launch_bounds__(SELECTORS, 2)
    sample(const __grid_constant__ SampleArguments a) {
  sampleRows<false>(a);
}

extern "C" __global__ void __launch_bounds__(SELECTORS, 1)
    sampleNucleus(const __grid_constant__ SampleArguments a) {
  sampleRows<true>(a);
}
