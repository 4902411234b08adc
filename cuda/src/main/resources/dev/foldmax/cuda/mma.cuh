// Warp-wide products of 16-bit tiles, and how tiles lie in shared memory: sm_80 and later.
#pragma once
#include "arguments.cuh"
#include "async.cuh"

// A tile of rows of DIM 16-bit elements. 16-byte chunks of a row are permuted by the row's number, so
// that the same chunk of 8 consecutive rows, which is what ldmatrix reads at once, lies in 8 different
// groups of banks.
template <int DIM>
struct Tile {
  static constexpr int CHUNKS = DIM / 8; // of a row
  static constexpr int ROW_BYTES = DIM * 2;

  // Chunks are permuted within groups of this many.
  static constexpr int GROUP = CHUNKS % 8 == 0 ? 8 : CHUNKS % 4 == 0 ? 4 : 2;

  static __device__ __forceinline__ unsigned offset(int row, int chunk) {
    return row * ROW_BYTES + (chunk ^ (row / (8 / GROUP) & (GROUP - 1))) * 16;
  }

  // The address of the chunk that is an even number of chunks after one of the first two of a row,
  // whose address is given. Tiles start at multiples of 128 bytes.
  static __device__ __forceinline__ unsigned along(unsigned address, int chunks) {
    return (address ^ (chunks & (GROUP - 1)) * 16) + (chunks & ~(GROUP - 1)) * 16;
  }
};

// Four 8 x 8 matrices, each of whose rows one lane's address points at.
__device__ __forceinline__ void loadMatrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

__device__ __forceinline__ void loadTransposed(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

// C += A B for A (16, 16), B (16, 8), C (16, 8). Lane t has of C, in this order, row t / 4 and columns
// 2 (t % 4) and the next, then the same of row t / 4 + 8.
template <Type TYPE>
__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                         unsigned b1) {
  if (TYPE == Type::F16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// The transpose of an 8 x 8 matrix in a warp's registers: lane t gives row t / 4, columns 2 (t % 4) and
// the next, and gets those of the transpose.
__device__ __forceinline__ unsigned transposed(unsigned word) {
  unsigned result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(word));
  return result;
}
