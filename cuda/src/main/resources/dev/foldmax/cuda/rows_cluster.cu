// Softmax and its logarithm of rows that several blocks hold together: (rows, length) in F32, F16
// or BF16, from sm_90 on; one read, one write.
//
// Options: FOLDMAX_TYPE, the type of x; FOLDMAX_CLUSTER, the blocks of a row; FOLDMAX_CHUNKS of 16
// KB that each of them holds at most; FOLDMAX_LOG, 1 for the logarithm. The type of out is a
// run-time branch, F32, F16 or BF16. Which thread has an element follows from the row's length and
// type.
//
// Clusters are persistent and take rows in turn: a producer warp copies the next row's chunks into
// shared memory as fast as the consumers take the present row's from there into registers. The
// consumers of a block reduce their part to a state (m, l) as in rows.cuh, and send it to all
// blocks of the cluster, which merge the states in the order of the blocks.
//
// Grid: as many clusters as the device holds at once, at most one a row. Block: THREADS. Dynamic
// shared memory: FOLDMAX_CHUNKS * 16 KB.
#include "rows.cuh"

namespace {

constexpr int CONSUMERS = 512;
constexpr int CONSUMER_WARPS = CONSUMERS / WARP;
constexpr int THREADS = CONSUMERS + WARP;
constexpr int CHUNK_PACKS = 1024;
constexpr int CHUNK_SHARE = CHUNK_PACKS / CONSUMERS; // packs of a consumer
constexpr int CONSUMER_BARRIER = 1;

typedef unsigned long long Barrier;

__device__ __forceinline__ unsigned sharedAddress(const void* p) {
  return (unsigned)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void initBarrier(Barrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(barrier)),
               "r"(arrivals));
}

// Arrives, and lets the phase wait for so many bytes more.
__device__ __forceinline__ void arriveExpecting(Barrier* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   sharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(sharedAddress(barrier))
               : "memory");
}

// Waits for the end of the phase of a parity. IN_CLUSTER: for what other blocks have written.
template <bool IN_CLUSTER = false>
__device__ __forceinline__ void await(Barrier* barrier, unsigned parity) {
  unsigned isDone = 0;
  while (isDone == 0) {
    if (IN_CLUSTER) {
      asm volatile(
          "{\n"
          ".reg .pred done;\n"
          "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], %2;\n"
          "selp.u32 %0, 1, 0, done;\n"
          "}"
          : "=r"(isDone)
          : "r"(sharedAddress(barrier)), "r"(parity)
          : "memory");
    } else {
      asm volatile(
          "{\n"
          ".reg .pred done;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
          "selp.u32 %0, 1, 0, done;\n"
          "}"
          : "=r"(isDone)
          : "r"(sharedAddress(barrier)), "r"(parity)
          : "memory");
    }
  }
}

__device__ __forceinline__ void copyToShared(void* to, const void* from, int bytes,
                                             Barrier* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(sharedAddress(to)),
      "l"(from), "r"(bytes), "r"(sharedAddress(barrier))
      : "memory");
}

// The address of the same variable in another block of the cluster.
__device__ __forceinline__ unsigned inBlock(const void* p, int rank) {
  unsigned address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(sharedAddress(p)), "r"(rank));
  return address;
}

// Writes a state into another block's memory and tells its barrier.
__device__ __forceinline__ void sendState(const State* to, const Barrier* barrier, int rank,
                                          State s) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(
          inBlock(to, rank)),
      "r"(__float_as_uint(s.m)), "r"(__float_as_uint(s.l)), "r"(inBlock(barrier, rank))
      : "memory");
}

__device__ __forceinline__ void clusterBarrier() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

template <int CHUNKS, int CLUSTER, bool IS_LOG>
struct ClusterSoftmax {
  static constexpr int PACKS = CHUNKS * CHUNK_SHARE;

  struct Shared {
    Barrier full[CHUNKS];  // a chunk has come
    Barrier empty[CHUNKS]; // every consumer warp has taken its part of it
    Barrier met[2];        // the states of all blocks have come; for rows in turn
    State warps[2][CONSUMER_WARPS];
    State blocks[2][CLUSTER];
  };

  const RowArguments& a;
  Shared& shared;
  uint4* buffer; // (CHUNKS, CHUNK_PACKS)
  int rank;      // of the block in its cluster
  int begin;     // the first element of the block's part of each row
  int length;    // of that part
  bool isAligned;

  __device__ __forceinline__ ClusterSoftmax(const RowArguments& arguments, Shared& memory,
                                            uint4* chunks)
      : a(arguments), shared(memory), buffer(chunks), rank(blockIdx.x % CLUSTER) {
    // Parts of equal numbers of chunks, as few as the row's length asks for.
    const int packs = (int)((a.length + WIDTH - 1) / WIDTH);
    const int part =
        (packs + CLUSTER * CHUNK_PACKS - 1) / (CLUSTER * CHUNK_PACKS) * CHUNK_PACKS * WIDTH;
    begin = rank * part;
    const int rest = (int)a.length - begin;
    length = rest < 0 ? 0 : rest < part ? rest : part;
    isAligned = ((reinterpret_cast<unsigned long long>(a.x) | a.xStride * SIZE) & 15) == 0;
  }

  __device__ __forceinline__ Span span(int64 row) const {
    return {a.x + (row * a.xStride + begin) * SIZE, length, isAligned ? length / WIDTH : 0};
  }

  // Packs of chunk c that are copied.
  __device__ __forceinline__ int copied(const Span& s, int c) const {
    const int rest = s.whole - c * CHUNK_PACKS;
    return rest < 0 ? 0 : rest < CHUNK_PACKS ? rest : CHUNK_PACKS;
  }

  __device__ __forceinline__ void produce(int64 first, int64 step) const {
    unsigned parity = 1; // the buffer is empty at first
    for (int64 row = first; row < a.rows; row += step, parity ^= 1) {
      const Span s = span(row);
      for (int c = 0; c < CHUNKS && copied(s, c) > 0; c++) {
        const int bytes = copied(s, c) * 16;
        await(&shared.empty[c], parity);
        arriveExpecting(&shared.full[c], bytes);
        copyToShared(buffer + c * CHUNK_PACKS, s.data + (int64)c * CHUNK_PACKS * 16, bytes,
                     &shared.full[c]);
      }
    }
  }

  // A row's packs, from the chunks that the producer has copied.
  __device__ __forceinline__ void take(const Span& s, unsigned parity,
                                       uint4 (&packs)[PACKS]) const {
    const int t = threadIdx.x;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
      const int count = copied(s, c);
      if (count > 0) {
        await(&shared.full[c], parity);
      }
#pragma unroll
      for (int i = 0; i < CHUNK_SHARE; i++) {
        const int p = t + i * CONSUMERS;
        packs[c * CHUNK_SHARE + i] = p < count ? buffer[c * CHUNK_PACKS + p] : emptyPack();
      }
      if (count > 0) {
        __syncwarp();
        if (t % WARP == 0) {
          arrive(&shared.empty[c]);
        }
      }
    }
    gatherRest<PACKS, CONSUMERS>(s, t, packs);
  }

  // The state of the row, from that of a thread; `slot` and `parity` follow the block's rows.
  __device__ __forceinline__ State met(State s, int slot, unsigned parity) const {
    const int t = threadIdx.x;
    s = mergedOverLanes<WARP>(s);
    if (t % WARP == 0) {
      shared.warps[slot][t / WARP] = s;
    }
    asm volatile("bar.sync %0, %1;" ::"r"(CONSUMER_BARRIER), "r"(CONSUMERS) : "memory");
    s = mergedOverLanes<CONSUMER_WARPS>(shared.warps[slot][t % CONSUMER_WARPS]);
    if (t == 0) {
      arriveExpecting(&shared.met[slot], CLUSTER * (int)sizeof(State));
    }
    if (t < CLUSTER) {
      sendState(&shared.blocks[slot][rank], &shared.met[slot], t, s);
    }
    await<true>(&shared.met[slot], parity);
    State all = {EMPTY, 0.0f};
#pragma unroll
    for (int i = 0; i < CLUSTER; i++) {
      all.m = nextMaximum<Rescale::ALWAYS>(all.m, shared.blocks[slot][i].m, 0.0f);
    }
#pragma unroll
    for (int i = 0; i < CLUSTER; i++) {
      const State block = shared.blocks[slot][i];
      all.l = fmaf(block.l, naturalCorrection(block.m, all.m), all.l);
    }
    return all;
  }

  __device__ __forceinline__ void consume(int64 first, int64 step) const {
    unsigned parity = 0;
    int number = 0; // of the row among the block's
    for (int64 row = first; row < a.rows; row += step, parity ^= 1, number++) {
      uint4 packs[PACKS];
      take(span(row), parity, packs);
      const float m = maximumOf<PACKS>(packs);
      forgetWidened<PACKS>(packs);
      const float l = weigh<PACKS, IS_LOG>(packs, shift(m));
      const State s = met({m, l}, number & 1, number >> 1 & 1);
      forgetWidened<PACKS>(packs);
      writeResults<PACKS, CONSUMERS, IS_LOG>(
          targetOf(a.out + (row * a.outStride + begin) * sizeOf(a.outType), length, a.outType),
          a.outType, threadIdx.x, packs, m, s);
    }
  }
};

template <int CHUNKS, int CLUSTER, bool IS_LOG>
__device__ __forceinline__ void softmaxInClusters(const RowArguments& a) {
  typedef ClusterSoftmax<CHUNKS, CLUSTER, IS_LOG> Softmax;
  extern __shared__ __align__(128) uint4 chunks[];
  __shared__ typename Softmax::Shared shared;
  if (threadIdx.x == 0) {
    for (int c = 0; c < CHUNKS; c++) {
      initBarrier(&shared.full[c], 1);
      initBarrier(&shared.empty[c], CONSUMER_WARPS);
    }
    initBarrier(&shared.met[0], 1);
    initBarrier(&shared.met[1], 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  clusterBarrier(); // before others send
  const Softmax softmax(a, shared, chunks);
  const int64 first = blockIdx.x / CLUSTER;
  const int64 step = gridDim.x / CLUSTER;
  if (threadIdx.x < CONSUMERS) {
    softmax.consume(first, step);
  } else if (threadIdx.x == CONSUMERS) {
    softmax.produce(first, step);
  }
  __syncwarp();
  clusterBarrier(); // no block ends while others may send to it
}

} // namespace

extern "C" __global__ void __cluster_dims__(FOLDMAX_CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    softmax(const __grid_constant__ RowArguments a) {
  softmaxInClusters<FOLDMAX_CHUNKS, FOLDMAX_CLUSTER, FOLDMAX_LOG != 0>(a);
}
