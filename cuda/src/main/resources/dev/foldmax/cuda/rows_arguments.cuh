// What the kernels of the verbs on rows are given, by value, as their only parameter. The Java side
// writes the same bytes (RowKernels.java, SelectionKernels.java).
#pragma once
#include "arguments.cuh"

// softmax, logSoftmax, logSumExp
struct RowArguments {
  const unsigned char* x; // (rows, length) of FOLDMAX_TYPE
  unsigned char* out;     // (rows, length) of outType; (rows) where a kernel reduces
  float2* partials;       // (rows, chunks): states of chunks, or null where a row is one chunk
  float2* states;         // (rows): states of rows
  int64 rows;
  int64 length;
  int64 xStride;   // elements from row to row
  int64 outStride;
  Type outType;
  int chunks; // of a row, at least 1
};

static_assert(sizeof(RowArguments) == 72, "as RowKernels.java writes it");

// topK
struct SelectArguments {
  const unsigned char* x; // (rows, length)
  int64 rows;
  int64 length; // less than 2^32
  int64 xStride; // elements from row to row, as all strides
  unsigned char* values; // (rows, k)
  int64 valuesStride;
  unsigned char* indices; // (rows, k), I64 or I32
  int64 indicesStride;
  unsigned char* probabilities; // (rows, k), or null
  int64 probabilitiesStride;
  unsigned long long* space; // (blocks, spaceStride), where a row is sorted in it
  int64 spaceStride;
  Type valuesType;
  Type probabilitiesType;
  int areLong; // indices
  int k;       // at least 1
};

static_assert(sizeof(SelectArguments) == 112, "as SelectionKernels.java writes it");

// sample
struct SampleArguments {
  const unsigned char* x; // (rows, length)
  int64 rows;
  int64 length;           // less than 2^32
  int64 xStride;          // elements from row to row
  unsigned char* indices; // (rows), I64 or I32
  int64 indicesStride;
  unsigned long long* space; // (blocks, spaceStride), where a row is sorted in it
  int64 spaceStride;
  double temperature;
  double topP;
  double least; // ln(minP): scores below it are dropped
  int64 topK;   // 0 for all
  int64 seed;
  int64 firstRow; // number of row 0 for the generator
  int areLong;    // indices
  int pad;
};

static_assert(sizeof(SampleArguments) == 120, "as SelectionKernels.java writes it");

// Writes an index as I64 or I32.
__device__ __forceinline__ void writeIndex(unsigned char* indices, int areLong, int64 at,
                                           int64 index) {
  if (areLong) {
    reinterpret_cast<int64*>(indices)[at] = index;
  } else {
    reinterpret_cast<int*>(indices)[at] = (int)index;
  }
}
