// Copies between tensors of any strides, with a change of type where they differ.
//
//   target[i0, i1, ...] = source[i0, i1, ...]
//
// copyElements: any strides and types; a thread an element, the grid strides over them.
// copyRows: one type, the last dimension contiguous in both; a warp a row, 16 bytes at a time where
//   alignment allows.
//
// Blocks of 256 threads, no shared memory, no options. This is no online softmax: the five lines
// are in state.cuh.
#include "elements.cuh"

constexpr int MOST_DIMENSIONS = 8;
constexpr int WARP = 32;

struct CopyArguments {
  const unsigned char* source;
  unsigned char* target;
  int64 elements; // of all dimensions; for copyRows, rows
  int64 columns;  // copyRows: bytes of a row
  int64 size[MOST_DIMENSIONS]; // slowest first; for copyRows, without the last
  int64 sourceStride[MOST_DIMENSIONS]; // in elements; for copyRows, in bytes
  int64 targetStride[MOST_DIMENSIONS];
  int dimensions;
  Type sourceType;
  Type targetType;
  int pad;
};
static_assert(sizeof(CopyArguments) == 240, "CopyKernel.java lays out the same bytes");

// Where an index in row-major order lies in both tensors.
__device__ __forceinline__ void locate(const CopyArguments& a, int64 index, int64& source,
                                       int64& target) {
  source = 0;
  target = 0;
  for (int axis = a.dimensions - 1; axis >= 0; axis--) {
    const int64 rest = index / a.size[axis];
    const int64 here = index - rest * a.size[axis];
    source += here * a.sourceStride[axis];
    target += here * a.targetStride[axis];
    index = rest;
  }
}

__device__ __forceinline__ bool isInteger(Type type) {
  return type == Type::I32 || type == Type::I64;
}

// Every type but the integers of 64 bits fits a float64.
__device__ __forceinline__ double loadExactly(const unsigned char* data, Type type, int64 index) {
  switch (type) {
    case Type::F64:
      return reinterpret_cast<const double*>(data)[index];
    case Type::I32:
      return reinterpret_cast<const int*>(data)[index];
    case Type::I64:
      return (double)reinterpret_cast<const int64*>(data)[index];
    default:
      return load(data, type, index);
  }
}

__device__ __forceinline__ double clamped(double x, double low, double high) {
  return fmin(fmax(x, low), high);
}

// As Tensor.setAt: one rounding, integers to the nearest in their range, NaN to the integer 0.
__device__ __forceinline__ void storeExactly(unsigned char* data, Type type, int64 index,
                                             double x) {
  switch (type) {
    case Type::F64:
      reinterpret_cast<double*>(data)[index] = x;
      break;
    case Type::F32:
      reinterpret_cast<float*>(data)[index] = (float)x;
      break;
    case Type::I8:
      reinterpret_cast<signed char*>(data)[index] =
          x != x ? 0 : (signed char)clamped(rint(x), -128, 127);
      break;
    case Type::BOOL:
      data[index] = x != 0;
      break;
    case Type::I32:
      reinterpret_cast<int*>(data)[index] = x != x ? 0 : __double2int_rn(x);
      break;
    case Type::I64:
      reinterpret_cast<int64*>(data)[index] = x != x ? 0 : __double2ll_rn(x);
      break;
    default:
      store(data, type, index, toOdd(x));
  }
}

template <typename Word>
__device__ __forceinline__ void move(const CopyArguments& a, int64 source, int64 target) {
  reinterpret_cast<Word*>(a.target)[target] = reinterpret_cast<const Word*>(a.source)[source];
}

__device__ __forceinline__ void copyElement(const CopyArguments& a, int64 source, int64 target) {
  if (a.sourceType == a.targetType) {
    switch (sizeOf(a.sourceType)) { // bit by bit: a NaN keeps its payload
      case 8:
        move<unsigned long long>(a, source, target);
        break;
      case 4:
        move<unsigned>(a, source, target);
        break;
      case 2:
        move<unsigned short>(a, source, target);
        break;
      default:
        move<unsigned char>(a, source, target);
    }
  } else if (a.sourceType == Type::I32 && a.targetType == Type::I64) {
    reinterpret_cast<int64*>(a.target)[target] =
        reinterpret_cast<const int*>(a.source)[source];
  } else if (a.sourceType == Type::I64 && a.targetType == Type::I32) {
    reinterpret_cast<int*>(a.target)[target] =
        (int)reinterpret_cast<const int64*>(a.source)[source];
  } else {
    storeExactly(a.target, a.targetType, target, loadExactly(a.source, a.sourceType, source));
  }
}

extern "C" __global__ void __launch_bounds__(256)
    copyElements(const __grid_constant__ CopyArguments a) {
  const int64 step = (int64)gridDim.x * blockDim.x;
  for (int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x; i < a.elements; i += step) {
    int64 source;
    int64 target;
    locate(a, i, source, target);
    copyElement(a, source, target);
  }
}

template <typename Word>
__device__ __forceinline__ void copyWords(const unsigned char* source, unsigned char* target,
                                          int64 bytes, int lane) {
  const int64 words = bytes / (int64)sizeof(Word);
  for (int64 i = lane; i < words; i += WARP) {
    reinterpret_cast<Word*>(target)[i] = reinterpret_cast<const Word*>(source)[i];
  }
  for (int64 i = words * (int64)sizeof(Word) + lane; i < bytes; i += WARP) {
    target[i] = source[i];
  }
}

extern "C" __global__ void __launch_bounds__(256)
    copyRows(const __grid_constant__ CopyArguments a) {
  const int lane = threadIdx.x % WARP;
  const int64 warps = (int64)gridDim.x * (blockDim.x / WARP);
  for (int64 row = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / WARP; row < a.elements;
       row += warps) {
    int64 from;
    int64 to;
    locate(a, row, from, to);
    const unsigned char* source = a.source + from;
    unsigned char* target = a.target + to;
    const unsigned long long bits = (unsigned long long)source | (unsigned long long)target;
    if (bits % 16 == 0) {
      copyWords<uint4>(source, target, a.columns, lane);
    } else if (bits % 4 == 0) {
      copyWords<unsigned>(source, target, a.columns, lane);
    } else if (bits % 2 == 0) {
      copyWords<unsigned short>(source, target, a.columns, lane);
    } else {
      copyWords<unsigned char>(source, target, a.columns, lane);
    }
  }
}
