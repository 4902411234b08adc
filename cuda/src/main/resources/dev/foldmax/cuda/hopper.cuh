// What sm_90a offers to kernels that feed its matrix units from shared memory: bulk tensor copies,
// warp-group matrix products, and the swizzled shape of a tile that ties them together.
// barrier.cuh has the mbarriers.
//
// A tile of R rows and 64 N columns of 16-bit elements lies in shared memory as N panels of
// (R rows, 64 columns), 128 bytes a row; the eight 16-byte chunks of row r are permuted by
// chunk ^ (r % 8) (the 128-byte swizzle), so that neither rows nor columns of chunks collide in
// banks. Copies write that shape, matrix descriptors name it, and `chunkOffset` is the same in
// plain code.
#pragma once

#include "barrier.cuh"

constexpr int WARP_GROUP = 128; // threads that issue one matrix product together
constexpr int GROUP_ROWS = 64;  // rows of its result
constexpr int PANEL = 64;       // columns of a panel
constexpr int PANEL_ROW = 128;  // bytes

// Made by cuTensorMapEncodeTiled; reads outside give 0, writes outside are dropped. In the driver's
// order, fastest first, its dimensions are (64, rows, panels, heads, blocks) where columns fill
// whole panels, so that one box holds a tile, and else (columns, rows, 1, heads, blocks) with a box
// for each panel.
struct alignas(64) TensorMap {
  unsigned char opaque[128];
};

// Bytes from a tile's start to 16-byte chunk `chunk` of row `row`, for a tile of `rows` rows.
__device__ __forceinline__ uint32 chunkOffset(int rows, int row, int chunk) {
  return (chunk >> 3) * (rows * PANEL_ROW) + row * PANEL_ROW + (((chunk ^ row) & 7) << 4);
}

// ---- barriers ----

// One side's walk around a ring of N stages, each with a barrier that says full and one that says
// empty. A consumer begins with parity 0; a producer with parity 1, since all stages begin empty.
template <int N> struct Ring {
  uint32 barriers; // N that say full, then N that say empty
  uint32 steps;    // of two rounds: one register for stage and parity

  __device__ __forceinline__ Ring(uint32 barriers, uint32 parity)
      : barriers(barriers), steps(parity * N) {}
  __device__ __forceinline__ uint32 stage() const { return steps < N ? steps : steps - N; }
  __device__ __forceinline__ uint32 parity() const { return steps < N ? 0 : 1; }
  __device__ __forceinline__ Barrier full() const { return Barrier{barriers + 8 * stage()}; }
  __device__ __forceinline__ Barrier empty() const { return Barrier{barriers + 8 * (N + stage())}; }
  __device__ __forceinline__ void waitFull() const { full().wait(parity()); }
  __device__ __forceinline__ void waitEmpty() const { empty().wait(parity()); }
  __device__ __forceinline__ void next() { steps = steps == 2 * N - 1 ? 0 : steps + 1; }
  __device__ __forceinline__ void initialise(int producers, int consumers) const {
    for (int i = 0; i < N; i++) {
      Barrier{barriers + 8 * i}.initialise(producers);
      Barrier{barriers + 8 * (N + i)}.initialise(consumers);
    }
  }
};

// Makes this thread's stores to shared memory visible to matrix units and bulk copies.
__device__ __forceinline__ void fenceShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

template <int REGISTERS> __device__ __forceinline__ void giveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> __device__ __forceinline__ void takeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// ---- copies ----

// Where a box begins.
struct Box {
  int row;
  int head;
  int block;
};

// One box of a tensor into shared memory; `full` gets the bytes.
__device__ __forceinline__ void copyIn(uint32 shared, const TensorMap* map, int column, Box box,
                                       Barrier full) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(shared),
               "l"(map), "r"(column), "r"(box.row), "r"(0), "r"(box.head), "r"(box.block),
               "r"(full.address)
               : "memory");
}
// One box out of shared memory; completes with this thread's group, see copyOutCommit.
__device__ __forceinline__ void copyOut(const TensorMap* map, int column, Box box, uint32 shared) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group "
               "[%0, {%1, %2, %3, %4, %5}], [%6];" ::"l"(map),
               "r"(column), "r"(box.row), "r"(0), "r"(box.head), "r"(box.block), "r"(shared)
               : "memory");
}
// All of a tile of DIM columns, of which the tensor has `dim`.
template <int DIM>
__device__ __forceinline__ void copyTileIn(uint32 shared, const TensorMap* map, int dim, int rows,
                                           Box box, Barrier full) {
  full.expect(rows * (DIM / PANEL) * PANEL_ROW);
  if (dim % PANEL == 0) {
    copyIn(shared, map, 0, box, full);
  } else {
#pragma unroll
    for (int panel = 0; panel < DIM / PANEL; panel++) {
      copyIn(shared + panel * rows * PANEL_ROW, map, panel * PANEL, box, full);
    }
  }
}
template <int DIM>
__device__ __forceinline__ void copyTileOut(const TensorMap* map, int dim, int rows, Box box,
                                            uint32 shared) {
  if (dim % PANEL == 0) {
    copyOut(map, 0, box, shared);
  } else {
#pragma unroll
    for (int panel = 0; panel < DIM / PANEL; panel++) {
      copyOut(map, panel * PANEL, box, shared + panel * rows * PANEL_ROW);
    }
  }
}
__device__ __forceinline__ void copyOutCommit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until this thread's copies out have read shared memory.
__device__ __forceinline__ void copyOutHasRead() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ __forceinline__ void copyOutDone() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
// 16 bytes by an ordinary asynchronous copy: the first `bytes` (0 to 16) from memory, then zeros.
__device__ __forceinline__ void copyChunk(uint32 shared, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void copyChunksDone() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}
// Four 8 x 8 matrices of 16-bit elements, held as the matrix unit's results are, into shared
// memory.
__device__ __forceinline__ void storeMatrices(uint32 shared, uint32 a, uint32 b, uint32 c,
                                              uint32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

// ---- matrix products ----
//
// Thread t of a warp group holds, of a result of (64 rows, N columns), the rows
// r = 16 (t / 32) + (t % 32) / 4 and r + 8: elements 4 i and 4 i + 1 are of row r, columns
// 8 i + 2 (t % 4) and the next one; 4 i + 2 and 4 i + 3 the same of row r + 8. A left operand in
// registers is held likewise, two 16-bit elements a register, so that a product's result becomes
// the next one's operand in place.

// Descriptors: the low half holds address / 16 and, for operands whose rows run along the sum, the
// distance of panels; the high half is the same for all: 1024 bytes from 8 rows to the next, and
// the 128-byte swizzle.
__device__ __forceinline__ uint64 descriptor(uint32 low) {
  return static_cast<uint64>(0x40000040u) << 32 | low;
}
// Rows of queries or keys, which the sum runs along; steps of 16 columns are 32 bytes.
__device__ __forceinline__ uint32 alongRows(uint32 address) {
  return address >> 4 | 1u << 16;
}
// Rows of values, which the sum runs across; steps of 16 rows are 2048 bytes.
__device__ __forceinline__ uint32 acrossRows(uint32 address, int rows) {
  return address >> 4 | static_cast<uint32>(rows * PANEL_ROW / 16) << 16;
}

// Before the first product of a batch: registers it uses are as ordinary code left them.
__device__ __forceinline__ void productsBegin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void productsCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most LEFT committed batches run.
template <int LEFT> __device__ __forceinline__ void productsWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
// Keeps the compiler from reading a result before the wait above this call.
template <int N> __device__ __forceinline__ void settle(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}

#if FOLDMAX_TYPE == 1
#define FOLDMAX_ELEMENT "f16"
#else
#define FOLDMAX_ELEMENT "bf16"
#endif

// Two elements of the compute type from two floats, `low` in the lower half.
__device__ __forceinline__ uint32 packed(float low, float high) {
  uint32 r;
  asm("cvt.rn." FOLDMAX_ELEMENT "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

// Inline PTX wants every register by name: lists of 8, and of as many as a width needs.
#define FOLDMAX_R0 "%0,%1,%2,%3,%4,%5,%6,%7"
#define FOLDMAX_R1 "%8,%9,%10,%11,%12,%13,%14,%15"
#define FOLDMAX_R2 "%16,%17,%18,%19,%20,%21,%22,%23"
#define FOLDMAX_R3 "%24,%25,%26,%27,%28,%29,%30,%31"
#define FOLDMAX_R4 "%32,%33,%34,%35,%36,%37,%38,%39"
#define FOLDMAX_R5 "%40,%41,%42,%43,%44,%45,%46,%47"
#define FOLDMAX_R6 "%48,%49,%50,%51,%52,%53,%54,%55"
#define FOLDMAX_R7 "%56,%57,%58,%59,%60,%61,%62,%63"
#define FOLDMAX_R8 "%64,%65,%66,%67,%68,%69,%70,%71"
#define FOLDMAX_R9 "%72,%73,%74,%75,%76,%77,%78,%79"
#define FOLDMAX_R10 "%80,%81,%82,%83,%84,%85,%86,%87"
#define FOLDMAX_R11 "%88,%89,%90,%91,%92,%93,%94,%95"
#define FOLDMAX_R12 "%96,%97,%98,%99,%100,%101,%102,%103"
#define FOLDMAX_R13 "%104,%105,%106,%107,%108,%109,%110,%111"
#define FOLDMAX_R14 "%112,%113,%114,%115,%116,%117,%118,%119"
#define FOLDMAX_R15 "%120,%121,%122,%123,%124,%125,%126,%127"
#define FOLDMAX_NAMES32 FOLDMAX_R0 "," FOLDMAX_R1 "," FOLDMAX_R2 "," FOLDMAX_R3
#define FOLDMAX_NAMES40 FOLDMAX_NAMES32 "," FOLDMAX_R4
#define FOLDMAX_NAMES48 FOLDMAX_NAMES40 "," FOLDMAX_R5
#define FOLDMAX_NAMES56 FOLDMAX_NAMES48 "," FOLDMAX_R6
#define FOLDMAX_NAMES64 FOLDMAX_NAMES56 "," FOLDMAX_R7
#define FOLDMAX_NAMES96                                                                            \
  FOLDMAX_NAMES64 "," FOLDMAX_R8 "," FOLDMAX_R9 "," FOLDMAX_R10 "," FOLDMAX_R11
#define FOLDMAX_NAMES128                                                                           \
  FOLDMAX_NAMES96 "," FOLDMAX_R12 "," FOLDMAX_R13 "," FOLDMAX_R14 "," FOLDMAX_R15
#define FOLDMAX_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define FOLDMAX_D8(i) FOLDMAX_D4(i), FOLDMAX_D4(i + 4)
#define FOLDMAX_D16(i) FOLDMAX_D8(i), FOLDMAX_D8(i + 8)
#define FOLDMAX_D32(i) FOLDMAX_D16(i), FOLDMAX_D16(i + 16)
#define FOLDMAX_DATA32 FOLDMAX_D32(0)
#define FOLDMAX_DATA40 FOLDMAX_DATA32, FOLDMAX_D8(32)
#define FOLDMAX_DATA48 FOLDMAX_DATA40, FOLDMAX_D8(40)
#define FOLDMAX_DATA56 FOLDMAX_DATA48, FOLDMAX_D8(48)
#define FOLDMAX_DATA64 FOLDMAX_DATA32, FOLDMAX_D32(32)
#define FOLDMAX_DATA96 FOLDMAX_DATA64, FOLDMAX_D32(64)
#define FOLDMAX_DATA128 FOLDMAX_DATA96, FOLDMAX_D32(96)

// d (64 x N) += a (64 x 16) b (16 x N), both operands in shared memory along rows; `add` of 0
// begins a new sum.
template <int N>
__device__ __forceinline__ void multiplyRows(float (&d)[N / 2], uint64 a, uint64 b, int add);
// The same with a in registers and b across rows; always adds.
template <int N>
__device__ __forceinline__ void multiplyAcross(float (&d)[N / 2], uint32 a0, uint32 a1, uint32 a2,
                                               uint32 a3, uint64 b);

// N columns in COUNT registers a thread; the other numbers are COUNT and those that follow.
#define FOLDMAX_PRODUCTS(N, COUNT, I0, I1, I2, I3, I4)                                             \
  template <>                                                                                      \
  __device__ __forceinline__ void multiplyRows<N>(float (&d)[COUNT], uint64 a, uint64 b,           \
                                                  int add) {                                       \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #I2 ", 0;\n"                           \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." FOLDMAX_ELEMENT                 \
                 "." FOLDMAX_ELEMENT " {" FOLDMAX_NAMES##COUNT "}, %" #I0 ", %" #I1                \
                 ", adds, 1, 1, 0, 0;\n}"                                                          \
                 : FOLDMAX_DATA##COUNT                                                             \
                 : "l"(a), "l"(b), "r"(add));                                                      \
  }                                                                                                \
  template <>                                                                                      \
  __device__ __forceinline__ void multiplyAcross<N>(float (&d)[COUNT], uint32 a0, uint32 a1,       \
                                                    uint32 a2, uint32 a3, uint64 b) {              \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, 1, 0;\n"                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." FOLDMAX_ELEMENT                 \
                 "." FOLDMAX_ELEMENT " {" FOLDMAX_NAMES##COUNT "}, {%" #I0 ", %" #I1 ", %" #I2     \
                 ", %" #I3 "}, %" #I4 ", adds, 1, 1, 1;\n}"                                        \
                 : FOLDMAX_DATA##COUNT                                                             \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));                                    \
  }
FOLDMAX_PRODUCTS(64, 32, 32, 33, 34, 35, 36)
FOLDMAX_PRODUCTS(80, 40, 40, 41, 42, 43, 44)
FOLDMAX_PRODUCTS(96, 48, 48, 49, 50, 51, 52)
FOLDMAX_PRODUCTS(112, 56, 56, 57, 58, 59, 60)
FOLDMAX_PRODUCTS(128, 64, 64, 65, 66, 67, 68)
FOLDMAX_PRODUCTS(192, 96, 96, 97, 98, 99, 100)
FOLDMAX_PRODUCTS(256, 128, 128, 129, 130, 131, 132)
