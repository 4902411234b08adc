// The order of a row's elements, and the first of them: what topK and sample share.
//
// An element's place is a number of 64 bits: its value in the upper half, complemented, so that the
// largest comes first, and its index in the lower. NaN comes before all numbers, zeros of either
// sign are equal, and ties go to the lower index. No two places are equal, so that the first k
// elements of a row are one set whatever the order in which threads find them. Rows have less than
// 2^32 elements.
#pragma once
#include "rows.cuh"

typedef unsigned long long Place;

constexpr Place NOWHERE = ~0ull; // after every element
constexpr int SELECTORS = 512; // threads that select from a row

// A row that may be longer than any span.
struct LongRow {
  const unsigned char* data;
  int64 length;
};

__device__ __forceinline__ unsigned orderOf(float x) {
  if (x != x) {
    return 0xffffffffu;
  }
  const unsigned bits = __float_as_uint(x + 0.0f); // -0 + 0 is 0
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ Place placeOf(float x, int64 index) {
  return (Place)~orderOf(x) << 32 | (unsigned)index;
}

// The value at a place; NaN for NOWHERE, which compares like a threshold that everything passes.
__device__ __forceinline__ float valueAt(Place place) {
  const unsigned order = ~(unsigned)(place >> 32);
  return __uint_as_float(order & 0x80000000u ? order ^ 0x80000000u : ~order);
}

__device__ __forceinline__ unsigned indexAt(Place place) { return (unsigned)place; }

__device__ __forceinline__ float elementAt(const LongRow& row, int64 index) {
  return load(row.data, INPUT, index);
}

__device__ __forceinline__ Place shuffledUp(Place place, int distance) {
  return __shfl_up_sync(ALL_LANES, place, distance);
}

// Visits a row in batches of packs. `see(packs, span, first, begin)` gets a thread's packs first,
// first + THREADS, ... of a span that begins at element `begin`. All threads make the same rounds.
template <int THREADS, int PACKS, typename See>
__device__ __forceinline__ void forEachBatch(const LongRow& row, const See& see) {
  constexpr int64 SPAN = 1 << 28;
  for (int64 begin = 0; begin < row.length; begin += SPAN) {
    const int64 rest = row.length - begin;
    const Span span = spanOf(row.data + begin * SIZE, (int)(rest < SPAN ? rest : SPAN));
    for (int p = 0; p < packsOf(span); p += THREADS * PACKS) {
      uint4 packs[PACKS];
      readPacks<PACKS, THREADS>(span, p + threadIdx.x, packs);
      see(packs, span, p + (int)threadIdx.x, begin);
    }
  }
}

// Takes the elements of a row that a sieve wants: sieve.refresh() before each batch,
// sieve.wants(x, index), sieve.take(x, index). What is wanted has to be rare: an element that is
// taken is read again.
template <int THREADS, int PACKS, typename Sieve>
__device__ __forceinline__ void sift(const LongRow& row, Sieve& sieve) {
  forEachBatch<THREADS, PACKS>(
      row, [&](uint4 (&packs)[PACKS], const Span& span, int first, int64 begin) {
        unsigned wanted = 0;
        sieve.refresh();
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
          float x[WIDTH];
          widen<INPUT>(packs[k], x);
#pragma unroll
          for (int i = 0; i < WIDTH; i++) {
            const int at = (first + k * THREADS) * WIDTH + i;
            if (at < span.length && sieve.wants(x[i], begin + at)) {
              wanted |= 1u << (k * WIDTH + i);
            }
          }
        }
        while (wanted != 0) {
          const int bit = __ffs(wanted) - 1;
          wanted &= wanted - 1;
          const int64 index = begin + (first + bit / WIDTH * THREADS) * WIDTH + bit % WIDTH;
          sieve.take(elementAt(row, index), index);
        }
      });
}

// Radix selection: a place is found digit by digit from the top; each reading of the row counts,
// for those elements that agree with what is known, the digits that come next.
constexpr int DIGITS = 6;
constexpr int BINS = 2048;

__device__ __forceinline__ int digitBits(int digit) { return digit % 3 == 2 ? 10 : 11; }

__device__ __forceinline__ int digitShift(int digit) {
  const int half = digit < 3 ? 32 : 0;
  return half + (digit % 3 == 0 ? 21 : digit % 3 == 1 ? 10 : 0);
}

__device__ __forceinline__ bool agrees(Place place, Place known, int digit) {
  return digit == 0 || (place ^ known) >> (digitShift(digit) + digitBits(digit)) == 0;
}

__device__ __forceinline__ int digitOf(Place place, int digit) {
  return (int)(place >> digitShift(digit)) & ((1 << digitBits(digit)) - 1);
}

// The last place of the first `count` elements, or a later one that no further element lies before.
// Wants a block of SELECTORS threads; `bins` has BINS counters.
__device__ __forceinline__ Place lastOfFirst(const LongRow& row, unsigned count, unsigned* bins) {
  __shared__ Place known;
  __shared__ unsigned rest; // of count, in the bin of the known digits
  __shared__ unsigned found;
  if (threadIdx.x == 0) {
    known = 0;
    rest = count;
  }
  for (int digit = 0; digit < DIGITS; digit++) {
    for (int i = threadIdx.x; i < BINS; i += SELECTORS) {
      bins[i] = 0;
    }
    __syncthreads();
    const Place before = known;
    forEachBatch<SELECTORS, 2>(
        row, [&](uint4 (&packs)[2], const Span& span, int first, int64 begin) {
#pragma unroll
          for (int k = 0; k < 2; k++) {
            float x[WIDTH];
            widen<INPUT>(packs[k], x);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
              const int at = (first + k * SELECTORS) * WIDTH + i;
              const Place place = placeOf(x[i], begin + at);
              if (at < span.length && agrees(place, before, digit)) {
                atomicAdd(&bins[digitOf(place, digit)], 1u);
              }
            }
          }
        });
    __syncthreads();
    if (threadIdx.x < WARP) { // each lane has BINS / WARP neighbouring bins
      unsigned own = 0;
      for (int i = 0; i < BINS / WARP; i++) {
        own += bins[threadIdx.x * (BINS / WARP) + i];
      }
      unsigned upTo = own;
#pragma unroll
      for (int distance = 1; distance < WARP; distance *= 2) {
        const unsigned other = __shfl_up_sync(ALL_LANES, upTo, distance);
        upTo += (int)threadIdx.x >= distance ? other : 0;
      }
      const unsigned wanted = rest;
      __syncwarp();
      if (upTo - own < wanted && wanted <= upTo) {
        unsigned reached = upTo - own;
        int bin = threadIdx.x * (BINS / WARP);
        while (reached + bins[bin] < wanted) {
          reached += bins[bin++];
        }
        known = before | (Place)bin << digitShift(digit);
        rest = wanted - reached;
        found = bins[bin];
      }
    }
    __syncthreads();
    if (found == rest) { // all that agree are among the first
      return known | ((1ull << digitShift(digit)) - 1);
    }
  }
  return known;
}

// Sorts places in ascending order; their number is a power of 2.
__device__ __forceinline__ void sort(Place* places, int64 count) {
  for (int64 run = 2; run <= count; run *= 2) {
    for (int64 distance = run / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int64 i = threadIdx.x; i < count / 2; i += SELECTORS) {
        const int64 low = 2 * i - (i & (distance - 1));
        const Place a = places[low];
        const Place b = places[low + distance];
        if ((a > b) == ((low & run) == 0)) {
          places[low] = b;
          places[low + distance] = a;
        }
      }
    }
  }
  __syncthreads();
}

__device__ __forceinline__ int64 powerOf2From(int64 count) {
  return count <= 2 ? 2 : 1ll << (64 - __clzll(count - 1));
}

// Fills a list up to a power of 2 and sorts it.
__device__ __forceinline__ void fillAndSort(Place* places, int64 count) {
  const int64 size = powerOf2From(count);
  for (int64 i = count + threadIdx.x; i < size; i += SELECTORS) {
    places[i] = NOWHERE;
  }
  sort(places, size);
}

// Writes down the elements from a place to another, in any order.
struct Collector {
  Place first;
  Place last;
  Place* places;
  unsigned capacity;
  unsigned* count; // of the elements met so far, shared by the block

  __device__ __forceinline__ void refresh() const {}

  __device__ __forceinline__ bool wants(float x, int64 index) const {
    const Place place = placeOf(x, index);
    return first <= place && place <= last;
  }

  __device__ __forceinline__ void take(float x, int64 index) const {
    const unsigned at = atomicAdd(count, 1u);
    if (at < capacity) {
      places[at] = placeOf(x, index);
    }
  }
};

// Collects the elements from a place to another; gives their number, of which at most `capacity`
// are there.
__device__ __forceinline__ unsigned collect(const LongRow& row, Place first, Place last,
                                            Place* places, unsigned capacity) {
  __shared__ unsigned count;
  __syncthreads();
  if (threadIdx.x == 0) {
    count = 0;
  }
  __syncthreads();
  Collector collector = {first, last, places, capacity, &count};
  sift<SELECTORS, 2>(row, collector);
  __syncthreads();
  return count;
}

constexpr int LISTED = 4096; // places in shared memory

// Memory of a block that selects.
union Desk {
  Place places[LISTED];
  unsigned bins[BINS];
};

// All places of elements that are no smaller than x.
__device__ __forceinline__ Place lastPlaceOf(float x) {
  return (Place)~orderOf(x) << 32 | 0xffffffffu;
}

// The first k places of a row, in order: in the desk if k is at most LISTED, else in `space`, which
// has room for the power of 2 from k on. `largest` is the largest of the thread's elements, as
// forEachBatch deals them, that is not NaN.
__device__ __forceinline__ const Place* firstPlaces(const LongRow& row, unsigned k, float largest,
                                                    Desk& desk, Place* space) {
  if (k <= SELECTORS) {
    // The k-th of the threads' largest: at least k elements are no smaller, and few more unless
    // large elements crowd in few threads.
    __syncthreads();
    desk.places[threadIdx.x] = placeOf(largest, threadIdx.x);
    sort(desk.places, SELECTORS);
    const Place last = lastPlaceOf(valueAt(desk.places[k - 1]));
    const unsigned count = collect(row, 0, last, desk.places, LISTED);
    if (count <= LISTED) {
      fillAndSort(desk.places, count);
      return desk.places;
    }
  }
  __syncthreads();
  const Place last = lastOfFirst(row, k, desk.bins);
  Place* places = k <= LISTED ? desk.places : space;
  __syncthreads();
  collect(row, 0, last, places, k);
  fillAndSort(places, k);
  return places;
}
