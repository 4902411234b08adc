// Where a position of a sequence lies in memory, for each layout of keys and values.
#pragma once
#include "arguments.cuh"
#include "elements.cuh"

// A row of keys or values: a block on axis 0 and a row in it.
struct Place {
  int64 block;
  int64 row;
};

// Position p as quotient and remainder of the rows of a block. 64-bit division takes some hundred
// instructions, so small numbers, that is all but those of very old rings, go by 32-bit division.
__device__ __forceinline__ void divide(int64 p, int64 rows, int64& quotient, int64& remainder) {
  if (((p | rows) >> 32) == 0) {
    const unsigned q = (unsigned)p / (unsigned)rows;
    quotient = q;
    remainder = (unsigned)p - q * (unsigned)rows;
  } else {
    quotient = p / rows;
    remainder = p - quotient * rows;
  }
}

// Where position p of a sequence lies, `sequence` being its index in the batch. Only for positions
// that are present: firstKey <= p < endKey.
__device__ __forceinline__ Place placeOf(const AttentionArguments& a, const Sequence& s,
                                         int sequence, int64 p) {
  if (a.layout == Layout::STRAIGHT) {
    return {s.keyBlock, s.keyRow + p};
  }
  int64 page;
  int64 row;
  divide(p, a.rows, page, row);
  if (a.layout == Layout::RING) {
    return {s.keyBlock, row};
  }
  return {__ldg(a.table + sequence * a.tableStride + page), row};
}

// The index of the first element of a row.
__device__ __forceinline__ int64 elementOf(const Matrix& m, Place place, int head) {
  return place.block * m.block + head * m.head + place.row * m.row;
}

// The same of a scale for each row.
__device__ __forceinline__ int64 elementOf(const Broadcast& scale, Place place, int head) {
  return place.block * scale.sequence + head * scale.head + place.row * scale.query;
}

// Rows at one distance in memory, from position `first` on.
struct Run {
  const unsigned char* row0;
  int64 rowBytes;
};

__device__ __forceinline__ Run runOf(const Sequence& s, const Matrix& m, int head, int firstColumn,
                                     int64 first) {
  const Place place = {s.keyBlock, s.keyRow + first};
  const int bytes = sizeOf(m.type);
  return {m.data + (elementOf(m, place, head) + firstColumn) * bytes, m.row * bytes};
}

// Where the tiles of a head's keys and values come from. Those from runsFrom to, exclusively, runsTo
// are parts of runs, which start at tile 0; others are looked up row by row.
struct alignas(16) TileSources {
  Run keys;
  Run values;
  int runsFrom;
  int runsTo;
};

// For tiles of tileKeys positions, the first from `first` on, and a slice of the values. Runs are read
// by 16 bytes, so they must consist of whole ones.
__device__ __forceinline__ TileSources sourcesOf(const AttentionArguments& a, const Sequence& s,
                                                 int head, int firstValueColumn, int64 first,
                                                 int tileKeys) {
  const bool runs = a.layout == Layout::STRAIGHT && a.keyDim * sizeOf(a.k.type) % 16 == 0
                    && a.valueDim * sizeOf(a.v.type) % 16 == 0;
  return {runOf(s, a.k, head, 0, first), runOf(s, a.v, head, firstValueColumn, first),
          runs ? (int)((s.firstKey - first + tileKeys - 1) / tileKeys) : 0,
          runs ? (int)((s.endKey - first) / tileKeys) : 0};
}
