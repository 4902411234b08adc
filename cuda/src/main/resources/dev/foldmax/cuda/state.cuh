// Online softmax: the state (m, l, O) of one row and what happens to it when a tile arrives
// (Milakov and Gimelshein, arXiv 1805.02867, section 3; Dao et al., arXiv 2205.14135, section 3.1).
// Every kernel that keeps such a state includes this file.
//
//   m' = max(m, max(S))          nextMaximum
//   c  = exp2(m - m')            correction
//   P  = exp2(S - m')            weight
//   l  = l * c + sum(P)
//   O  = O * c + P V
//
// and O / l at the end (inverse). Scores are in base 2: log2(e) is folded into the scale once, so
// that each weight is one multiply-add and one ex2. An empty state is (-inf, 0, 0); it and scores of
// -inf need no special case but one: -inf - -inf, which `shift` keeps from happening.
#pragma once

// When to multiply by the correction; see dev.foldmax.Rescale.
enum class Rescale { ALWAYS = 0, ON_NEW_MAX = 1, LAZY = 2 };

constexpr float LOG2_E = 1.44269504088896340736f;
constexpr float LN_2 = 0.69314718055994530942f;
constexpr float EMPTY = __builtin_bit_cast(float, 0xff800000u); // -inf; the run-time compiler has no other word

// 2^x on the special function unit: 2 ulp over the whole range, exactly 0 at -inf, 1 at 0, and NaN at
// NaN; results below 2^-126 are flushed to 0.
__device__ __forceinline__ float exp2Fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The maximum to subtract from now on. LAZY keeps a stale one until scores have outgrown it by more
// than tau, so that weights stay at or below 2^tau.
template <Rescale DIALECT>
__device__ __forceinline__ float nextMaximum(float m, float tileMaximum, float tau) {
  if (DIALECT == Rescale::LAZY) {
    return tileMaximum - m > tau || m == EMPTY ? fmaxf(m, tileMaximum) : m;
  }
  return fmaxf(m, tileMaximum);
}

// What to subtract from scores under the maximum m: m itself, and 0 while there is nothing but -inf.
__device__ __forceinline__ float shift(float m) { return m == EMPTY ? 0.0f : m; }

// The factor, at most 1, that corrects sums and outputs made under `before` to the maximum `now`.
__device__ __forceinline__ float correction(float before, float now) {
  return exp2Fast(before - shift(now));
}

// 1 / l, and 0 where no key was seen, so that the output is 0; NaN stays NaN.
__device__ __forceinline__ float inverse(float l) { return l == 0.0f ? 0.0f : 1.0f / l; }
