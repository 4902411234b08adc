// What the kernels of the verbs on rows share: their arguments, how parts of rows are read and
// written, and the state (m, l) of a part of a row, with m in natural units (state.cuh has the five
// lines, of which rows need the first four).
//
// A row is read in packs of 16 bytes. Pack p of a row belongs to a thread by its number p alone,
// also where the row does not lie at a multiple of 16 bytes and its elements are gathered one by
// one, so a row has the same bits wherever it lies. Beyond the end of a row there is -inf, which
// changes no bit of a state.
#pragma once
#include "elements.cuh"
#include "rows_arguments.cuh"
#include "state.cuh"

#ifndef FOLDMAX_TYPE
#define FOLDMAX_TYPE 0
#endif

constexpr Type INPUT = static_cast<Type>(FOLDMAX_TYPE); // F32, F16 or BF16
constexpr int SIZE = sizeOf(INPUT);
constexpr int WIDTH = 16 / SIZE; // elements in a pack
constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

// Rows are cut into chunks at multiples of this many elements; a chunk is one block's work.
// RowKernels knows it too.
constexpr int CHUNK = 32768;

// The state of some elements: their maximum, and the sum of e^(x - m). Empty: (-inf, 0).
struct State {
  float m;
  float l;
};

// Up to 2^30 elements of a row, from a multiple of WIDTH on.
struct Span {
  const unsigned char* data;
  int length; // elements
  int whole;  // packs that can be read at once
};

__device__ __forceinline__ Span spanOf(const unsigned char* data, int length) {
  const bool isAligned = (reinterpret_cast<unsigned long long>(data) & 15) == 0;
  return {data, length, isAligned ? length / WIDTH : 0};
}

// Chunk `chunk` of row `row`.
__device__ __forceinline__ Span chunkOf(const RowArguments& a, int64 row, int64 chunk) {
  const int64 begin = chunk * CHUNK;
  const int64 rest = a.length - begin;
  return spanOf(a.x + (row * a.xStride + begin) * SIZE, rest < CHUNK ? (int)rest : CHUNK);
}

// A row that is no longer than a chunk of any kernel.
__device__ __forceinline__ Span rowOf(const RowArguments& a, int64 row) {
  return spanOf(a.x + row * a.xStride * SIZE, (int)a.length);
}

__device__ __forceinline__ int packsOf(const Span& s) { return (s.length + WIDTH - 1) / WIDTH; }

__device__ __forceinline__ uint4 emptyPack() {
  constexpr unsigned WORD = INPUT == Type::F32   ? 0xff800000u
                            : INPUT == Type::F16 ? 0xfc00fc00u
                                                 : 0xff80ff80u;
  return make_uint4(WORD, WORD, WORD, WORD);
}

// The bits of an element; -inf beyond the end.
__device__ __forceinline__ unsigned bitsAt(const Span& s, int i) {
  if (i >= s.length) {
    return INPUT == Type::F32 ? 0xff800000u : INPUT == Type::F16 ? 0xfc00u : 0xff80u;
  }
  return INPUT == Type::F32 ? reinterpret_cast<const unsigned*>(s.data)[i]
                            : reinterpret_cast<const unsigned short*>(s.data)[i];
}

// A pack, element by element.
__device__ __forceinline__ uint4 gather(const Span& s, int pack) {
  constexpr int BITS = 8 * SIZE;
  unsigned long long low = 0;
  unsigned long long high = 0;
#pragma unroll 1
  for (int i = WIDTH - 1; i >= 0; i--) {
    high = high << BITS | low >> (64 - BITS);
    low = low << BITS | bitsAt(s, pack * WIDTH + i);
  }
  return make_uint4((unsigned)low, (unsigned)(low >> 32), (unsigned)high, (unsigned)(high >> 32));
}

// Replaces element k of an array in registers, for a k that is known when it runs: for what is
// rare.
template <int COUNT>
__device__ __forceinline__ void replace(uint4 (&array)[COUNT], int k, uint4 element) {
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    array[i] = i == k ? element : array[i];
  }
}

// Gathers those of packs first, first + STEP, ... that exist and are not whole.
template <int PACKS, int STEP>
__device__ __forceinline__ void gatherRest(const Span& s, int first, uint4 (&packs)[PACKS]) {
  if (s.whole * WIDTH != s.length) {
#pragma unroll 1
    for (int k = 0; k < PACKS; k++) {
      const int p = first + k * STEP;
      if (p >= s.whole && p * WIDTH < s.length) {
        replace<PACKS>(packs, k, gather(s, p));
      }
    }
  }
}

// Packs first, first + STEP, ... of a span; those beyond the end are empty.
template <int PACKS, int STEP>
__device__ __forceinline__ void readPacks(const Span& s, int first, uint4 (&packs)[PACKS]) {
#pragma unroll
  for (int k = 0; k < PACKS; k++) {
    const int p = first + k * STEP;
    packs[k] = p < s.whole ? reinterpret_cast<const uint4*>(s.data)[p] : emptyPack();
  }
  gatherRest<PACKS, STEP>(s, first, packs);
}

// The same where all of them are whole.
template <int PACKS, int STEP>
__device__ __forceinline__ void readWholePacks(const Span& s, int first, uint4 (&packs)[PACKS]) {
#pragma unroll
  for (int k = 0; k < PACKS; k++) {
    packs[k] = reinterpret_cast<const uint4*>(s.data)[first + k * STEP];
  }
}

// Keeps the compiler from holding elements that it has widened once, which takes twice the
// registers.
template <int PACKS>
__device__ __forceinline__ void forgetWidened(uint4 (&packs)[PACKS]) {
  if (INPUT != Type::F32) {
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
      asm volatile("" : "+r"(packs[k].x), "+r"(packs[k].y), "+r"(packs[k].z), "+r"(packs[k].w));
    }
  }
}

// Whether a maximum passes over NaN, or is NaN where an element is.
enum class Nans { PASSED_OVER, KEPT };

template <Nans NANS>
__device__ __forceinline__ float larger(float x, float y) {
  if (NANS == Nans::PASSED_OVER) {
    return fmaxf(x, y);
  }
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}

// The larger of each half.
template <Nans NANS>
__device__ __forceinline__ unsigned largerHalves(unsigned x, unsigned y) {
  unsigned word;
  if (INPUT == Type::F16 && NANS == Nans::KEPT) {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(word) : "r"(x), "r"(y));
  } else if (INPUT == Type::F16) {
    asm("max.f16x2 %0, %1, %2;" : "=r"(word) : "r"(x), "r"(y));
  } else if (NANS == Nans::KEPT) {
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(word) : "r"(x), "r"(y));
  } else {
    asm("max.bf16x2 %0, %1, %2;" : "=r"(word) : "r"(x), "r"(y));
  }
  return word;
}

// The largest element of some packs.
template <int PACKS, Nans NANS = Nans::PASSED_OVER>
__device__ __forceinline__ float maximumOf(const uint4 (&packs)[PACKS]) {
  if (INPUT == Type::F32) {
    float m = EMPTY;
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
      const float first =
          larger<NANS>(__uint_as_float(packs[k].x), __uint_as_float(packs[k].y));
      const float second =
          larger<NANS>(__uint_as_float(packs[k].z), __uint_as_float(packs[k].w));
      m = larger<NANS>(m, larger<NANS>(first, second));
    }
    return m;
  }
  unsigned word = emptyPack().x;
#pragma unroll
  for (int k = 0; k < PACKS; k++) {
    const unsigned first = largerHalves<NANS>(packs[k].x, packs[k].y);
    const unsigned second = largerHalves<NANS>(packs[k].z, packs[k].w);
    word = largerHalves<NANS>(word, largerHalves<NANS>(first, second));
  }
  float low;
  float high;
  unpack<INPUT>(word, low, high);
  return larger<NANS>(low, high);
}

// e^x for x <= 0: the rounding of the exponent counts, so the relative error grows to |x| ulp.
__device__ __forceinline__ float expFast(float x) { return exp2Fast(x * LOG2_E); }

// e^x for x <= 0 within some 1.5 ulp: what the exponent lost by rounding is put right, by
// 2^t * e^(x - t ln 2) with the second factor nearly 1. Results below 2^-126 are flushed to 0.
__device__ __forceinline__ float expExact(float x) {
  constexpr float LEAST = -150.0f; // far below what is flushed, and finite
  const float y = larger<Nans::KEPT>(x, LEAST);
  const float t = y * LOG2_E;
  const float power = exp2Fast(t);
  return fmaf(power, fmaf(-t, LN_2, y), power);
}

// The weight of an element of a softmax. Differences of 16-bit elements are nearly all exact.
__device__ __forceinline__ float weightOf(float difference) {
  return INPUT == Type::F32 ? expExact(difference) : expFast(difference);
}

__device__ __forceinline__ float naturalCorrection(float before, float now) {
  return expExact(before - shift(now));
}

// Takes packs into a state: the five lines.
template <int PACKS>
__device__ __forceinline__ void absorb(State& s, uint4 (&packs)[PACKS]) {
  const float m = nextMaximum<Rescale::ALWAYS>(s.m, maximumOf<PACKS>(packs), 0.0f);
  const float subtracted = shift(m);
  forgetWidened<PACKS>(packs);
  float sum[2] = {0.0f, 0.0f};
#pragma unroll
  for (int k = 0; k < PACKS; k++) {
    float x[WIDTH];
    widen<INPUT>(packs[k], x);
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
      sum[i & 1] += expFast(x[i] - subtracted);
    }
  }
  s.l = fmaf(s.l, naturalCorrection(s.m, m), sum[0] + sum[1]);
  s.m = m;
}

// The state of the elements of both. The rounding is the same whichever comes first.
__device__ __forceinline__ State merged(State a, State b) {
  const float m = nextMaximum<Rescale::ALWAYS>(a.m, b.m, 0.0f);
  return {m, __fadd_rn(__fmul_rn(a.l, naturalCorrection(a.m, m)),
                       __fmul_rn(b.l, naturalCorrection(b.m, m)))};
}

// The state of the elements of LANES neighbouring lanes, the same bits in all of them: the maximum
// first, so that each lane corrects once.
template <int LANES>
__device__ __forceinline__ State mergedOverLanes(State s) {
  float m = s.m;
#pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2) {
    m = nextMaximum<Rescale::ALWAYS>(m, __shfl_xor_sync(ALL_LANES, m, distance), 0.0f);
  }
  float l = s.l * naturalCorrection(s.m, m);
#pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2) {
    l += __shfl_xor_sync(ALL_LANES, l, distance);
  }
  return {m, l};
}

// The state of the elements of a block of THREADS threads, in all of them. `shared` holds one state
// a warp; the block must not touch it again before its next barrier.
template <int THREADS>
__device__ __forceinline__ State mergedOverBlock(State s, State* shared) {
  constexpr int WARPS = THREADS / WARP;
  s = mergedOverLanes<WARP>(s);
  if (WARPS == 1) {
    return s;
  }
  if (threadIdx.x % WARP == 0) {
    shared[threadIdx.x / WARP] = s;
  }
  __syncthreads();
  return mergedOverLanes<WARPS>(shared[threadIdx.x % WARPS]);
}

// The natural logarithm of the sum of exponentials.
__device__ __forceinline__ float naturalLogSumExp(State s) {
  return s.l == 0.0f ? EMPTY : s.m + logf(s.l);
}

// Where results go: as a Span. `whole` counts packs of results, WIDTH elements each.
struct Target {
  unsigned char* data;
  int length;
  int whole;
};

__device__ __forceinline__ Target targetOf(unsigned char* data, int length, Type type) {
  const int bytes = WIDTH * sizeOf(type) < 16 ? WIDTH * sizeOf(type) : 16;
  const bool isAligned = (reinterpret_cast<unsigned long long>(data) & (bytes - 1)) == 0;
  return {data, length, isAligned ? length / WIDTH : 0};
}

// Up to 16 bytes of results, rounded once.
template <Type OUT, int COUNT>
__device__ __forceinline__ ulonglong2 encoded(const float* y) {
  if (OUT == Type::F64) {
    return make_ulonglong2(__double_as_longlong((double)y[0]), __double_as_longlong((double)y[1]));
  }
  unsigned words[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    if (OUT == Type::F32) {
      words[i % 4] = __float_as_uint(y[i]);
    } else if (i % 2 == 1) {
      words[i / 2] = pack<OUT>(y[i - 1], y[i]);
    }
  }
  return make_ulonglong2((unsigned long long)words[1] << 32 | words[0],
                         (unsigned long long)words[3] << 32 | words[2]);
}

// The first `count` elements of some encoded ones, one by one.
template <Type OUT>
__device__ __forceinline__ void scatter(unsigned char* data, int count, ulonglong2 bits) {
  constexpr int BITS = 8 * sizeOf(OUT);
#pragma unroll 1
  for (int i = 0; i < count; i++) {
    if (OUT == Type::F64) {
      reinterpret_cast<unsigned long long*>(data)[i] = bits.x;
      bits.x = bits.y;
    } else {
      if (OUT == Type::F32) {
        reinterpret_cast<unsigned*>(data)[i] = (unsigned)bits.x;
      } else {
        reinterpret_cast<unsigned short*>(data)[i] = (unsigned short)bits.x;
      }
      bits.x = bits.x >> (BITS & 63) | bits.y << (64 - BITS & 63);
      bits.y >>= BITS & 63;
    }
  }
}

// Writes the results of one pack, all of it at once or what there is one by one.
template <Type OUT>
__device__ __forceinline__ void writePack(const Target& target, int p, const float (&y)[WIDTH]) {
  constexpr int COUNT = WIDTH * sizeOf(OUT) <= 16 ? WIDTH : 16 / sizeOf(OUT); // in 16 bytes
#pragma unroll
  for (int i = 0; i < WIDTH; i += COUNT) {
    const ulonglong2 bits = encoded<OUT, COUNT>(y + i);
    const int element = p * WIDTH + i;
    unsigned char* at = target.data + (int64)element * sizeOf(OUT);
    if (p >= target.whole) {
      const int rest = target.length - element;
      scatter<OUT>(at, rest < COUNT ? rest : COUNT, bits);
    } else if (COUNT * sizeOf(OUT) == 16) {
      *reinterpret_cast<ulonglong2*>(at) = bits;
    } else {
      *reinterpret_cast<unsigned long long*>(at) = bits.x;
    }
  }
}

// Up to this magnitude of the maximum, log2(e) * maximum keeps so many bits behind the point that
// it may be rounded before it is subtracted, which saves an instruction for each 16-bit element.
constexpr float SMALL = 256.0f;

// What turns elements into results once the state of their row is known.
struct Finish {
  float subtracted;
  float factor;          // 1 / l
  float logarithm;       // ln l
  float binaryLogarithm; // log2 l
};

__device__ __forceinline__ Finish finishOf(State s) {
  const float l = s.l == 0.0f ? 1.0f : s.l; // a row of -inf alone
  return {shift(s.m), inverse(s.l), logf(l), log2f(l)};
}

// The result of an element. For 16-bit results of 16-bit elements the division by l goes into the
// exponent, whose rounding is far below theirs.
template <bool IS_LOG, Type OUT, bool IS_SMALL>
__device__ __forceinline__ float finished(float x, const Finish& f) {
  if (IS_LOG) {
    return x - f.subtracted - f.logarithm;
  }
  if (INPUT != Type::F32 && sizeOf(OUT) == 2) {
    return exp2Fast(
        IS_SMALL ? fmaf(x, LOG2_E, -fmaf(f.subtracted, LOG2_E, f.binaryLogarithm))
                 : fmaf(x - f.subtracted, LOG2_E, -f.binaryLogarithm));
  }
  return weightOf(x - f.subtracted) * f.factor;
}

// Finishes packs and writes them. Where they hold weights, `factor` makes results of these.
template <int PACKS, int STEP, bool IS_LOG, bool ARE_WEIGHTS, Type OUT, bool IS_SMALL>
__device__ __forceinline__ void writeAll(const Target& target, int first, uint4 (&packs)[PACKS],
                                         const Finish& finish, float factor) {
#pragma unroll
  for (int k = 0; k < PACKS; k++) {
    const int p = first + k * STEP;
    if (p * WIDTH < target.length) {
      float y[WIDTH];
      widen<INPUT>(packs[k], y);
#pragma unroll
      for (int i = 0; i < WIDTH; i++) {
        y[i] = ARE_WEIGHTS ? y[i] * factor : finished<IS_LOG, OUT, IS_SMALL>(y[i], finish);
      }
      writePack<OUT>(target, p, y);
    }
  }
}

template <int PACKS, int STEP, bool IS_LOG, bool ARE_WEIGHTS, Type OUT>
__device__ __forceinline__ void writeAs(const Target& target, int first, uint4 (&packs)[PACKS],
                                        const Finish& finish, float factor) {
  constexpr bool MAY_BE_SMALL = INPUT != Type::F32 && sizeOf(OUT) == 2 && !IS_LOG;
  if (MAY_BE_SMALL && fabsf(finish.subtracted) <= SMALL) {
    writeAll<PACKS, STEP, IS_LOG, ARE_WEIGHTS, OUT, true>(target, first, packs, finish, factor);
  } else {
    writeAll<PACKS, STEP, IS_LOG, ARE_WEIGHTS, OUT, false>(target, first, packs, finish, factor);
  }
}

// The same for a type that is known when it runs: F32, F16 or BF16.
template <int PACKS, int STEP, bool IS_LOG, bool ARE_WEIGHTS>
__device__ __forceinline__ void write(const Target& target, Type type, int first,
                                      uint4 (&packs)[PACKS], const Finish& finish, float factor) {
  switch (type) {
    case Type::F16:
      writeAs<PACKS, STEP, IS_LOG, ARE_WEIGHTS, Type::F16>(target, first, packs, finish, factor);
      break;
    case Type::BF16:
      writeAs<PACKS, STEP, IS_LOG, ARE_WEIGHTS, Type::BF16>(target, first, packs, finish, factor);
      break;
    default:
      writeAs<PACKS, STEP, IS_LOG, ARE_WEIGHTS, Type::F32>(target, first, packs, finish, factor);
  }
}

// The sum of the weights under `subtracted`. Packs of float32 become these weights; 16-bit packs
// are left as they are, because float32 weights would take twice the registers. For whole warps.
template <int PACKS, bool IS_LOG>
__device__ __forceinline__ float weigh(uint4 (&packs)[PACKS], float subtracted) {
  float sum[2] = {0.0f, 0.0f};
  if (INPUT != Type::F32 && __all_sync(ALL_LANES, fabsf(subtracted) <= SMALL)) {
    const float binary = subtracted * LOG2_E;
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
      float x[WIDTH];
      widen<INPUT>(packs[k], x);
#pragma unroll
      for (int i = 0; i < WIDTH; i++) {
        sum[i & 1] += exp2Fast(fmaf(x[i], LOG2_E, -binary));
      }
    }
    return (sum[0] + sum[1]) * exp2Fast(-fmaf(subtracted, LOG2_E, -binary)); // what was rounded
  }
#pragma unroll
  for (int k = 0; k < PACKS; k++) {
    float x[WIDTH];
    widen<INPUT>(packs[k], x);
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
      x[i] = weightOf(x[i] - subtracted);
      sum[i & 1] += x[i];
    }
    if (INPUT == Type::F32 && !IS_LOG) {
      packs[k] = make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]),
                            __float_as_uint(x[3]));
    }
  }
  return sum[0] + sum[1];
}

// Writes the results of packs that `weigh` has seen under the thread's maximum m; s is the state of
// their row.
template <int PACKS, int STEP, bool IS_LOG>
__device__ __forceinline__ void writeResults(const Target& target, Type type, int first,
                                             uint4 (&packs)[PACKS], float m, State s) {
  const Finish finish = finishOf(s);
  write<PACKS, STEP, IS_LOG, INPUT == Type::F32 && !IS_LOG>(
      target, type, first, packs, finish, naturalCorrection(m, s.m) * finish.factor);
}
