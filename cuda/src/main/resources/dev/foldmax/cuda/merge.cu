// Merges attention results over disjoint sets of keys: the finished partial (output, lse) of a row is
// the state (lse, 1, output), and states merge by the five lines of state.cuh, in natural units. No
// options; the types of the partials are run-time branches.
//
//   merge_f32, merge_f64   in float32, and in float64 where a partial is F64
//
// A warp a row; each lane adds up every 32nd component, over the partials in their order. A partial
// whose lse is -inf is never read; one that is alone keeps its bits. Out may be one of the outputs
// and lse one of the lses: a warp reads the row's lses before it writes one, and a component before
// it writes it.
#include "elements.cuh"
#include "state.cuh"

struct Partial {
  const unsigned char* output; // (rows, dim)
  const unsigned char* lse;    // (rows)
  int64 outputStride;          // elements from row to row
  int64 lseStride;
  Type outputType;
  Type lseType;
};

struct MergeArguments {
  const Partial* partials; // (count), at least 1
  unsigned char* out;      // (rows, dim)
  unsigned char* lse;      // (rows), or null
  int64 outStride;
  int64 lseStride;
  int64 rows;
  int64 dim;
  Type outType;
  Type lseType;
  int count;
  int pad;
};

static_assert(sizeof(Partial) == 40 && sizeof(MergeArguments) == 72, "as MergeKernel.java has it");

namespace {

constexpr int WARP = 32;

template <typename Real>
__device__ __forceinline__ Real read(const unsigned char* data, Type type, int64 index) {
  switch (type) {
    case Type::F64:
      return (Real) reinterpret_cast<const double*>(data)[index];
    case Type::F16:
      return floatOfF16(reinterpret_cast<const unsigned short*>(data)[index]);
    case Type::BF16:
      return floatOfBf16(reinterpret_cast<const unsigned short*>(data)[index]);
    default:
      return reinterpret_cast<const float*>(data)[index];
  }
}

// Rounds a double to float32 so that rounding it once more gives what rounding once would have given:
// to odd, of which halves of shorter types never are.
__device__ __forceinline__ float toOdd(double x) {
  const float nearest = __double2float_rz(x);
  const bool isInexact = (double)nearest != x && x == x;
  return isInexact ? __uint_as_float(__float_as_uint(nearest) | 1u) : nearest;
}

__device__ __forceinline__ void write(unsigned char* data, Type type, int64 index, float x) {
  store(data, type, index, x);
}

__device__ __forceinline__ void write(unsigned char* data, Type type, int64 index, double x) {
  if (type == Type::F64) {
    reinterpret_cast<double*>(data)[index] = x;
  } else if (type == Type::F32) {
    reinterpret_cast<float*>(data)[index] = (float)x;
  } else {
    store(data, type, index, toOdd(x));
  }
}

template <typename Real>
__device__ __forceinline__ void merge(const MergeArguments& a) {
  const int lane = threadIdx.x % WARP;
  const int64 row = (int64)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
  if (row >= a.rows) {
    return;
  }
  const auto lseOf = [&](int i) {
    return read<Real>(a.partials[i].lse, a.partials[i].lseType, row * a.partials[i].lseStride);
  };
  const Real none = EMPTY;
  Real m = none;
  int present = 0;
  for (int i = 0; i < a.count; i++) {
    const Real lse = lseOf(i);
    m = lse > m ? lse : m;
    present += lse != none;
  }
  const Real subtracted = m == none ? 0 : m;
  Real l = 0;
  for (int i = 0; i < a.count; i++) {
    l += exp(lseOf(i) - subtracted);
  }
  const bool isAlone = present == 1 && l == 1;
  const Real lse = isAlone ? m : l == 0 ? none : m + log(l);
  for (int64 d = lane; d < a.dim; d += WARP) {
    Real sum = 0;
    bool isFirst = true;
    for (int i = 0; i < a.count; i++) {
      const Real natural = lseOf(i);
      if (natural != none) {
        const Partial& p = a.partials[i];
        const Real term = exp(natural - subtracted) / l
                          * read<Real>(p.output, p.outputType, row * p.outputStride + d);
        sum = isFirst ? term : sum + term; // 0 + -0 is 0
        isFirst = false;
      }
    }
    write(a.out, a.outType, row * a.outStride + d, sum);
  }
  if (a.lse != nullptr) {
    __syncwarp();
    if (lane == 0) {
      write(a.lse, a.lseType, row * a.lseStride, lse);
    }
  }
}

} // namespace

// Grid: a warp a row.
extern "C" __global__ void __launch_bounds__(128)
    merge_f32(const __grid_constant__ MergeArguments a) {
  merge<float>(a);
}

extern "C" __global__ void __launch_bounds__(128)
    merge_f64(const __grid_constant__ MergeArguments a) {
  merge<double>(a);
}
