// The generator of dev.foldmax.Sampling: its stream, bits and uniform.
#pragma once

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
