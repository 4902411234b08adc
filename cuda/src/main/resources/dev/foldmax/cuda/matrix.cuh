// The matrix instruction of 16-bit elements with its operands, and asynchronous copies; sm_80 and
// later. In lane (g, t) of a warp, g = lane / 4 and t = lane % 4, the 16 x 8 result of
// `multiplyAdd` is c[0], c[1] at row g, columns 2 t and 2 t + 1, and c[2], c[3] eight rows below.
#pragma once
#include "elements.cuh"

__device__ __forceinline__ unsigned sharedAddress(const void* pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}

// c += a b, with a 16 x 16 by rows, b 16 x 8 by columns, c 16 x 8 in float32.
template <Type TYPE>
__device__ __forceinline__ void multiplyAdd(float (&c)[4], const unsigned (&a)[4],
                                            const unsigned (&b)[2]) {
  if (TYPE == Type::F16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

// Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void loadMatrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void loadTransposedMatrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// The transpose of an 8 x 8 matrix in a warp's registers: lane (g, t) gives row g, columns 2 t and
// 2 t + 1, and gets row g of the transpose.
__device__ __forceinline__ unsigned transposed(unsigned word) {
  unsigned result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(word));
  return result;
}

// Starts copying `bytes` bytes, at most 16, to shared memory and fills 16 up with zeros.
__device__ __forceinline__ void copyAsync16(unsigned target, const void* source, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(target), "l"(source), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void commitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until all but the last PENDING groups of this thread's copies have arrived.
template <int PENDING>
__device__ __forceinline__ void waitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
