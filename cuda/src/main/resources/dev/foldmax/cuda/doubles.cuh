// Elements of the floating types to and from float32 or float64, whichever a computation is in.
#pragma once
#include "elements.cuh"

// Element `index` of an array.
template <typename Real>
__device__ __forceinline__ Real read(const unsigned char* data, Type type, int64 index) {
  switch (type) {
    case Type::F64:
      return (Real) reinterpret_cast<const double*>(data)[index];
    case Type::F16:
      return floatOfF16(reinterpret_cast<const unsigned short*>(data)[index]);
    case Type::BF16:
      return floatOfBf16(reinterpret_cast<const unsigned short*>(data)[index]);
    default:
      return reinterpret_cast<const float*>(data)[index];
  }
}

// Rounds once to `type`.
__device__ __forceinline__ void write(unsigned char* data, Type type, int64 index, float x) {
  store(data, type, index, x);
}

__device__ __forceinline__ void write(unsigned char* data, Type type, int64 index, double x) {
  if (type == Type::F64) {
    reinterpret_cast<double*>(data)[index] = x;
  } else if (type == Type::F32) {
    reinterpret_cast<float*>(data)[index] = (float)x;
  } else {
    store(data, type, index, toOdd(x));
  }
}
