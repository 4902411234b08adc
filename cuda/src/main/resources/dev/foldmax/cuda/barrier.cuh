// Barriers of sm_90 and later that threads, copies and other blocks of a cluster arrive at, and the
// hardware's named ones.
#pragma once
#include "async.cuh"

typedef unsigned int uint32;
typedef unsigned long long uint64;

// A barrier in shared memory that counts arrivals, and bytes that copies have promised. A wait
// names the parity of the phase that must be over: 0 for the first, and 1 passes at once on a fresh
// one.
struct Barrier {
  uint32 address;

  __device__ __forceinline__ void initialise(int arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(arrivals));
  }
  __device__ __forceinline__ void arrive() const {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
  }
  // Arrives, and holds the phase open until `bytes` have come.
  __device__ __forceinline__ void expect(int bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes)
                 : "memory");
  }
  __device__ __forceinline__ void wait(uint32 parity) const {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(address),
                 "r"(parity)
                 : "memory");
  }
  // The same for what other blocks of the cluster have written.
  __device__ __forceinline__ void waitForCluster(uint32 parity) const {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(address),
                 "r"(parity)
                 : "memory");
  }
};

// A barrier where it lies in shared memory.
struct BarrierWord {
  uint64 word;

  __device__ __forceinline__ operator Barrier() { return Barrier{sharedAddress(this)}; }
};

// Of the hardware's 16 named barriers; 0 is __syncthreads.
__device__ __forceinline__ void namedSync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void namedArrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Makes barriers visible to the copy engine; after initialise, before __syncthreads.
__device__ __forceinline__ void fenceBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
