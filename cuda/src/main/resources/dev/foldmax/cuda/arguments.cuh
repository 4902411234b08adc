// What every attention kernel is given, by value, as its only parameter of data. The Java side lays
// out the same bytes (AttentionArguments.java): all pointers and sizes are 64-bit, ints come in pairs.
#pragma once

typedef long long int64;

// How elements are stored.
enum class Type : int {
  F32 = 0,
  F16 = 1,
  BF16 = 2,
  I8 = 3,
  F64 = 4,
  BOOL = 5,
  I32 = 6, // indices and copies only, as I64
  I64 = 7
};

// (block, head, row, column) with the last dimension contiguous and each row at a multiple of 16
// bytes; strides count elements. Memory can be read up to the multiple of 16 bytes that follows a
// row's last element, whatever lies there.
struct Matrix {
  unsigned char* data;
  int64 block;
  int64 head;
  int64 row;
  Type type;
  int pad;
};

// A tensor that is broadcast over (sequence, query head, query, key); a stride of 0 repeats.
struct Broadcast {
  unsigned char* data; // null where there is none; written where it is lse
  int64 sequence;
  int64 head;
  int64 query;
  int64 key;
  Type type;
  int pad;
};

// One sequence. Positions count keys from the start of the sequence's history, as in KeyValues.
struct Sequence {
  int64 queryBlock; // index on axis 0 of q and out
  int64 queryRow;   // row of the first query there
  int64 queries;
  int64 firstKey;   // position of the first key that is present
  int64 endKey;     // one past the last
  int64 keyBlock;   // dense, ragged, ring: index on axis 0 of keys and values
  int64 keyRow;     // dense, ragged: row of position 0
  // Query i sees the keys from max(firstKey, i + beginShift) to, exclusively,
  // min(endKey, i + endShift, max(prefix[0], i + prefixShift[0]), max(prefix[1], i + prefixShift[1])).
  // "No bound" is a shift of +-2^62, chosen so that sums do not overflow.
  int64 beginShift;
  int64 endShift;
  int64 prefix[2];
  int64 prefixShift[2];
  int64 alibiShift; // query i stands at position i + alibiShift
};

enum class Layout : int {
  STRAIGHT = 0, // dense and ragged: position p lies in row keyRow + p of block keyBlock
  PAGED = 1,    // in row p % rows of block table[sequence * tableStride + p / rows]
  RING = 2      // in row p % rows of block keyBlock
};

constexpr int MOST_MASKS = 4;

struct AttentionArguments {
  Matrix q;      // (query blocks, query heads, queries, Dqk)
  Matrix k;      // (key blocks, key heads, rows, Dqk)
  Matrix v;      // (key blocks, key heads, rows, Dv)
  Matrix out;    // as q, with Dv
  Broadcast lse; // (block, query head, query) in sequence, head, query; data is null where not wanted
  Broadcast keyScale;   // (block, key head, row) in sequence, head, query; null for 1
  Broadcast valueScale; // likewise
  const Sequence* sequences; // (batch)
  const int* table;          // (batch, tableStride), or null
  int64 tableStride;
  int64 rows; // of a block of keys: the page size or the ring's capacity
  Layout layout;
  int batch;
  int queryHeads;
  int keyHeads;
  int keyDim;   // Dqk as the caller has it; the kernel's own is padded
  int valueDim; // Dv
  int64 mostQueries; // of any sequence: what grids are sized by
  int64 mostKeys;
  Broadcast masks[MOST_MASKS]; // BOOL; columns count from firstKey
  int maskCount;
  int pad;
  Broadcast bias;  // natural, columns count from firstKey
  Broadcast slope; // ALiBi, natural: (sequence, query head)
  Broadcast sink;  // natural: (query head)
  float scale;   // of the dot product, natural
  float softCap; // natural, or 0
  float tau;     // base 2, of LAZY
  int pad2;
};

static_assert(sizeof(Matrix) == 40, "as in AttentionArguments.java");
static_assert(sizeof(Broadcast) == 48, "as in AttentionArguments.java");
static_assert(sizeof(Sequence) == 112, "as in AttentionArguments.java");
static_assert(sizeof(AttentionArguments) == 736, "as in AttentionArguments.java");
