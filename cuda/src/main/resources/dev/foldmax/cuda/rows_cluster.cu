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
// blocks of the cluster, which merge the states in the order of the blocks. Where registers hold two
// rows (IS_LATE), another warp does all that about states, and consumers keep a row meanwhile and sum
// the next one, so that they never wait for each other.
//
// Grid: as many clusters as the device holds at once, at most one a row. Block: THREADS. Dynamic
// shared memory: FOLDMAX_CHUNKS * 16 KB.
#include "barrier.cuh"
#include "rows.cuh"

namespace {

constexpr int CHUNKS = FOLDMAX_CHUNKS;
constexpr int CLUSTER = FOLDMAX_CLUSTER;
constexpr bool IS_LOG = FOLDMAX_LOG != 0;
constexpr bool IS_LATE = CHUNKS <= 4; // RowKernels knows it too

constexpr int CONSUMERS = 512;
constexpr int CONSUMER_WARPS = CONSUMERS / WARP;
constexpr int PRODUCER = CONSUMER_WARPS;      // a warp
constexpr int MESSENGER = CONSUMER_WARPS + 1; // a warp, if IS_LATE
constexpr int THREADS = CONSUMERS + (IS_LATE ? 2 : 1) * WARP;
constexpr int CHUNK_PACKS = 1024;
constexpr int CHUNK_SHARE = CHUNK_PACKS / CONSUMERS; // packs of a consumer
constexpr int CONSUMER_BARRIER = 1;
constexpr int PACKS = CHUNKS * CHUNK_SHARE;

// Chunks on their way. More are slower: reads then keep writes from memory.
constexpr int STAGES = CHUNKS;

// Copies to this block's shared memory; `full` gets the bytes.
__device__ __forceinline__ void copyBulk(void* to, const void* from, int bytes, Barrier full) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(sharedAddress(to)),
      "l"(from), "r"(bytes), "r"(full.address)
      : "memory");
}

// The same place in the shared memory of another block of the cluster.
__device__ __forceinline__ uint32 inBlock(uint32 address, int rank) {
  uint32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

// Writes a state into another block's memory and tells its barrier.
__device__ __forceinline__ void sendState(const State* to, Barrier barrier, int rank, State s) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(
          inBlock(sharedAddress(to), rank)),
      "r"(__float_as_uint(s.m)), "r"(__float_as_uint(s.l)), "r"(inBlock(barrier.address, rank))
      : "memory");
}

__device__ __forceinline__ void meetCluster() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// Those of two entries are for rows in turn.
struct Shared {
  BarrierWord full[STAGES];  // a chunk has come
  BarrierWord empty[STAGES]; // every consumer warp has taken its part of it
  BarrierWord summed[2];     // every consumer warp has written its state
  BarrierWord met[2];        // the states of all blocks have come
  BarrierWord known[2];      // the row's state is there
  State warps[2][CONSUMER_WARPS];
  State blocks[2][CLUSTER];
  State rows[2];
};

// Where a producer or a consumer is among the stages.
struct Stage {
  int number;
  uint32 parity;

  __device__ __forceinline__ void next() {
    number++;
    if (number == STAGES) {
      number = 0;
      parity ^= 1;
    }
  }
};

struct ClusterSoftmax {
  const RowArguments& a;
  Shared& shared;
  uint4* stages; // (STAGES, CHUNK_PACKS)
  int rank;      // of the block in its cluster
  int begin;     // the first element of the block's part of each row
  int length;    // of that part
  bool isAligned;

  __device__ __forceinline__ ClusterSoftmax(const RowArguments& arguments, Shared& memory,
                                            uint4* chunks)
      : a(arguments), shared(memory), stages(chunks), rank(blockIdx.x % CLUSTER) {
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
    Stage stage = {0, 1}; // all are empty at first
    for (int64 row = first; row < a.rows; row += step) {
      const Span s = span(row);
      for (int c = 0; c < CHUNKS && copied(s, c) > 0; c++) {
        const int bytes = copied(s, c) * 16;
        const Barrier full = shared.full[stage.number];
        Barrier(shared.empty[stage.number]).wait(stage.parity);
        full.expect(bytes);
        copyBulk(stages + stage.number * CHUNK_PACKS, s.data + (int64)c * CHUNK_PACKS * 16, bytes,
                 full);
        stage.next();
      }
    }
  }

  // A row's packs, from the chunks that the producer has copied.
  __device__ __forceinline__ void take(const Span& s, Stage& stage, uint4 (&packs)[PACKS]) const {
    const int t = threadIdx.x;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
      const int count = copied(s, c);
      if (count > 0) {
        Barrier(shared.full[stage.number]).wait(stage.parity);
      }
#pragma unroll
      for (int i = 0; i < CHUNK_SHARE; i++) {
        const int p = t + i * CONSUMERS;
        packs[c * CHUNK_SHARE + i] =
            p < count ? stages[stage.number * CHUNK_PACKS + p] : emptyPack();
      }
      if (count > 0) {
        __syncwarp();
        if (t % WARP == 0) {
          Barrier(shared.empty[stage.number]).arrive();
        }
        stage.next();
      }
    }
    gatherRest<PACKS, CONSUMERS>(s, t, packs);
  }

  // Writes the state of a warp's part of a row.
  __device__ __forceinline__ void noteWarp(State s, int slot) const {
    s = mergedOverLanes<WARP>(s);
    if (threadIdx.x % WARP == 0) {
      shared.warps[slot][threadIdx.x / WARP] = s;
    }
  }

  // The state of a row, from those of this block's warps. Thread t of those that come here sends
  // the block's to block t.
  __device__ __forceinline__ State met(int t, int slot, uint32 parity) const {
    const State own =
        mergedOverLanes<CONSUMER_WARPS>(shared.warps[slot][threadIdx.x % CONSUMER_WARPS]);
    const Barrier met = shared.met[slot];
    if (t == 0) {
      met.expect(CLUSTER * (int)sizeof(State));
    }
    if (t < CLUSTER) {
      sendState(&shared.blocks[slot][rank], met, t, own);
    }
    met.waitForCluster(parity);
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

  // Turns the states of warps into those of rows.
  __device__ __forceinline__ void carryMessages(int64 first, int64 step) const {
    const int lane = threadIdx.x % WARP;
    uint32 number = 0; // of the row among the block's
    for (int64 row = first; row < a.rows; row += step, number++) {
      const int slot = number % 2;
      const uint32 parity = number / 2 % 2;
      Barrier(shared.summed[slot]).wait(parity);
      const State s = met(lane, slot, parity);
      __syncwarp();
      if (lane == 0) {
        shared.rows[slot] = s;
        Barrier(shared.known[slot]).arrive();
      }
    }
  }

  // Takes a row and sums its weights under its maximum m.
  __device__ __forceinline__ float sum(int64 row, Stage& stage, uint4 (&packs)[PACKS],
                                       float& m) const {
    take(span(row), stage, packs);
    m = maximumOf<PACKS>(packs);
    forgetWidened<PACKS>(packs);
    return weigh<PACKS, IS_LOG>(packs, shift(m));
  }

  __device__ __forceinline__ void finish(int64 row, uint4 (&packs)[PACKS], float m,
                                         State s) const {
    forgetWidened<PACKS>(packs);
    writeResults<PACKS, CONSUMERS, IS_LOG>(
        targetOf(a.out + (row * a.outStride + begin) * sizeOf(a.outType), length, a.outType),
        a.outType, threadIdx.x, packs, m, s);
  }

  __device__ __forceinline__ void consume(int64 first, int64 step) const {
    Stage stage = {0, 0};
    uint32 number = 0; // of the row among the block's
    for (int64 row = first; row < a.rows; row += step, number++) {
      const int slot = number % 2;
      uint4 packs[PACKS];
      float m;
      const float l = sum(row, stage, packs, m);
      noteWarp({m, l}, slot);
      namedSync(CONSUMER_BARRIER, CONSUMERS);
      finish(row, packs, m, met(threadIdx.x, slot, number / 2 % 2));
    }
  }

  __device__ __forceinline__ void finishLate(int64 row, uint32 number, uint4 (&packs)[PACKS],
                                             float m) const {
    const int slot = number % 2;
    Barrier(shared.known[slot]).wait(number / 2 % 2);
    finish(row, packs, m, shared.rows[slot]);
  }

  // The same, each row being finished once the next one has been summed.
  __device__ __forceinline__ void consumeLate(int64 first, int64 step) const {
    Stage stage = {0, 0};
    uint32 number = 0; // of the row among the block's
    uint4 before[PACKS];
    float mBefore = EMPTY;
    int64 row = first;
    for (; row < a.rows; row += step, number++) {
      uint4 packs[PACKS];
      float m;
      const float l = sum(row, stage, packs, m);
      noteWarp({m, l}, number % 2);
      if (threadIdx.x % WARP == 0) {
        Barrier(shared.summed[number % 2]).arrive();
      }
      forgetWidened<PACKS>(packs);
      if (number > 0) {
        finishLate(row - step, number - 1, before, mBefore);
      }
#pragma unroll
      for (int k = 0; k < PACKS; k++) {
        before[k] = packs[k];
      }
      mBefore = m;
    }
    if (number > 0) {
      finishLate(row - step, number - 1, before, mBefore);
    }
  }
};

} // namespace

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    softmax(const __grid_constant__ RowArguments a) {
  extern __shared__ __align__(128) uint4 chunks[];
  __shared__ Shared shared;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) {
      Barrier(shared.full[i]).initialise(1);
      Barrier(shared.empty[i]).initialise(CONSUMER_WARPS);
    }
    for (int i = 0; i < 2; i++) {
      Barrier(shared.summed[i]).initialise(CONSUMER_WARPS);
      Barrier(shared.met[i]).initialise(1);
      Barrier(shared.known[i]).initialise(1);
    }
    fenceBarriers();
  }
  __syncthreads();
  meetCluster(); // before others send
  const ClusterSoftmax softmax(a, shared, chunks);
  const int64 first = blockIdx.x / CLUSTER;
  const int64 step = gridDim.x / CLUSTER;
  const int warp = threadIdx.x / WARP;
  if (warp < CONSUMER_WARPS) {
    if (IS_LATE) {
      softmax.consumeLate(first, step);
    } else {
      softmax.consume(first, step);
    }
  } else if (warp == PRODUCER) {
    if (threadIdx.x % WARP == 0) {
      softmax.produce(first, step);
    }
  } else if (warp == MESSENGER) {
    softmax.carryMessages(first, step);
  }
  __syncwarp();
  meetCluster(); // no block ends while others may send to it
}
