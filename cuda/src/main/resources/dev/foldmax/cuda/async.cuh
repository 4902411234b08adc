// Copies from global to shared memory that a thread does not wait for: sm_80 and later.
#pragma once

__device__ __forceinline__ unsigned sharedAddress(const void* p) {
  return (unsigned)__cvta_generic_to_shared(p);
}

// Copies 16 bytes to shared memory without waiting; zeros if they do not exist.
__device__ __forceinline__ void copy16(unsigned to, const void* from, bool exist) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.eq.u32 p, %2, 0;\n"
      "cp.async.cg.shared.global [%0], [%1], 16, p;\n"
      "}\n" ::"r"(to),
      "l"(from), "r"((unsigned)exist));
}

// The same with zeros after the first `bytes`.
__device__ __forceinline__ void copyPart(unsigned to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

// The same of what is read once: it is the first to leave the L2 cache again.
__device__ __forceinline__ void copyPartOnce(unsigned to, const void* from, int bytes) {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(to),
               "l"(from), "r"(bytes), "l"(policy));
}

__device__ __forceinline__ void waitForCopies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// Ends a group of this thread's copies.
__device__ __forceinline__ void commitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until all but the last PENDING groups have arrived.
template <int PENDING>
__device__ __forceinline__ void waitForAllBut() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
