// What lies between a dot product and the state: which keys a query sees, and the score of a pair.
//
//   s = scale * dot
//   s = cap * tanh(s / cap)                capped
//   s = s + bias - slope * |i - j|         biased, lowered
//   s = -inf where hidden                  visible interval, boolean masks: last
//
// LINEAR scores (scale > 0 and nothing else) stay dot products; their unit is folded into the
// multiply-add in front of ex2, and maxima are in base 2. GENERAL scores are natural, and so are
// their maxima: float32's lowest value as a bias has no finite counterpart in base 2. A kernel says
// which by FOLDMAX_SCORES.
#pragma once
#include "arguments.cuh"
#include "elements.cuh"
#include "state.cuh"

enum class Scores { LINEAR = 0, GENERAL = 1 };

// The keys from begin to, exclusively, end; empty where end <= begin.
struct Interval {
  int64 begin;
  int64 end;
};

__device__ __forceinline__ int64 larger(int64 x, int64 y) { return x > y ? x : y; }
__device__ __forceinline__ int64 smaller(int64 x, int64 y) { return x < y ? x : y; }

// A distance as a column of a tile of so many.
__device__ __forceinline__ int columnIn(int64 distance, int columns) {
  return (int)smaller(larger(distance, 0), columns);
}

// What query i may see. Neither end falls as i grows.
__device__ __forceinline__ Interval visibleTo(const Sequence& s, int64 i) {
  const int64 begin = smaller(larger(s.firstKey, i + s.beginShift), s.endKey);
  const int64 first = larger(s.prefix[0], i + s.prefixShift[0]);
  const int64 second = larger(s.prefix[1], i + s.prefixShift[1]);
  const int64 end = smaller(smaller(s.endKey, i + s.endShift), smaller(first, second));
  return {begin, larger(begin, end)};
}

// One (query head, query) of a sequence, with what a score needs of it.
struct Row {
  int sequence; // index in the batch
  int head;     // of the queries
  int64 query;  // of a query that exists
  int64 firstKey;
};

__device__ __forceinline__ int64 elementOf(const Broadcast& b, const Row& r, int64 position) {
  return r.sequence * b.sequence + r.head * b.head + r.query * b.query
         + (position - r.firstKey) * b.key;
}

// Whether the boolean masks show a key, which must be present.
__device__ __forceinline__ bool shownByMasks(const AttentionArguments& a, const Row& r,
                                             int64 position) {
  bool shown = true;
  for (int i = 0; i < a.maskCount; i++) {
    shown = shown && __ldg(a.masks[i].data + elementOf(a.masks[i], r, position)) != 0;
  }
  return shown;
}

// tanh to the last bits, also relative to small results.
__device__ __forceinline__ float cappedExactly(float s, float cap) { return cap * tanhf(s / cap); }

// tanh(y) / y for |y| <= TANH_SERIES, given y * y, to 4e-8 of it.
constexpr float TANH_SERIES = 0.75f;
__device__ __forceinline__ float tanhRatio(float square) {
  float r = fmaf(-0.004769489776314491f, square, 0.019664912867265252f);
  r = fmaf(r, square, -0.053390258240523264f);
  r = fmaf(r, square, 0.13326521163889f);
  r = fmaf(r, square, -0.3333306838032083f);
  return fmaf(r, square, 1.0f);
}

// tanh(y) for |y| > TANH_SERIES, to 3e-7 of it, where 1 - 2 / (e^2y + 1) has lost nothing yet.
__device__ __forceinline__ float tanhBeyond(float y) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(exp2Fast(y * (2.0f * LOG2_E)) + 1.0f));
  return fmaf(-2.0f, r, 1.0f);
}

// The same to a few ulp, and short.
__device__ __forceinline__ float cappedNearly(float s, float cap, float inverseCap) {
  const float y = s * inverseCap;
  return fabsf(y) <= TANH_SERIES ? s * tanhRatio(y * y) : cap * tanhBeyond(y);
}

// A bias of -inf hides a key, also one whose score is NaN.
__device__ __forceinline__ float biased(float s, float bias) {
  return bias == EMPTY ? bias : s + bias;
}

__device__ __forceinline__ float biased(float s, const AttentionArguments& a, const Row& r,
                                        int64 position) {
  return biased(s, load(a.bias.data, a.bias.type, elementOf(a.bias, r, position)));
}

// ALiBi's slope of a head, 0 where there is none.
__device__ __forceinline__ float slopeOf(const AttentionArguments& a, int sequence, int head) {
  return a.slope.data == nullptr
             ? 0.0f
             : load(a.slope.data, a.slope.type, sequence * a.slope.sequence + head * a.slope.head);
}

// s - slope * |distance|, rounded once; the distance is the query's position minus the key's.
__device__ __forceinline__ float lowered(float s, float slope, float distance) {
  return fmaf(-slope, fabsf(distance), s);
}

// GENERAL: the natural score of a key that is present, before masks.
__device__ __forceinline__ float generalScore(const AttentionArguments& a, const Sequence& s,
                                              const Row& r, float slope, float dot,
                                              int64 position) {
  float score = dot * a.scale;
  if (a.softCap != 0.0f) {
    score = cappedExactly(score, a.softCap);
  }
  if (a.bias.data != nullptr) {
    score = biased(score, a, r, position);
  }
  if (a.slope.data != nullptr) {
    score = lowered(score, slope, (float)(r.query + s.alibiShift - position));
  }
  return score;
}

// The units of a maximum, and what depends on them. `unit` is scale * log2(e) for LINEAR.

// The maximum that belongs to the largest score (LINEAR: dot product) of a tile.
template <Scores SCORES>
__device__ __forceinline__ float maximumOf(float score, float unit) {
  return SCORES == Scores::LINEAR ? score * unit : score;
}

// exp(score - maximum), where `shift` is shift(maximum).
template <Scores SCORES>
__device__ __forceinline__ float weight(float score, float shift, float unit) {
  return SCORES == Scores::LINEAR ? exp2Fast(fmaf(score, unit, -shift))
                                  : exp2Fast((score - shift) * LOG2_E);
}

// The factor that corrects what was summed under the maximum `before` to `now`: at most 1, and 1
// where it did not change, also if it is infinite, so that such a step is none.
template <Scores SCORES>
__device__ __forceinline__ float correctionOf(float before, float now) {
  return before == now              ? 1.0f
         : SCORES == Scores::LINEAR ? correction(before, now)
                                    : exp2Fast((before - shift(now)) * LOG2_E);
}

// LAZY's threshold.
template <Scores SCORES>
__device__ __forceinline__ float toleranceOf(float tau) {
  return SCORES == Scores::LINEAR ? tau : tau * LN_2;
}

// The maximum in natural units.
template <Scores SCORES>
__device__ __forceinline__ float naturalOf(float maximum) {
  return SCORES == Scores::LINEAR ? maximum * LN_2 : maximum;
}

// A row at its end: what to multiply O by, and the natural logarithm of the sum.
struct Finish {
  float factor;
  float logSumExp;
};

// Closes a state whose maximum is natural. A sink joins here, once: one more weight, whose value is
// 0. Nothing seen gives (0, -inf), or the sink as the logarithm.
__device__ __forceinline__ Finish finish(float m, float l, bool hasSink, float sink) {
  float scaleOfO = 1.0f;
  if (hasSink) {
    const float joined = fmaxf(m, sink);
    scaleOfO = correctionOf<Scores::GENERAL>(m, joined);
    l = fmaf(l, scaleOfO, exp2Fast((sink - shift(joined)) * LOG2_E));
    m = joined;
  }
  return {scaleOfO * inverse(l), l == 0.0f ? EMPTY : m + logf(l)};
}

// A head's sink; only where there is one.
__device__ __forceinline__ float sinkOf(const AttentionArguments& a, int head) {
  return load(a.sink.data, a.sink.type, head * a.sink.head);
}
