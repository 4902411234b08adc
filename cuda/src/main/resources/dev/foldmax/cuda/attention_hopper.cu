// Attention over many queries on sm_90a: F16 or BF16 queries, keys, values. The matrix products run
// on whole warp groups straight from shared memory, and copies run ahead of them.
//
// A block of threads stays on its multiprocessor and takes works, each a block of query rows of one
// head. Its last warp groups consume: each owns 64 of the rows, with their state (m, l, O) in
// registers. The first one produces: it brings queries, and a ring of tiles of keys and another of
// values. For each tile of keys (see state.cuh for the five lines):
//
//   S = Q K(j)'          begins
//   O += P V(j + 1)      begins, the values of the tile before
//   m, c, P, l           of tile j, from S, while O is on its way
//   O = O c
//
// Tiles are at absolute multiples of TILE positions and taken from the last to the first. One that
// a row sees nothing of leaves (m, l, O) as they were to the bit (c = 1, P = 0), so that a row's
// bits depend neither on the rows beside it nor on how a prompt is cut.
//
// Rows that are not there, before a cache's first key or past its end, reach shared memory as zeros
// and nothing else: 0 times what lies there could be NaN. Tiles that lie in memory as a matrix are
// brought by bulk copies; others (edges of a sequence inside of a tensor, pages, rings) row by row,
// into the same shape, hence with the same bits.
//
// Non-finite values: weight 0 times NaN is NaN on the matrix units, so rows that do not see the
// value would catch it. The kernel does not look at values; each warp notes whether its results are
// finite. The launch that follows, of this source with FOLDMAX_REPAIR=1, does works with others
// again: once with non-finite values replaced by 0, and once more with weight 1 for every key whose
// score is above -inf against a matrix of 1 where the value was not finite; what that counts
// becomes NaN.
//
// Huge scores: a maximum in base 2 is rounded, which is as good as a maximum a little off, as long
// as weights stay finite. Rows whose maximum is beyond FAR are noted and done again too, with
// natural scores, from which the maximum is subtracted before anything is rounded.
//
// Options: FOLDMAX_TYPE 1 or 2; FOLDMAX_KEY_DIM and FOLDMAX_VALUE_DIM 64, 128, 192 or 256 (at least
// Dqk and Dv); FOLDMAX_FORM, see enum class Form; FOLDMAX_REPAIR.
// Rescale.ALWAYS only.
// Grid: at most one block a multiprocessor, all resident; block and shared memory: hopperShape.
// Positions and rows stay below 2^30.
// Scratch: Plan::counters are 0 before a launch, and the last block to finish leaves them 0 for the
// next, so launches that share them must not overlap. Plan::flags need no preparation.
#include "arguments.cuh"
#include "elements.cuh"
#include "hopper.cuh"
#include "scores.cuh"
#include "state.cuh"
#include "where.cuh"

#ifndef FOLDMAX_REPAIR
#define FOLDMAX_REPAIR 0
#endif

constexpr bool REPAIR = FOLDMAX_REPAIR != 0;
constexpr Type TYPE = FOLDMAX_TYPE == 1 ? Type::F16 : Type::BF16;

// What becomes of dot products; each form has the shortest way from them to weights.
enum class Form {
  PRODUCTS = 0, // scale > 0 and nothing else
  CAPPED = 1,   // scale > 0 and a soft cap
  BOUNDED = 2,  // the same with BF16 and a cap of at most 80 in base 2
  SLOPED = 3,   // scale > 0 and ALiBi
  SUMS = 4,     // anything without a bias
  BIASED = 5    // anything
};
constexpr Form FORM = static_cast<Form>(FOLDMAX_FORM);
constexpr bool IS_CAPPED = FORM == Form::CAPPED || FORM == Form::BOUNDED;
// Weights of bounded scores are finite, and no more exact, under any maximum, so that it is 0 for
// all rows: nothing to look for, and nothing to correct.
constexpr bool IS_BOUNDED = FORM == Form::BOUNDED;
static_assert(!IS_BOUNDED || FOLDMAX_TYPE == 2, "weights leave the range of float16");
// Natural scores need one multiplication more for each weight, so only a bias, which may be
// float32's lowest, gets them; the others are in base 2.
constexpr bool IS_NATURAL = FORM == Form::BIASED;
constexpr float NATURAL_UNIT = IS_NATURAL ? 1.0f : LOG2_E;
constexpr int KEY_DIM = FOLDMAX_KEY_DIM;
constexpr int VALUE_DIM = FOLDMAX_VALUE_DIM;
constexpr int WIDEST = KEY_DIM > VALUE_DIM ? KEY_DIM : VALUE_DIM;

// Measured on an H200: narrow heads want more rows to hide exponentials behind products, and groups
// that take turns; wide ones want the registers.
constexpr int GROUPS = WIDEST <= 64 ? 3 : 2;
constexpr bool TURNS = WIDEST <= 64;
constexpr bool IS_LEAN = FORM < Form::SUMS; // others take registers too
constexpr int TILE = WIDEST > 192 ? (IS_LEAN ? 80 : 64) // keys
                     : WIDEST > 128 ? 112
                     : WIDEST > 64  ? 128
                                    : (FORM == Form::PRODUCTS ? 128 : 96);
constexpr int KEY_STAGES = WIDEST <= 64 ? 4 : WIDEST <= 128 ? 3 : 2; // products wait for keys first
constexpr int VALUE_STAGES = WIDEST <= 64 ? 4 : 2;
constexpr int PRODUCER_REGISTERS = WIDEST <= 64 ? 32 : 40;
constexpr int CONSUMER_REGISTERS = WIDEST <= 64 ? 160 : 232;
constexpr bool OWN_STAGING = WIDEST <= 128; // of results; else they take the place of queries

constexpr int BLOCK_ROWS = GROUPS * GROUP_ROWS;
constexpr int THREADS = (GROUPS + 1) * WARP_GROUP;
constexpr int PRODUCER_WARPS = WARP_GROUP / 32;
constexpr int ELEMENT = 2; // bytes
constexpr int QUERY_BYTES = GROUP_ROWS * KEY_DIM * ELEMENT; // of a group
constexpr int RESULT_BYTES = GROUP_ROWS * VALUE_DIM * ELEMENT;
constexpr int KEY_BYTES = TILE * KEY_DIM * ELEMENT;
constexpr int VALUE_BYTES = TILE * VALUE_DIM * ELEMENT;
constexpr int STAGED_BYTES = OWN_STAGING || VALUE_DIM <= KEY_DIM ? QUERY_BYTES : RESULT_BYTES;
constexpr int TILES_BYTES = GROUPS * STAGED_BYTES + KEY_STAGES * KEY_BYTES
                            + VALUE_STAGES * VALUE_BYTES
                            + (OWN_STAGING ? GROUPS * RESULT_BYTES : 0);

// In base 2; products of float16 do not reach it.
constexpr float FAR = 0x1p22f;
// Natural, of sums of Form::BOUNDED: under less, products with small values might vanish.
constexpr float LEAST_LOGARITHM = -14.0f;

// The repair's passes over a work: as usual, with natural scores for rows with huge ones, and to
// count what becomes NaN.
enum class Pass { FOLD, FAR_ROWS, COUNT };
__device__ __forceinline__ Pass after(Pass pass) {
  return pass == Pass::FOLD && !IS_NATURAL ? Pass::FAR_ROWS
         : pass != Pass::COUNT             ? Pass::COUNT
                                           : Pass::FOLD;
}

constexpr int NAMED_PRODUCERS = 1;
constexpr int NAMED_TURN = 2;    // one a group
constexpr int NAMED_STAGING = 8; // one a group

// One sequence, its works being block of rows by block, for each of its heads; names as in
// Sequence, numbers bounded to +-2^30, which leaves room for sums.
struct alignas(16) Span {
  int firstWork; // the next span's is one past the last
  int sequence;
  int queryBlock;
  int queryRow;
  int queries;
  int firstKey;
  int endKey;
  int keyBlock;
  int keyRow;
  int beginShift;
  int endShift;
  int prefix[2];
  int prefixShift[2];
  int alibiShift;
};

// A soft cap, for Form::CAPPED and Form::BOUNDED. Capped scores rise with dot products, so that the
// largest of those is the row's maximum, and a weight is exp2(dot * factor - m) with a factor that
// depends on the dot product's square: beside the square, a multiply-add for each coefficient is
// all that a cap costs. How many an element gets is its own matter; a warp whose elements are all
// near 0 takes the short way with all of them, and has the same bits.
struct Capping {
  float factor1; // of near ones: unit + factor1 square + factor2 square square
  float factor2;
  float nearest; // the largest |dot| that is near
  float ratio;   // scale / cap
  float cap;     // in base 2
};

// What the host adds to AttentionArguments.
struct Plan {
  TensorMap q;   // boxes of GROUP_ROWS rows
  TensorMap k;   // boxes of TILE rows
  TensorMap v;   // boxes of TILE rows
  TensorMap out; // boxes of GROUP_ROWS rows; unused where out is not of the compute type
  const Span* spans;    // (spanCount + 1), longest works first
  unsigned* counters;   // works taken, blocks finished
  unsigned char* flags; // (works, consumer warps): 1 where something is not finite
  int spanCount;
  int works;
  int headSpan;  // query heads whose keys and values stay in L2 together
  int queryRows; // of a block of out
  Capping capping;
};

// A work as producers and consumers read it from shared memory.
struct Work {
  Span span;
  int number; // of all works; -1 after the last
  int head;
  int keyHead;
  int firstQuery;
  int rows; // queries that exist; 1 to BLOCK_ROWS
  int firstTile;
  int endTile; // one past the last; firstTile where no row sees a key
  // Tiles from the one to, exclusively, the other lie in memory as matrices, with nothing in them,
  // or after them, but keys that are there and the tensor's end.
  int firstMatrix;
  int endMatrix;

  // Positions that a query sees; neither falls from query to query.
  __device__ __forceinline__ int begin(int query) const {
    return max(span.firstKey, query + span.beginShift);
  }
  __device__ __forceinline__ int end(int query) const {
    return min(min(span.endKey, query + span.endShift),
               min(max(span.prefix[0], query + span.prefixShift[0]),
                   max(span.prefix[1], query + span.prefixShift[1])));
  }
  // Queries past the last do as it does, and are not written.
  __device__ __forceinline__ int query(int row) const { return firstQuery + min(row, rows - 1); }
};

// Shared memory. It begins at a multiple of 1024 bytes, since the swizzle is one of addresses.
struct Shared {
  unsigned char tiles[TILES_BYTES]; // queries, keys, values, results
  uint64 queries[GROUPS][2];        // barriers: full, empty
  uint64 keys[2 * KEY_STAGES];
  uint64 values[2 * VALUE_STAGES];
  uint64 handover[4];
  Work works[2];
};
static_assert(sizeof(Shared) <= 227 * 1024, "what a block may have");
constexpr int QUERIES_AT = 0;
constexpr int KEYS_AT = QUERIES_AT + GROUPS * STAGED_BYTES;
constexpr int VALUES_AT = KEYS_AT + KEY_STAGES * KEY_BYTES;
constexpr int RESULTS_AT = OWN_STAGING ? VALUES_AT + VALUE_STAGES * VALUE_BYTES : QUERIES_AT;

extern __shared__ __align__(1024) unsigned char sharedBytes[];

__device__ __forceinline__ Shared& sharedMemory() {
  return *reinterpret_cast<Shared*>(sharedBytes);
}
__device__ __forceinline__ uint32 tilesAt(int offset) {
  return sharedAddress(sharedBytes) + offset;
}

// ---- producing ----

// Which work a number means: heads whose keys and values share L2 go together, and within them the
// last rows, which see most under a causal mask, first.
__device__ __forceinline__ void describe(const AttentionArguments& a, const Plan& plan, int number,
                                         Work& w) {
  int low = 0;
  for (int high = plan.spanCount; high - low > 1;) {
    const int middle = (low + high) / 2;
    if (plan.spans[middle].firstWork <= number) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const uint4* from = reinterpret_cast<const uint4*>(plan.spans + low);
#pragma unroll
  for (int i = 0; i < sizeof(Span) / 16; i++) reinterpret_cast<uint4*>(&w.span)[i] = from[i];
  const int blocks = (w.span.queries + BLOCK_ROWS - 1) / BLOCK_ROWS;
  const int inSpan = number - w.span.firstWork;
  const int section = inSpan / (blocks * plan.headSpan);
  const int inSection = inSpan - section * blocks * plan.headSpan;
  const int heads = min(plan.headSpan, a.queryHeads - section * plan.headSpan);
  const int step = inSection / heads;
  w.number = number;
  w.head = section * plan.headSpan + inSection - step * heads;
  w.keyHead = w.head / (a.queryHeads / a.keyHeads);
  w.firstQuery = (blocks - 1 - step) * BLOCK_ROWS;
  w.rows = min(BLOCK_ROWS, w.span.queries - w.firstQuery);
  // All rows together see one interval, since neither of its ends falls from row to row.
  const int begin = w.begin(w.firstQuery);
  const int end = w.end(w.firstQuery + w.rows - 1);
  w.firstTile = begin / TILE;
  w.endTile = begin < end ? (end + TILE - 1) / TILE : w.firstTile;
  const bool isStraight = a.layout == Layout::STRAIGHT;
  const bool endsTensor = w.span.keyRow + w.span.endKey == a.rows;
  w.firstMatrix = isStraight ? (w.span.firstKey + TILE - 1) / TILE : w.endTile;
  w.endMatrix = isStraight && endsTensor ? w.endTile : w.span.endKey / TILE;
}

// What the repair does with values: see the header.
enum class Values { AS_THEY_ARE, FINITE_ONLY, NON_FINITE };

// Replaces 16-bit elements by themselves or 0, or by 0 or 1.
template <Values VALUES> __device__ __forceinline__ uint32 filtered(uint32 pair) {
  constexpr uint32 ONE = TYPE == Type::F16 ? 0x3c00u : 0x3f80u;
  const bool low = isNonFinite16<TYPE>(pair);
  const bool high = isNonFinite16<TYPE>(pair >> 16);
  if (VALUES == Values::FINITE_ONLY) {
    return pair & ((low ? 0u : 0xffffu) | (high ? 0u : 0xffff0000u));
  }
  return (low ? ONE : 0u) | (high ? ONE << 16 : 0u);
}

// A tile of DIM columns row by row, with zeros for rows that are not there and columns past `dim`.
// All producers call it.
template <int DIM, Values VALUES>
__device__ __forceinline__ void gather(const AttentionArguments& a, const Matrix& m, int dim,
                                       const Work& w, int tile, uint32 shared) {
  constexpr int ROWS = TILE / PRODUCER_WARPS; // a warp
  constexpr int CHUNKS = DIM / 8;
  static_assert(ROWS <= 32 && ROWS * CHUNKS % 32 == 0, "lanes find a row each, and move together");
  const int lane = threadIdx.x & 31;
  const int firstRow = (threadIdx.x >> 5) * ROWS;
  const int position = tile * TILE + firstRow + lane;
  const unsigned char* mine = nullptr;
  if (lane < ROWS && position >= w.span.firstKey && position < w.span.endKey) {
    Place place = {w.span.keyBlock, w.span.keyRow + position};
    if (a.layout != Layout::STRAIGHT) {
      const uint32 rows = static_cast<uint32>(a.rows);
      const uint32 page = position / rows;
      place.row = position - page * rows;
      if (a.layout == Layout::PAGED) {
        place.block = __ldg(a.table + w.span.sequence * a.tableStride + page);
      }
    }
    mine = m.data + elementOf(m, place, w.keyHead) * ELEMENT;
  }
#pragma unroll 1
  for (int i = lane; i < ROWS * CHUNKS; i += 32) {
    const int row = i / CHUNKS;
    const int chunk = i % CHUNKS;
    const unsigned char* from = reinterpret_cast<const unsigned char*>(
        __shfl_sync(~0u, reinterpret_cast<uint64>(mine), row));
    const int bytes = from == nullptr ? 0 : max(0, min(16, (dim - chunk * 8) * ELEMENT));
    const uint32 to = shared + chunkOffset(TILE, firstRow + row, chunk);
    if (VALUES == Values::AS_THEY_ARE) {
      copyChunk(to, bytes == 0 ? m.data : from + chunk * 16, bytes);
    } else {
      uint4 x = make_uint4(0, 0, 0, 0);
      if (bytes > 0) {
        x = load16(from + chunk * 16);
        uint32* words = &x.x;
#pragma unroll
        for (int j = 0; j < 4; j++) { // pads of a row may hold anything
          const int left = bytes - 4 * j;
          const uint32 kept = left >= 4 ? words[j] : left == 2 ? words[j] & 0xffffu : 0u;
          words[j] = filtered<VALUES>(kept);
        }
      }
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x.x), "r"(x.y),
                   "r"(x.z), "r"(x.w)
                   : "memory");
    }
  }
  if (VALUES == Values::AS_THEY_ARE) {
    copyChunksDone();
  }
  fenceShared();
}

// The producer's hand on one of the two rings of tiles. All producers call its functions.
template <int DIM, int STAGES> struct Feed {
  const Matrix& matrix;
  const TensorMap* map;
  int dim;
  uint32 tiles;
  Ring<STAGES> ring;

  __device__ __forceinline__ uint32 stage() const {
    return tiles + ring.stage() * (TILE * DIM * ELEMENT);
  }

  // Brings a tile that is a matrix into the next stage once it is empty.
  __device__ __forceinline__ void bringMatrix(Box box, bool leads) {
    if (leads) {
      ring.waitEmpty();
      copyTileIn<DIM>(stage(), map, dim, TILE, box, ring.full());
    }
    ring.next();
  }

  // Brings any tile.
  template <Values VALUES>
  __device__ __forceinline__ void bring(const AttentionArguments& a, const Work& w, int tile,
                                        bool leads) {
    if (VALUES == Values::AS_THEY_ARE && tile >= w.firstMatrix && tile < w.endMatrix) {
      bringMatrix({w.span.keyRow + tile * TILE, w.keyHead, w.span.keyBlock}, leads);
      return;
    }
    if (leads) {
      ring.waitEmpty();
    }
    __syncwarp();
    namedSync(NAMED_PRODUCERS, WARP_GROUP);
    gather<DIM, VALUES>(a, matrix, dim, w, tile, stage());
    namedSync(NAMED_PRODUCERS, WARP_GROUP);
    if (leads) {
      ring.full().arrive();
    }
    ring.next();
  }
};

typedef Feed<KEY_DIM, KEY_STAGES> KeyFeed;
typedef Feed<VALUE_DIM, VALUE_STAGES> ValueFeed;

// Where a group's queries and results lie.
__device__ __forceinline__ Box queryBox(const Work& w, int group) {
  return {w.span.queryRow + w.firstQuery + group * GROUP_ROWS, w.head, w.span.queryBlock};
}

// All tiles of a work, in the consumers' order, with its queries.
template <Values VALUES>
__device__ __forceinline__ void bringAll(const AttentionArguments& a, const Plan& plan,
                                         const Work& w, KeyFeed& keys, ValueFeed& values,
                                         uint32 queryParity, bool leads) {
  Shared& shared = sharedMemory();
#pragma unroll
  for (int group = 0; group < GROUPS; group++) {
    if (leads) {
      Barrier{sharedAddress(&shared.queries[group][1])}.wait(queryParity);
      copyTileIn<KEY_DIM>(tilesAt(QUERIES_AT) + group * STAGED_BYTES, &plan.q, a.keyDim, GROUP_ROWS,
                          queryBox(w, group), Barrier{sharedAddress(&shared.queries[group][0])});
    }
    if (group == 0) { // the first product needs no more than this
      keys.template bring<Values::AS_THEY_ARE>(a, w, w.endTile - 1, leads);
    }
  }
  const int head = w.keyHead;
  const int block = w.span.keyBlock;
  const int firstMatrix = max(w.firstTile, w.firstMatrix);
  const int endMatrix = VALUES == Values::AS_THEY_ARE ? w.endMatrix : 0;
  int tile = w.endTile - 1;
  while (tile > w.firstTile) {
    if (tile > firstMatrix && tile < endMatrix) {
      // The common case, without a glance at memory: copies have little time to spare.
      int row = w.span.keyRow + tile * TILE;
#pragma unroll 1
      do {
        keys.bringMatrix({row - TILE, head, block}, leads);
        values.bringMatrix({row, head, block}, leads);
        row -= TILE;
      } while (--tile > firstMatrix);
    } else {
      keys.template bring<Values::AS_THEY_ARE>(a, w, tile - 1, leads);
      values.template bring<VALUES>(a, w, tile, leads);
      tile--;
    }
  }
  values.template bring<VALUES>(a, w, w.firstTile, leads);
}

// Whether the results of a work were finite.
__device__ __forceinline__ bool isFinite(const Plan& plan, int number) {
  uint32 any = 0;
#pragma unroll
  for (int group = 0; group < GROUPS; group++) { // whose four warps' flags are a word
    any |= reinterpret_cast<const uint32*>(plan.flags)[number * GROUPS + group];
  }
  return any == 0;
}

__device__ __forceinline__ void produce(const AttentionArguments& a, const Plan& plan) {
  Shared& shared = sharedMemory();
  const bool leads = threadIdx.x == 0;
  const bool inFirstWarp = threadIdx.x < 32;
  KeyFeed keys{a.k, &plan.k, a.keyDim, tilesAt(KEYS_AT), {sharedAddress(shared.keys), 1}};
  ValueFeed values{a.v, &plan.v, a.valueDim, tilesAt(VALUES_AT),
                   {sharedAddress(shared.values), 1}};
  Ring<2> handover(sharedAddress(shared.handover), inFirstWarp ? 1 : 0);
  uint32 queryParity = 1;
  int number = blockIdx.x;
  while (true) {
    Work& w = shared.works[handover.stage()];
    if (inFirstWarp) {
      if (leads) {
        handover.waitEmpty();
        while (REPAIR && number < plan.works && isFinite(plan, number)) {
          number += gridDim.x;
        }
        if (number < plan.works) {
          describe(a, plan, number, w);
        } else {
          w.number = -1;
        }
        handover.full().arrive();
      }
      __syncwarp();
    } else {
      handover.waitFull();
    }
    if (w.number < 0) {
      break;
    }
    if (w.firstTile < w.endTile) {
      if (REPAIR) {
        for (Pass pass = Pass::FOLD; pass != Pass::COUNT; pass = after(pass)) {
          bringAll<Values::FINITE_ONLY>(a, plan, w, keys, values, queryParity, leads);
          queryParity ^= 1;
        }
        bringAll<Values::NON_FINITE>(a, plan, w, keys, values, queryParity, leads);
      } else {
        bringAll<Values::AS_THEY_ARE>(a, plan, w, keys, values, queryParity, leads);
      }
      queryParity ^= 1;
    }
    __syncwarp();
    if (!inFirstWarp && (threadIdx.x & 31) == 0) {
      handover.empty().arrive();
    }
    handover.next();
    if (leads) {
      number = REPAIR ? number + gridDim.x : gridDim.x + atomicAdd(plan.counters, 1);
    }
  }
  if (!REPAIR && leads && atomicAdd(plan.counters + 1, 1) == gridDim.x - 1) {
    plan.counters[0] = 0;
    plan.counters[1] = 0;
  }
}

// ---- consuming ----

// Where a thread stands in a product's result, see hopper.cuh: rows `row` and `row + 8` of the
// work, columns from `firstColumn` on.
struct Rows {
  int row;
  int firstColumn;
  int everyBegin; // what all rows of the group see; nothing where there are masks
  int everyEnd;
  int firstOfGroup; // query
  float slope;      // ALiBi's, in the unit of scores

  __device__ __forceinline__ Rows(const AttentionArguments& a, const Work& w, int group) {
    const int lane = threadIdx.x & 31;
    row = group * GROUP_ROWS + ((threadIdx.x >> 5) & 3) * 16 + (lane >> 2);
    firstColumn = 2 * (lane & 3);
    firstOfGroup = w.query(group * GROUP_ROWS);
    everyBegin = w.begin(w.query((group + 1) * GROUP_ROWS - 1));
    everyEnd = w.end(firstOfGroup);
    if (a.maskCount > 0) {
      everyEnd = min(everyBegin, everyEnd);
    }
    slope = slopeOf(a, w.span.sequence, w.head) * NATURAL_UNIT;
  }
};

// Element 4 i + 2 r + c of a result is column 8 i + c (and the thread's first) of row r.
constexpr int SCORES_HELD = TILE / 2;
constexpr int OUTPUTS_HELD = VALUE_DIM / 2;

// The bias of a thread's columns of row r, 0 where the row does not see.
__device__ __forceinline__ void loadBias(const AttentionArguments& a, const Work& w,
                                         const Rows& rows, int r, int tileColumn,
                                         float (&bias)[SCORES_HELD / 2]) {
  const Broadcast& b = a.bias;
  const int query = w.query(rows.row + 8 * r);
  const int begin = w.begin(query);
  const int end = w.end(query);
  int64 element = w.span.sequence * b.sequence + w.head * b.head + query * b.query
                  + (tileColumn - w.span.firstKey) * b.key;
#pragma unroll 1
  for (int i = 0; i < SCORES_HELD / 2; i += 2) {
    const int column = tileColumn + i * 4;
    bias[i] = column >= begin && column < end ? load(b.data, b.type, element) : 0.0f;
    bias[i + 1] =
        column + 1 >= begin && column + 1 < end ? load(b.data, b.type, element + b.key) : 0.0f;
    element += 8 * b.key;
  }
}

__device__ __forceinline__ float nearFactor(const Capping& capping, float unit, float dot) {
  const float square = dot * dot;
  return fmaf(fmaf(capping.factor2, square, capping.factor1), square, unit);
}

// The capped score minus `shift`, of any dot product but a hidden one's. Without branches: all are
// computed, and the one that holds is taken.
__device__ __forceinline__ float cappedExponent(const Capping& capping, float unit, float dot,
                                                float shift) {
  const float y = dot * capping.ratio;
  const float near = nearFactor(capping, unit, dot);
  const float series = unit * tanhRatio(y * y);
  const float beyond = tanhBeyond(y);
  const bool isBeyond = fabsf(y) > TANH_SERIES;
  const float factor = fabsf(dot) <= capping.nearest ? near : series;
  return fmaf(isBeyond ? capping.cap : dot, isBeyond ? beyond : factor, -shift);
}

// A visible dot product of -inf is capped like others; hidden ones become -inf after this.
__device__ __forceinline__ void liftInfinities(float (&s)[SCORES_HELD]) {
  constexpr float LOWEST = -0x1.fffffep127f;
#pragma unroll
  for (int i = 0; i < SCORES_HELD; i++) s[i] = s[i] == EMPTY ? LOWEST : s[i];
}

// Form::SLOPED: dot products to base-2 scores, of row r minus offsets[r]. Where all of a tile lies
// before a row's own position, the distance to its last key is the row's offset, and what is left
// of ALiBi is one number for each column, whatever the row.
__device__ __forceinline__ void slope(const Work& w, const Rows& rows, float unit, int tile,
                                      float (&s)[SCORES_HELD], float (&offsets)[2]) {
  constexpr int LAST = TILE - 1;
  const int shift = w.span.alibiShift - tile * TILE;
  const float first = rows.slope * (rows.firstColumn - LAST);
  const float second = rows.slope * (rows.firstColumn + 1 - LAST);
  const auto columnTerm = [&](int i) {
    return fmaf(rows.slope, static_cast<float>(i / 4 * 8), i % 2 == 0 ? first : second);
  };
  int distances[2]; // from the tile's first column
#pragma unroll
  for (int r = 0; r < 2; r++) {
    distances[r] = w.query(rows.row + 8 * r) + shift;
    offsets[r] =
        distances[r] >= LAST ? -rows.slope * static_cast<float>(distances[r] - LAST) : 0.0f;
  }
  if (rows.firstOfGroup + shift >= LAST) {
#pragma unroll
    for (int i = 0; i < SCORES_HELD; i++) s[i] = fmaf(s[i], unit, columnTerm(i));
  } else {
#pragma unroll
    for (int i = 0; i < SCORES_HELD; i++) {
      const int distance = distances[i / 2 % 2];
      const float plain =
          -rows.slope
          * fabsf(static_cast<float>(distance - rows.firstColumn) - (i / 4 * 8 + i % 2));
      s[i] = fmaf(s[i], unit, distance >= LAST ? columnTerm(i) : plain);
    }
  }
}

// Dot products to general scores.
template <bool NATURAL>
__device__ __forceinline__ void toGeneral(const AttentionArguments& a, const Work& w,
                                          const Rows& rows, int tile, float (&s)[SCORES_HELD]) {
  const float unit = NATURAL ? a.scale : a.scale * LOG2_E;
  const int tileColumn = tile * TILE + rows.firstColumn;
  if (a.softCap != 0.0f) {
    const float cap = NATURAL ? a.softCap : a.softCap * LOG2_E;
    const float inverse = 1.0f / cap;
#pragma unroll
    for (int i = 0; i < SCORES_HELD; i++) s[i] = cappedNearly(s[i] * unit, cap, inverse);
  } else {
#pragma unroll
    for (int i = 0; i < SCORES_HELD; i++) s[i] *= unit;
  }
  if (FORM == Form::BIASED) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float bias[SCORES_HELD / 2]; // in local memory, on purpose: products fill the registers
      loadBias(a, w, rows, r, tileColumn, bias);
#pragma unroll
      for (int i = 0; i < SCORES_HELD / 2; i++) {
        const int at = i / 2 * 4 + 2 * r + i % 2;
        s[at] = biased(s[at], bias[i]);
      }
    }
  }
  if (a.slope.data != nullptr) {
    const float slope = NATURAL && !IS_NATURAL ? rows.slope * LN_2 : rows.slope;
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const float distance =
          static_cast<float>(w.query(rows.row + 8 * r) + w.span.alibiShift - tileColumn);
#pragma unroll
      for (int i = 0; i < SCORES_HELD / 2; i++) {
        const int at = i / 2 * 4 + 2 * r + i % 2;
        s[at] = fmaf(-slope, fabsf(distance - (i / 2 * 8 + i % 2)), s[at]);
      }
    }
  }
}

// What boolean masks say of a thread's columns of row r, a bit each in the order of its registers.
// A loop of few registers, since the products' results fill them.
__device__ __forceinline__ uint32 shownBits(const AttentionArguments& a, const Work& w,
                                            const Rows& rows, int r, int tileColumn) {
  static_assert(SCORES_HELD / 2 <= 32, "bits of a word");
  const int query = w.query(rows.row + 8 * r);
  const int begin = w.begin(query);
  const int end = w.end(query);
  uint32 shown = ~0u;
#pragma unroll 1
  for (int m = 0; m < a.maskCount; m++) {
    const Broadcast& b = a.masks[m];
    const unsigned char* data = b.data + w.span.sequence * b.sequence + w.head * b.head
                                + query * b.query + (tileColumn - w.span.firstKey) * b.key;
#pragma unroll 2
    for (int i = 0; i < SCORES_HELD / 2; i++) {
      const int column = tileColumn + i / 2 * 8 + i % 2;
      if (column >= begin && column < end && __ldg(data) == 0) {
        shown &= ~(1u << i);
      }
      data += (i % 2 == 0 ? 1 : 7) * b.key;
    }
  }
  return shown;
}

// Scores of keys that a row does not see become -inf, whatever they were.
__device__ __forceinline__ void hide(const AttentionArguments& a, const Work& w, const Rows& rows,
                                     int tile, float (&s)[SCORES_HELD]) {
  const int tileColumn = tile * TILE + rows.firstColumn;
  if (a.maskCount > 0) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const uint32 shown = shownBits(a, w, rows, r, tileColumn);
#pragma unroll
      for (int i = 0; i < SCORES_HELD / 2; i++) {
        const int at = i / 2 * 4 + 2 * r + i % 2;
        s[at] = shown >> i & 1 ? s[at] : EMPTY;
      }
    }
  }
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int first = half * (SCORES_HELD / 4); // of a row's scores
    const int left = tile * TILE + half * (TILE / 2);
    if (left + TILE / 2 > rows.everyEnd) {
#pragma unroll
      for (int r = 0; r < 2; r++) {
        const int end = w.end(w.query(rows.row + 8 * r)) - tileColumn;
#pragma unroll
        for (int i = first; i < first + SCORES_HELD / 4; i++) {
          const int at = i / 2 * 4 + 2 * r + i % 2;
          s[at] = i / 2 * 8 + i % 2 < end ? s[at] : EMPTY;
        }
      }
    }
    if (left < rows.everyBegin) {
#pragma unroll
      for (int r = 0; r < 2; r++) {
        const int begin = w.begin(w.query(rows.row + 8 * r)) - tileColumn;
#pragma unroll
        for (int i = first; i < first + SCORES_HELD / 4; i++) {
          const int at = i / 2 * 4 + 2 * r + i % 2;
          s[at] = i / 2 * 8 + i % 2 >= begin ? s[at] : EMPTY;
        }
      }
    }
  }
}

// m and l of a thread's two rows; its four neighbours hold the same m, and each the sum over its
// own columns.
struct State {
  float m[2];
  float l[2];
};

// The largest score of a row's, of the whole tile.
__device__ __forceinline__ float largestOf(const float (&s)[SCORES_HELD], int r) {
  float even = s[2 * r];
  float odd = s[2 * r + 1];
#pragma unroll
  for (int i = 4; i < SCORES_HELD; i += 4) {
    even = fmaxf(even, s[i + 2 * r]);
    odd = fmaxf(odd, s[i + 2 * r + 1]);
  }
  float largest = fmaxf(even, odd);
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
  return fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
}

// Takes a row's new maximum, and gives the correction to it.
template <bool NATURAL>
__device__ __forceinline__ float advance(State& state, int r, float tileMaximum) {
  const float before = state.m[r];
  const float m = fmaxf(before, tileMaximum);
  state.m[r] = m;
  // Not correctionOf: a maximum of +inf has made the row NaN already, and its test costs 2..4%.
  return NATURAL ? exp2Fast((before - shift(m)) * LOG2_E) : correction(before, m);
}

// Scores become weights by `weightOf`, which is given row and score, and join l.
template <typename WEIGHT>
__device__ __forceinline__ void weighBy(State& state, float (&s)[SCORES_HELD],
                                        const float (&c)[2], WEIGHT weightOf) {
  float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < SCORES_HELD; i++) {
    s[i] = weightOf(i / 2 % 2, s[i]);
    sums[i % 4] += s[i];
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    state.l[r] = fmaf(state.l[r], c[r], sums[2 * r] + sums[2 * r + 1]);
  }
}

// Turns a tile's scores into weights; c is what O must be multiplied by before it takes them.
template <bool NATURAL>
__device__ __forceinline__ void weigh(float unit, const float (&offsets)[2], State& state,
                                      float (&s)[SCORES_HELD], float (&c)[2]) {
  constexpr bool AS_PRODUCTS = FORM == Form::PRODUCTS && !NATURAL;
  float shifts[2];
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const float largest = largestOf(s, r);
    c[r] = advance<NATURAL>(state, r, AS_PRODUCTS ? largest * unit : largest + offsets[r]);
    shifts[r] = shift(state.m[r]) - offsets[r];
  }
  weighBy(state, s, c, [&](int r, float score) {
    return exp2Fast(AS_PRODUCTS ? fmaf(score, unit, -shifts[r])
                    : NATURAL   ? (score - shifts[r]) * LOG2_E
                                : score - shifts[r]);
  });
}

// Whether all of a warp's are near.
__device__ __forceinline__ bool areNear(const Capping& capping, const float (&s)[SCORES_HELD]) {
  float reach = 0.0f;
#pragma unroll
  for (int i = 0; i < SCORES_HELD; i++) reach = fmaxf(reach, fabsf(s[i]));
  return __all_sync(~0u, reach <= capping.nearest);
}

// As weigh, for Form::BOUNDED. Where anything is hidden, -inf is that and no dot product.
template <bool HIDES>
__device__ __forceinline__ void weighBounded(const Capping& capping, float unit, bool isNear,
                                             State& state, float (&s)[SCORES_HELD],
                                             float (&c)[2]) {
  c[0] = c[1] = 1.0f;
  state.m[0] = state.m[1] = 0.0f;
  if (isNear) { // a hidden -inf has a factor of +inf, and weight 0
    weighBy(state, s, c, [&](int, float dot) {
      return exp2Fast(dot * nearFactor(capping, unit, dot));
    });
  } else {
    weighBy(state, s, c, [&](int, float dot) {
      const float x = cappedExponent(capping, unit, dot, 0.0f);
      return exp2Fast(HIDES && dot == EMPTY ? EMPTY : x);
    });
  }
}

// The same for Form::CAPPED.
template <bool HIDES>
__device__ __forceinline__ void weighCapped(const Capping& capping, float unit, bool isNear,
                                            State& state, float (&s)[SCORES_HELD],
                                            float (&c)[2]) {
  const float largest[2] = {largestOf(s, 0), largestOf(s, 1)};
  float shifts[2];
  if (isNear) { // a hidden -inf has a factor of +inf, and weight 0
#pragma unroll
    for (int r = 0; r < 2; r++) {
      c[r] = advance<false>(state, r, largest[r] * nearFactor(capping, unit, largest[r]));
      shifts[r] = shift(state.m[r]);
    }
    weighBy(state, s, c, [&](int r, float dot) {
      return exp2Fast(fmaf(dot, nearFactor(capping, unit, dot), -shifts[r]));
    });
  } else {
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const float capped = cappedExponent(capping, unit, largest[r], 0.0f);
      c[r] = advance<false>(state, r, HIDES && largest[r] == EMPTY ? EMPTY : capped);
      shifts[r] = shift(state.m[r]);
    }
    weighBy(state, s, c, [&](int r, float dot) {
      const float x = cappedExponent(capping, unit, dot, shifts[r]);
      return exp2Fast(HIDES && dot == EMPTY ? EMPTY : x);
    });
  }
}

// Pass::COUNT: 1 for every score above -inf.
__device__ __forceinline__ void countSeen(float (&s)[SCORES_HELD]) {
#pragma unroll
  for (int i = 0; i < SCORES_HELD; i++) {
    s[i] = s[i] > EMPTY ? 1.0f : 0.0f;
  }
}

// Writes a thread's chosen rows of O straight from registers.
template <typename STORE>
__device__ __forceinline__ void eachOutput(const AttentionArguments& a, const Work& w,
                                           const Rows& rows, const bool (&chosen)[2],
                                           STORE store) {
#pragma unroll
  for (int r = 0; r < 2; r++) {
    if (chosen[r]) {
      const Place place = {w.span.queryBlock, w.span.queryRow + w.firstQuery + rows.row + 8 * r};
      const int64 first = elementOf(a.out, place, w.head) + rows.firstColumn;
#pragma unroll
      for (int i = 0; i < OUTPUTS_HELD / 4; i++) {
        store(first + 8 * i, 4 * i + 2 * r, a.valueDim - rows.firstColumn - 8 * i);
      }
    }
  }
}

__device__ __forceinline__ void writeDirectly(const AttentionArguments& a, const Work& w,
                                              const Rows& rows, const bool (&chosen)[2],
                                              const float (&o)[OUTPUTS_HELD]) {
  unsigned char* data = a.out.data;
  if (a.out.type == TYPE) {
    eachOutput(a, w, rows, chosen, [&](int64 element, int at, int left) {
      const uint32 pair = packed(o[at], o[at + 1]);
      if (left > 1) {
        *reinterpret_cast<uint32*>(data + element * ELEMENT) = pair;
      } else if (left == 1) {
        *reinterpret_cast<unsigned short*>(data + element * ELEMENT) = pair;
      }
    });
  } else {
    const Type type = a.out.type;
    eachOutput(a, w, rows, chosen, [&](int64 element, int at, int left) {
      if (left > 0) store(data, type, element, o[at]);
      if (left > 1) store(data, type, element + 1, o[at + 1]);
    });
  }
}

// The repair's last step: NaN where the last pass counted anything.
__device__ __forceinline__ void writeNaNs(const AttentionArguments& a, const Work& w,
                                          const Rows& rows, const bool (&chosen)[2],
                                          const float (&o)[OUTPUTS_HELD]) {
  const float nan = __int_as_float(0x7fffffff);
  eachOutput(a, w, rows, chosen, [&](int64 element, int at, int left) {
    if (left > 0 && o[at] > 0.0f) store(a.out.data, a.out.type, element, nan);
    if (left > 1 && o[at + 1] > 0.0f) store(a.out.data, a.out.type, element + 1, nan);
  });
}

// A consumer's hands: its rings, its place in shared memory, its registers' fixed parts.
struct Consumer {
  const AttentionArguments& a;
  const Plan& plan;
  int group;
  float unit;
  uint32 queries; // low halves of descriptors
  uint32 firstKeys;
  uint32 firstValues;
  uint32 staging;
  Ring<KEY_STAGES> keys;
  Ring<VALUE_STAGES> values;
  uint32 queryParity;
  Pass pass;      // of the repair; else FOLD
  bool failed[2]; // rows that its FOLD left without a finite result

  __device__ __forceinline__ Consumer(const AttentionArguments& a, const Plan& plan, int group)
      : a(a), plan(plan), group(group), unit(a.scale * LOG2_E),
        queries(kept(alongRows(tilesAt(QUERIES_AT) + group * STAGED_BYTES))),
        firstKeys(kept(alongRows(tilesAt(KEYS_AT)))),
        firstValues(kept(acrossRows(tilesAt(VALUES_AT), TILE))),
        staging(tilesAt(RESULTS_AT) + group * (OWN_STAGING ? RESULT_BYTES : STAGED_BYTES)),
        keys(sharedAddress(sharedMemory().keys), 0),
        values(sharedAddress(sharedMemory().values), 0), queryParity(0), pass(Pass::FOLD),
        failed{false, false} {}

  // The same for the whole warp. The shuffle says so to the compiler, and keeps it from computing a
  // constant anew for each product, which made products wait for each other.
  static __device__ __forceinline__ uint32 kept(uint32 x) { return __shfl_sync(~0u, x, 0); }

  __device__ __forceinline__ void keepRings() {
    keys.steps = kept(keys.steps);
    values.steps = kept(values.steps);
  }

  __device__ __forceinline__ bool leadsWarp() const { return (threadIdx.x & 31) == 0; }
  __device__ __forceinline__ bool leadsGroup() const { return threadIdx.x % WARP_GROUP == 0; }
  __device__ __forceinline__ Barrier queriesFull() const {
    return Barrier{sharedAddress(&sharedMemory().queries[group][0])};
  }
  __device__ __forceinline__ Barrier queriesEmpty() const {
    return Barrier{sharedAddress(&sharedMemory().queries[group][1])};
  }

  // S = Q K', of the current stage of keys.
  __device__ __forceinline__ void beginScores(float (&s)[SCORES_HELD]) const {
    const uint32 tile = firstKeys + keys.stage() * (KEY_BYTES / 16);
    productsBegin();
#pragma unroll
    for (int i = 0; i < KEY_DIM / 16; i++) {
      const int inPanel = i % 4 * 2;
      multiplyRows<TILE>(s, descriptor(queries + i / 4 * (GROUP_ROWS * PANEL_ROW / 16) + inPanel),
                         descriptor(tile + i / 4 * (TILE * PANEL_ROW / 16) + inPanel), i > 0);
    }
    productsCommit();
  }

  // O += P V, of the current stage of values.
  __device__ __forceinline__ void beginOutput(float (&o)[OUTPUTS_HELD],
                                              const uint32 (&p)[SCORES_HELD / 2]) const {
    const uint32 tile = firstValues + values.stage() * (VALUE_BYTES / 16);
    productsBegin();
#pragma unroll
    for (int i = 0; i < TILE / 16; i++) {
      multiplyAcross<VALUE_DIM>(o, p[4 * i], p[4 * i + 1], p[4 * i + 2], p[4 * i + 3],
                                descriptor(tile + i * (16 * PANEL_ROW / 16)));
    }
    productsCommit();
  }

  template <int N> __device__ __forceinline__ void release(Ring<N>& ring) const {
    __syncwarp();
    if (leadsWarp()) {
      ring.empty().arrive();
    }
    ring.next();
  }

  // Groups issue their products one after the other, so that while one weighs, another multiplies.
  __device__ __forceinline__ void takeTurn() const {
    if (TURNS) {
      namedSync(NAMED_TURN + group, 2 * WARP_GROUP);
    }
  }
  __device__ __forceinline__ void passTurn() const {
    if (TURNS) {
      namedArrive(NAMED_TURN + (group + 1) % GROUPS, 2 * WARP_GROUP);
    }
  }

  __device__ __forceinline__ bool isIn(Pass which) const {
    return REPAIR ? pass == which : which == Pass::FOLD;
  }

  // From dot products to weights. HIDES where a row may not see all of the tile.
  template <bool HIDES>
  __device__ __forceinline__ void toWeights(const Work& w, const Rows& rows, int tile, State& state,
                                            float (&s)[SCORES_HELD], float (&c)[2]) const {
    float offsets[2] = {0.0f, 0.0f};
    bool isNear = true; // capped
    if (IS_NATURAL || isIn(Pass::FAR_ROWS)) {
      toGeneral<true>(a, w, rows, tile, s);
    } else if (FORM == Form::SUMS) {
      toGeneral<false>(a, w, rows, tile, s);
    } else if (FORM == Form::SLOPED) {
      slope(w, rows, unit, tile, s, offsets);
    } else if (IS_CAPPED) {
      isNear = areNear(plan.capping, s);
      if (!isNear && (HIDES || isIn(Pass::COUNT))) {
        liftInfinities(s);
      }
    }
    if (HIDES) {
      hide(a, w, rows, tile, s);
    }
    if (isIn(Pass::COUNT)) {
      countSeen(s);
      c[0] = c[1] = 1.0f;
    } else if (IS_NATURAL || isIn(Pass::FAR_ROWS)) {
      weigh<true>(unit, offsets, state, s, c);
    } else if (IS_BOUNDED) {
      weighBounded<HIDES>(plan.capping, unit, isNear, state, s, c);
    } else if (IS_CAPPED) {
      weighCapped<HIDES>(plan.capping, unit, isNear, state, s, c);
    } else {
      weigh<false>(unit, offsets, state, s, c);
    }
  }

  // After a group's last product with queries. Where results take their place, they are kept.
  __device__ __forceinline__ void releaseQueries() const {
    if (OWN_STAGING && leadsWarp()) {
      queriesEmpty().arrive();
    }
  }

  static __device__ __forceinline__ void pack(const float (&s)[SCORES_HELD],
                                              uint32 (&p)[SCORES_HELD / 2]) {
#pragma unroll
    for (int i = 0; i < SCORES_HELD / 2; i++) p[i] = packed(s[2 * i], s[2 * i + 1]);
  }

  // One tile of keys, and the values of the tile before, whose weights are p.
  template <bool HIDES>
  __device__ __forceinline__ void step(const Work& w, const Rows& rows, int tile, bool isLast,
                                       State& state, float (&s)[SCORES_HELD],
                                       uint32 (&p)[SCORES_HELD / 2], float (&o)[OUTPUTS_HELD]) {
    float c[2];
    keys.waitFull();
    takeTurn();
    beginScores(s);
    values.waitFull();
    beginOutput(o, p);
    passTurn();
    productsWait<1>();
    settle(s);
    release(keys);
    if (isLast) {
      releaseQueries();
    }
    toWeights<HIDES>(w, rows, tile, state, s, c);
    productsWait<0>();
    settle(o);
    release(values);
    pack(s, p);
    if (!IS_BOUNDED || isIn(Pass::FAR_ROWS)) {
#pragma unroll
      for (int i = 0; i < OUTPUTS_HELD; i++) o[i] *= c[i / 2 % 2];
    }
  }

  // Passes by a tile that no row of the group sees.
  __device__ __forceinline__ void skipTile() {
    keys.waitFull();
    takeTurn();
    passTurn();
    release(keys);
    values.waitFull();
    release(values);
  }

  // The whole fold over the tiles of a work.
  __device__ __forceinline__ void fold(const Work& w, const Rows& rows, State& state,
                                       float (&o)[OUTPUTS_HELD]) {
    // Rows of the group together see one interval, as those of the work do.
    const int begin = w.begin(w.query(group * GROUP_ROWS));
    const int end = w.end(w.query(group * GROUP_ROWS + GROUP_ROWS - 1));
    const bool isEmpty = begin >= end || group * GROUP_ROWS >= w.rows;
    const int firstTile = isEmpty ? w.endTile : begin / TILE;
    const int endTile = isEmpty ? w.endTile : (end + TILE - 1) / TILE;
    queriesFull().wait(queryParity);
    queryParity ^= 1;
    for (int tile = w.endTile; tile > endTile; tile--) skipTile();
    if (firstTile < endTile) {
      foldSeen(w, rows, firstTile, endTile, state, o);
    } else {
      releaseQueries();
    }
    for (int tile = firstTile; tile > w.firstTile; tile--) skipTile();
  }

  __device__ __forceinline__ void foldSeen(const Work& w, const Rows& rows, int firstTile,
                                           int endTile, State& state, float (&o)[OUTPUTS_HELD]) {
    float s[SCORES_HELD];
    uint32 p[SCORES_HELD / 2];
    float c[2];
    keepRings();
    keys.waitFull();
    takeTurn();
    beginScores(s);
    passTurn();
    productsWait<0>();
    settle(s);
    release(keys);
    if (firstTile == endTile - 1) {
      releaseQueries();
    }
    toWeights<true>(w, rows, endTile - 1, state, s, c); // O is 0 and needs no correction
    pack(s, p);
    // The inner loop, where every row sees everything, is kept apart and short for the caches of
    // instructions.
    const int plainTile = max(firstTile, (rows.everyBegin + TILE - 1) / TILE);
    int tile = endTile - 2;
    while (tile >= firstTile) {
      keepRings();
      if (tile >= plainTile && (tile + 1) * TILE <= rows.everyEnd) {
#pragma unroll 1
        do {
          step<false>(w, rows, tile, tile == firstTile, state, s, p, o);
          tile--;
        } while (tile >= plainTile);
      } else {
        step<true>(w, rows, tile, tile == firstTile, state, s, p, o);
        tile--;
      }
    }
    keepRings();
    values.waitFull();
    beginOutput(o, p);
    productsWait<0>();
    settle(o);
    release(values);
  }

  // O, finished, by way of shared memory.
  __device__ __forceinline__ void writeByCopy(const Work& w, const float (&o)[OUTPUTS_HELD]) const {
    const int lane = threadIdx.x & 31;
    const int row = ((threadIdx.x >> 5) & 3) * 16 + (lane & 15); // whose chunk this lane addresses
    if (OWN_STAGING && leadsGroup()) {
      copyOutHasRead(); // what the work before left there
    }
    namedSync(NAMED_STAGING + group, WARP_GROUP);
#pragma unroll
    for (int i = 0; i < VALUE_DIM / 16; i++) {
      storeMatrices(staging + chunkOffset(GROUP_ROWS, row, 2 * i + (lane >> 4)),
                    packed(o[8 * i], o[8 * i + 1]), packed(o[8 * i + 2], o[8 * i + 3]),
                    packed(o[8 * i + 4], o[8 * i + 5]), packed(o[8 * i + 6], o[8 * i + 7]));
    }
    fenceShared();
    namedSync(NAMED_STAGING + group, WARP_GROUP);
    if (leadsGroup()) {
      copyTileOut<VALUE_DIM>(&plan.out, a.valueDim, GROUP_ROWS, queryBox(w, group), staging);
      copyOutCommit();
    }
  }

  // Divides by l, and leaves `chosen` the rows that this pass writes.
  __device__ __forceinline__ void finishRows(const Work& w, const Rows& rows, const State& state,
                                             bool (&chosen)[2], float (&o)[OUTPUTS_HELD]) {
    const bool isNatural = IS_NATURAL || isIn(Pass::FAR_ROWS);
    const bool hasSink = a.sink.data != nullptr;
    const float sink = hasSink ? sinkOf(a, w.head) : 0.0f;
    float factors[2];
    bool isFar[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float l = state.l[r];
      l += __shfl_xor_sync(~0u, l, 1);
      l += __shfl_xor_sync(~0u, l, 2);
      const float m = isNatural                 ? state.m[r]
                      : IS_BOUNDED && l == 0.0f ? EMPTY
                                                : state.m[r] * LN_2;
      const Finish end = finish(m, l, hasSink, sink);
      factors[r] = end.factor;
      if (IS_BOUNDED) {
        // The pass over far rows wants a little more than was noted, never less.
        isFar[r] = isNatural ? m + logf(l) < LEAST_LOGARITHM - 0.1f || failed[r]
                             : l > 0.0f && logf(l) < LEAST_LOGARITHM;
      } else {
        // Scores below what base 2 can hold look like none.
        const int query = w.query(rows.row + 8 * r);
        const bool isLost = l == 0.0f && a.maskCount == 0 && w.begin(query) < w.end(query);
        isFar[r] = !IS_NATURAL && ((fabsf(m) > FAR * LN_2 && m != EMPTY) || isLost);
      }
      const int row = rows.row + 8 * r;
      chosen[r] = row < w.rows && (!isIn(Pass::FAR_ROWS) || isFar[r]);
      if (a.lse.data != nullptr && rows.firstColumn == 0 && chosen[r]) {
        store(a.lse.data, a.lse.type,
              w.span.queryBlock * a.lse.sequence + w.head * a.lse.head
                  + (w.span.queryRow + w.firstQuery + row) * a.lse.query,
              end.logSumExp);
      }
    }
    float nothing[2] = {0.0f, 0.0f}; // 0, or NaN when anything of the row is not finite
#pragma unroll
    for (int i = 0; i < OUTPUTS_HELD; i++) {
      o[i] = fmaf(o[i], factors[i / 2 % 2], 0.0f); // zeros are positive
      nothing[i / 2 % 2] = fmaf(o[i], 0.0f, nothing[i / 2 % 2]);
    }
    if (REPAIR) {
#pragma unroll
      for (int r = 0; r < 2; r++) failed[r] = anyOfRow(nothing[r] != 0.0f);
    } else {
      const bool fails = (chosen[0] && (nothing[0] != 0.0f || isFar[0]))
                         || (chosen[1] && (nothing[1] != 0.0f || isFar[1]));
      const bool any = __any_sync(~0u, fails);
      if (leadsWarp()) {
        plan.flags[(w.number * GROUPS + group) * 4 + (threadIdx.x >> 5 & 3)] = any;
      }
    }
  }

  // Whether it is so in any of the four threads that hold a row.
  static __device__ __forceinline__ bool anyOfRow(bool x) {
    return (__ballot_sync(~0u, x) >> (threadIdx.x & 28) & 15) != 0;
  }

  // O and the logarithms of sums; gives back the place of queries where results were staged there.
  __device__ __forceinline__ void finishWork(const Work& w, const Rows& rows, const State& state,
                                             float (&o)[OUTPUTS_HELD]) {
    const bool hasTiles = w.firstTile < w.endTile;
    bool chosen[2] = {rows.row < w.rows, rows.row + 8 < w.rows};
    bool copies = false;
    if (isIn(Pass::COUNT)) {
      writeNaNs(a, w, rows, chosen, o);
    } else {
      finishRows(w, rows, state, chosen, o);
      // A copy writes 64 rows, which must be this sequence's or past the tensor's end, and columns
      // by the 16 bytes. Without tiles the place of queries is not this work's to use.
      const bool whole = (group + 1) * GROUP_ROWS <= w.rows
                         || w.span.queryRow + w.span.queries == plan.queryRows;
      copies = !REPAIR && a.out.type == TYPE && whole && a.valueDim % 8 == 0
               && (OWN_STAGING || hasTiles);
      if (copies) {
        writeByCopy(w, o);
      } else {
        writeDirectly(a, w, rows, chosen, o);
      }
    }
    if (!OWN_STAGING && hasTiles) {
      if (copies && leadsGroup()) {
        copyOutHasRead();
      }
      namedSync(NAMED_STAGING + group, WARP_GROUP);
      if (leadsWarp()) {
        queriesEmpty().arrive();
      }
    }
  }

  __device__ __forceinline__ void consume(const Work& w) {
    const Rows rows(a, w, group);
    do {
      float o[OUTPUTS_HELD];
      State state = {{EMPTY, EMPTY}, {0.0f, 0.0f}};
#pragma unroll
      for (int i = 0; i < OUTPUTS_HELD; i++) o[i] = 0.0f;
      if (w.firstTile < w.endTile) {
        fold(w, rows, state, o);
      }
      finishWork(w, rows, state, o);
      if (REPAIR && w.firstTile < w.endTile) {
        pass = after(pass);
      }
    } while (REPAIR && pass != Pass::FOLD);
  }

  __device__ __forceinline__ void run() {
    Shared& shared = sharedMemory();
    Ring<2> handover(sharedAddress(shared.handover), 0);
    if (TURNS && group == GROUPS - 1) {
      namedArrive(NAMED_TURN, 2 * WARP_GROUP); // the first turn is group 0's
    }
    while (true) {
      handover.waitFull();
      const Work& w = shared.works[handover.stage()];
      if (w.number < 0) {
        break;
      }
      consume(w);
      release(handover);
    }
    if (leadsGroup()) {
      copyOutDone();
    }
  }
};

// What the launcher must know.
struct HopperShape {
  int threads;
  int sharedBytes;
  int queries; // of a work
  int keys;    // of a tile
};
extern "C" __constant__ HopperShape hopperShape = {THREADS, sizeof(Shared), BLOCK_ROWS, TILE};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attend(const __grid_constant__ AttentionArguments a,
                           const __grid_constant__ Plan plan) {
  if (REPAIR) { // mostly there is nothing to do, and all threads look for it at once
    bool any = false;
    for (int number = blockIdx.x + threadIdx.x * gridDim.x; number < plan.works;
         number += THREADS * gridDim.x) {
      any |= !isFinite(plan, number);
    }
    if (__syncthreads_or(any) == 0) {
      return;
    }
  }
  Shared& shared = sharedMemory();
  if (threadIdx.x == 0) {
    for (int group = 0; group < GROUPS; group++) {
      Ring<1>(sharedAddress(shared.queries[group]), 0).initialise(1, 4);
    }
    Ring<KEY_STAGES>(sharedAddress(shared.keys), 0).initialise(1, 4 * GROUPS);
    Ring<VALUE_STAGES>(sharedAddress(shared.values), 0).initialise(1, 4 * GROUPS);
    Ring<2>(sharedAddress(shared.handover), 0).initialise(1, 4 * GROUPS + PRODUCER_WARPS - 1);
    fenceBarriers();
  }
  __syncthreads();
  // The shuffle tells the compiler that the role is the same for a whole warp.
  const int role = __shfl_sync(~0u, threadIdx.x / WARP_GROUP, 0);
  if (role == 0) {
    giveRegisters<PRODUCER_REGISTERS>();
    produce(a, plan);
  } else {
    takeRegisters<CONSUMER_REGISTERS>();
    Consumer(a, plan, role - 1).run();
  }
}
