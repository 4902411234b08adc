// Merges attention results over disjoint sets of keys: the finished partial (output, lse) of a row
// is the state (lse, 1, output), and states merge by the five lines of state.cuh, in natural units.
// No options; the types of the partials are run-time branches.
//
//   merge_f32, merge_f64   in float32, and in float64 where a partial is F64
//
// A warp a row; each lane adds up every 32nd component, over the partials in their order. A partial
// whose lse is -inf is never read; one that is alone keeps its bits. Out may be one of the outputs
// and lse one of the lses: a warp reads the row's lses before it writes one, and a component before
// it writes it.
#include "doubles.cuh"
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
