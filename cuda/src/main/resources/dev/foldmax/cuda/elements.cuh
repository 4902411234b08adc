// Elements of every type, to and from float32. 16-bit types are raw bits and PTX conversions, so that
// nothing but the compiler is needed. Conversions round to nearest even; a NaN stays a NaN.
#pragma once
#include "arguments.cuh"

__host__ __device__ constexpr int sizeOf(Type type) {
  return type == Type::F64 || type == Type::I64    ? 8
         : type == Type::F32 || type == Type::I32  ? 4
         : type == Type::F16 || type == Type::BF16 ? 2
                                                   : 1;
}

__device__ __forceinline__ float floatOfF16(unsigned short bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}

__device__ __forceinline__ float floatOfBf16(unsigned short bits) {
  return __uint_as_float((unsigned)bits << 16);
}

__device__ __forceinline__ unsigned short f16Of(float x) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

__device__ __forceinline__ unsigned short bf16Of(float x) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

// Two 16-bit elements of TYPE in a word, `first` in the lower half.
template <Type TYPE>
__device__ __forceinline__ unsigned pack(float first, float second) {
  unsigned word;
  if (TYPE == Type::F16) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  }
  return word;
}

// The two elements of such a word.
template <Type TYPE>
__device__ __forceinline__ void unpack(unsigned word, float& first, float& second) {
  if (TYPE == Type::F16) {
    first = floatOfF16((unsigned short)word);
    second = floatOfF16((unsigned short)(word >> 16));
  } else {
    first = __uint_as_float(word << 16);
    second = __uint_as_float(word & 0xffff0000u);
  }
}

constexpr float NAN_VALUE = __builtin_bit_cast(float, 0x7fc00000u);

// Whether a 16-bit element of TYPE is NaN or infinite.
template <Type TYPE>
__device__ __forceinline__ bool isNonFinite16(unsigned bits) {
  constexpr unsigned EXPONENT = TYPE == Type::F16 ? 0x7c00u : 0x7f80u;
  return (bits & EXPONENT) == EXPONENT;
}

__device__ __forceinline__ bool isNonFinite(float x) {
  return (__float_as_uint(x) & 0x7f800000u) == 0x7f800000u;
}

// Element `index` of an array; a BOOL is 0 or 1.
__device__ __forceinline__ float load(const unsigned char* data, Type type, int64 index) {
  switch (type) {
    case Type::F32:
      return __ldg(reinterpret_cast<const float*>(data) + index);
    case Type::F16:
      return floatOfF16(__ldg(reinterpret_cast<const unsigned short*>(data) + index));
    case Type::BF16:
      return floatOfBf16(__ldg(reinterpret_cast<const unsigned short*>(data) + index));
    case Type::I8:
      return __ldg(reinterpret_cast<const signed char*>(data) + index);
    case Type::F64:
      return (float)__ldg(reinterpret_cast<const double*>(data) + index);
    default:
      return __ldg(data + index) != 0 ? 1.0f : 0.0f;
  }
}

// Rounds a double to float32 so that rounding it once more gives what rounding once would have
// given: to odd, of which halves of shorter types never are.
__device__ __forceinline__ float toOdd(double x) {
  const float nearest = __double2float_rz(x);
  const bool isInexact = (double)nearest != x && x == x;
  return isInexact ? __uint_as_float(__float_as_uint(nearest) | 1u) : nearest;
}

// Rounds once to `type`, one of the floating types.
__device__ __forceinline__ void store(unsigned char* data, Type type, int64 index, float x) {
  switch (type) {
    case Type::F16:
      reinterpret_cast<unsigned short*>(data)[index] = f16Of(x);
      break;
    case Type::BF16:
      reinterpret_cast<unsigned short*>(data)[index] = bf16Of(x);
      break;
    case Type::F64:
      reinterpret_cast<double*>(data)[index] = x;
      break;
    default:
      reinterpret_cast<float*>(data)[index] = x;
  }
}

// The same of two neighbours, the first at an even index of a row.
__device__ __forceinline__ void storePair(unsigned char* data, Type type, int64 index, float x,
                                          float y) {
  if (type == Type::F16) {
    reinterpret_cast<unsigned*>(data)[index / 2] = pack<Type::F16>(x, y);
  } else if (type == Type::BF16) {
    reinterpret_cast<unsigned*>(data)[index / 2] = pack<Type::BF16>(x, y);
  } else {
    store(data, type, index, x);
    store(data, type, index + 1, y);
  }
}

// The first `count` of four neighbours, at an index that is a multiple of 4 within a row.
__device__ __forceinline__ void storeQuad(unsigned char* data, Type type, int64 index,
                                          const float (&x)[4], int count) {
  if (count >= 4 && type == Type::F32) {
    *reinterpret_cast<float4*>(reinterpret_cast<float*>(data) + index) = {x[0], x[1], x[2], x[3]};
  } else if (count >= 4 && type != Type::F64) {
    storePair(data, type, index, x[0], x[1]);
    storePair(data, type, index + 2, x[2], x[3]);
  } else {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      if (i < count) {
        store(data, type, index + i, x[i]);
      }
    }
  }
}

// 16 bytes of read-only memory at a multiple of 16.
__device__ __forceinline__ uint4 load16(const void* data) {
  return __ldg(reinterpret_cast<const uint4*>(data));
}

// The float32 values of 16 bytes of F32 (4 of them), F16 or BF16 (8) or I8 (16).
template <Type TYPE>
__device__ __forceinline__ void widen(uint4 words, float* x) {
  const unsigned w[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if (TYPE == Type::F32) {
      x[i] = __uint_as_float(w[i]);
    } else if (TYPE == Type::I8) {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        x[4 * i + j] = (float)(signed char)(w[i] >> (8 * j));
      }
    } else {
      unpack<TYPE>(w[i], x[2 * i], x[2 * i + 1]);
    }
  }
}
