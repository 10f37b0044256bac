// Branches on the GPU: elements with even and odd index take different formulas of equal cost.
//
// A warp executes one instruction for all its lanes. If its lanes take different branches, it
// executes the branches one after the other, and masks the lanes of the other branch in each pass.
// Therefore only the assignment of elements to lanes matters here:
//
//   elements     |  0  1  2  3  4  5  ...          |  instructions per warp and 32 elements
//   by_lane      |  lane i takes element i         |  even formula + odd formula
//   branch_free  |  lane i takes element i         |  even formula + odd formula
//   by_warp      |  one parity per warp            |  one formula
//   pairs        |  lane i takes elements 2i, 2i+1 |  one formula, on average
//
// Each element takes 128 instructions for 8 or 16 bytes, so even `pairs` is compute-bound on an
// H200.
#include "routines/branch.hpp"

#include "common/grid.cuh"
#include "common/vector.cuh"

namespace ado::cuda {
namespace {

constexpr Blocks kBlocks = {{{256}, {128}, {512}}};

template <int kElementsPerThread>
Extent grid_of_elements(const Branch& p, Extent block) {
  return grid_of(ceil_div(p.x.elements(), std::int64_t{kElementsPerThread} * block.x), 1);
}

// Instructions and FLOPs of the active lanes. In by_lane, only the element's own formula counts,
// although the warp executes both formulas.
double instructions_of_own_formula(const Branch& p) {
  return p.even_elements() * Branch::kEvenInstructions +
         p.odd_elements() * Branch::kOddInstructions;
}

#ifdef __CUDACC__

// The loops are unrolled completely, so that the coefficients are constants in the instructions.
template <class T>
__device__ T even_formula(T x) {
  constexpr T kStep = Branch::kEvenStep;
  T y = T{1} - Branch::kEvenTerms * kStep;
#pragma unroll
  for (int k = Branch::kEvenTerms - 1; k >= 0; --k) y = fma(y, x, T{1} - k * kStep);
  return y;
}

template <class T>
__device__ T odd_formula(T x) {
  constexpr T kStep = Branch::kOddStep;
  T y = 1;
#pragma unroll
  for (int k = Branch::kOddTerms; k >= 1; --k) y = fma(x * (T{1} - k * kStep), y, T{1});
  return y;
}

// Launches the kernel for the element type.
template <void (*kFloat)(const float*, float*, std::int64_t),
          void (*kDouble)(const double*, double*, std::int64_t)>
void run(const Branch& p, const Launch& go) {
  if (p.x.type == kFloat32)
    launch(go, kFloat, p.x.as<const float>(), p.out.as<float>(), p.x.elements());
  else
    launch(go, kDouble, p.x.as<const double>(), p.out.as<double>(), p.x.elements());
}

#endif

// ---- by_lane ------------------------------------------------------------------------------------
// One thread per element. Neighbouring lanes take different branches, so a warp executes 256
// instructions where each lane needs 128: at most half of the arithmetic throughput.
#ifdef __CUDACC__
template <class T>
__global__ void branch_by_lane(const T* x, T* out, std::int64_t elements) {
  const std::int64_t i = thread_x();
  if (i >= elements) return;
  T y;
  if (i % 2 == 0)
    y = even_formula(x[i]);
  else
    y = odd_formula(x[i]);
  out[i] = y;  // the warp has reconverged, so it stores whole sectors
}
#endif

constexpr Variant<Branch> kByLane = {
    .name = "by_lane",
    .changes = "One thread per element; neighbouring lanes take different branches.",
    .blocks = kBlocks,
    .grid = grid_of_elements<1>,
    .instructions = instructions_of_own_formula,
    .run = ADO_RUN(run<branch_by_lane<float>, branch_by_lane<double>>)};

// ---- branch_free --------------------------------------------------------------------------------
// Computes both formulas for every element, and selects one of the values. The warp executes as
// many instructions as in by_lane, so removing the branch saves no instructions here. It helps only
// if branches are short. The two formulas are independent of each other, so a warp overlaps their
// latencies.
#ifdef __CUDACC__
template <class T>
__global__ void branch_free(const T* x, T* out, std::int64_t elements) {
  const std::int64_t i = thread_x();
  if (i >= elements) return;
  const T even = even_formula(x[i]), odd = odd_formula(x[i]);
  out[i] = i % 2 == 0 ? even : odd;
}
#endif

constexpr Variant<Branch> kBranchFree = {
    .name = "branch_free",
    .changes = {"Computes both formulas for every element and selects one of the two values.",
                Step::kDivergence},
    .blocks = kBlocks,
    .grid = grid_of_elements<1>,
    .flops =
        [](const Branch& p) {
          return static_cast<double>(p.x.elements()) * (Branch::kEvenFlops + Branch::kOddFlops);
        },
    .instructions =
        [](const Branch& p) {
          return static_cast<double>(p.x.elements()) *
                 (Branch::kEvenInstructions + Branch::kOddInstructions);
        },
    .run = ADO_RUN(run<branch_free<float>, branch_free<double>>)};

// ---- by_warp ------------------------------------------------------------------------------------
// The first half of the warps of a block computes the even elements, the second half computes the
// odd elements. All lanes of a warp take the same branch, which halves the instructions. Elements
// change lanes in shared memory, so accesses to global memory remain coalesced:
//
//   element of the block    |  0   1   2   3   4   5  ...
//   in shared memory        | [0   2   4  ...] [1   3   5  ...]
//   computed by             |  first warps      last warps
//
// The lanes of a warp store to both halves at the same time. The padding between the halves
// (kPaddingBytes) shifts them to different banks.
constexpr int kPaddingBytes = 64;

#ifdef __CUDACC__
template <class T>
__global__ void branch_by_warp(const T* x, T* out, std::int64_t elements) {
  extern __shared__ __align__(16) unsigned char shared[];
  T* const tile = reinterpret_cast<T*>(shared);
  const unsigned thread = threadIdx.x, half = blockDim.x / 2;
  const unsigned odd_tile = half + kPaddingBytes / sizeof(T);
  const std::int64_t first = block_x() * blockDim.x;

  T& loaded = tile[thread % 2 * odd_tile + thread / 2];
  if (first + thread < elements) loaded = x[first + thread];
  __syncthreads();

  const bool odd = thread >= half;
  const unsigned place = odd ? thread - half : thread;
  if (first + 2 * place + odd < elements) {
    T& mine = tile[odd * odd_tile + place];
    mine = odd ? odd_formula(mine) : even_formula(mine);
  }
  __syncthreads();

  if (first + thread < elements) out[first + thread] = loaded;
}
#endif

constexpr Variant<Branch> kByWarp = {
    .name = "by_warp",
    .changes = {"Regroups the elements in shared memory so that all lanes of a warp take the same "
                "branch.",
                Step::kOperations, Step::kDivergence},
    .blocks = kBlocks,
    .grid = grid_of_elements<1>,
    .shared_bytes =
        [](const Branch& p, Extent block) {
          return block.x * static_cast<std::size_t>(p.x.type.size) + kPaddingBytes;
        },
    .instructions = instructions_of_own_formula,
    .run = ADO_RUN(run<branch_by_warp<float>, branch_by_warp<double>>)};

// ---- pairs --------------------------------------------------------------------------------------
// Two neighbouring elements per thread, loaded and stored as one vector: each lane computes each
// formula once. The kernel needs neither a branch nor shared memory, and the two formulas of a
// thread are independent of each other.
#ifdef __CUDACC__
template <class T>
__global__ void branch_pairs(const T* x, T* out, std::int64_t elements) {
  using Pair = Vector<T, 2>;
  const std::int64_t i = 2 * thread_x();
  if (i >= elements) return;
  const bool both = i + 1 < elements;
  const bool wide =
      both && starts_at_vector(x, sizeof(Pair)) && starts_at_vector(out, sizeof(Pair));
  // The last element and unaligned arrays are accessed one element at a time.
  Pair pair;
  if (wide)
    pair = *reinterpret_cast<const Pair*>(x + i);
  else
    pair = {x[i], both ? x[i + 1] : T{0}};
  const Pair result = {even_formula(pair.at[0]), odd_formula(pair.at[1])};
  if (wide) {
    *reinterpret_cast<Pair*>(out + i) = result;
  } else {
    out[i] = result.at[0];
    if (both) out[i + 1] = result.at[1];
  }
}
#endif

constexpr Variant<Branch> kPairs = {
    .name = "pairs",
    .changes = {"Each thread loads a pair of elements and computes each formula once, without a "
                "branch or shared memory.",
                Step::kWider, Step::kBarriers},
    .blocks = kBlocks,
    .grid = grid_of_elements<2>,
    .instructions = instructions_of_own_formula,
    .run = ADO_RUN(run<branch_pairs<float>, branch_pairs<double>>)};

// -------------------------------------------------------------------------------------------------

constexpr Variant<Branch> kSteps[] = {kByLane, kBranchFree, kByWarp, kPairs};

}  // namespace

Ladder<Branch> branch_ladder() { return ladder_of(kSteps); }

}  // namespace ado::cuda

#ifdef STANDALONE
#include "common/standalone.cuh"

int main() {
  using namespace ado;
  Branch p;
  p.x = cuda::random_array(kFloat32, {64 << 20});
  p.out = cuda::random_array(kFloat32, {64 << 20});
  return cuda::run_ladder(cuda::branch_ladder(), p, [](const Branch& p) {
    for (std::int64_t i = 0; i < p.x.elements(); ++i) {
      const double x = p.x.as<const float>()[i];
      double y = i % 2 == 0 ? 1 - Branch::kEvenTerms * Branch::kEvenStep : 1;
      if (i % 2 == 0)
        for (int k = Branch::kEvenTerms - 1; k >= 0; --k) y = y * x + (1 - k * Branch::kEvenStep);
      else
        for (int k = Branch::kOddTerms; k >= 1; --k) y = y * x * (1 - k * Branch::kOddStep) + 1;
      p.out.as<float>()[i] = static_cast<float>(y);
    }
  });
}
#endif
