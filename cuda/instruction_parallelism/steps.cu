// Long chains of FMAs on the GPU: instruction-level parallelism compared with occupancy.
//
// Each FMA of a chain needs the result of the previous one. A multiprocessor has four schedulers.
// Each scheduler can issue one instruction per cycle. With one warp per scheduler and one chain per
// thread, a scheduler issues one FMA per FMA latency, which is about four cycles in float32. To
// keep the FMA units busy, latency x throughput FMAs must be in flight per scheduler (Little's
// law). They can belong to independent chains of one thread, or to different warps:
//
//   variant           |  warps per scheduler  |  chains per thread  |  FMAs in flight
//   one_chain         |          1            |          1          |         1
//   two_chains        |          1            |          2          |         2
//   four_chains       |          1            |          4          |         4
//   eight_chains      |          1            |          8          |         8
//   more_warps        |      up to 16         |          1          |     up to 16
//   warps_and_chains  |      up to 16         |          4          |     up to 64
//
// All variants run the same kernel. They differ in the size of the grid and in the number of
// chains.
#include "routines/instruction_parallelism.hpp"

#include <algorithm>

#include "common/grid.cuh"

namespace ado::cuda {
namespace {

using Polynomial = InstructionParallelism;

// ---- one_chain, two_chains, four_chains, eight_chains, more_warps, warps_and_chains -------------
// Four warps, one per scheduler of a multiprocessor.
constexpr int kThreads = 128;

#ifdef __CUDACC__

// Each thread computes kChains elements at a time, which are one grid apart, so that the accesses
// of a warp are coalesced. It loads the elements of the next pass first: their latency overlaps the
// chains, even with a single warp per scheduler.
template <class T, int kChains>
__global__ void __launch_bounds__(kThreads)
    polynomial_chains(const T* x, T* out, std::int64_t elements) {
  constexpr T kStep = Polynomial::kStep;
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads, pass = kChains * threads;
  std::int64_t first = block_x() * kThreads + threadIdx.x;

  T next[kChains];
  const auto load_next = [&](std::int64_t from) {
#pragma unroll
    for (int c = 0; c < kChains; ++c) {
      const std::int64_t i = from + c * threads;
      next[c] = i < elements ? x[i] : T{0};
    }
  };

  load_next(first);
  for (; first < elements; first += pass) {
    T value[kChains], y[kChains];
#pragma unroll
    for (int c = 0; c < kChains; ++c) {
      value[c] = next[c];
      y[c] = 1;
    }
    load_next(first + pass);
    // One period per iteration, so that the coefficients are constants in the instructions and the
    // loop fits into the instruction cache.
#pragma unroll 1
    for (int period = 0; period < Polynomial::kPeriods; ++period)
#pragma unroll
      for (int k = Polynomial::kPeriod - 1; k >= 0; --k)
#pragma unroll
        for (int c = 0; c < kChains; ++c) y[c] = fma(y[c], value[c], T{1} - k * kStep);
#pragma unroll
    for (int c = 0; c < kChains; ++c)
      if (const std::int64_t i = first + c * threads; i < elements) out[i] = y[c];
  }
}

#endif

// The number of computed elements. A thread whose first element exists computes all its chains,
// even chains of elements beyond the end.
template <int kChains>
double computed_elements(const Polynomial& p, Extent grid) {
  const std::int64_t threads = std::int64_t{grid.x} * kThreads, elements = p.x.elements();
  if (threads == 0) return 0;
  const std::int64_t passes = elements / (kChains * threads);
  const std::int64_t rest = elements - passes * kChains * threads;
  const std::int64_t in_last = rest < threads ? rest : threads;
  return static_cast<double>((passes * threads + in_last) * kChains);
}

using Grid = Extent(const Polynomial&, Extent, const Hardware&);

template <int kChains, Grid* kGrid>
double instructions_of(const Polynomial& p, const Hardware& gpu) {
  return computed_elements<kChains>(p, kGrid(p, {}, gpu)) * Polynomial::kInstructions;
}

template <int kChains, Grid* kGrid>
constexpr Variant<Polynomial> chains_row(const char* name, Change changes) {
  return {.name = name,
          .changes = changes,
          .blocks = {{{kThreads}}},
          .grid = kGrid,
          .flops = [](const Polynomial& p,
                      const Hardware& gpu) { return 2 * instructions_of<kChains, kGrid>(p, gpu); },
          .instructions = instructions_of<kChains, kGrid>,
          .run = ADO_RUN([](const Polynomial& p, const Launch& go) {
            with_real(p.x.type, [&]<class T>(T) {
              launch(go, polynomial_chains<T, kChains>, p.x.as<const T>(), p.out.as<T>(),
                     p.x.elements());
            });
          })};
}

// ---- one_chain, two_chains, four_chains, eight_chains -------------------------------------------
// One block per multiprocessor, so one warp per scheduler: a grid-stride loop over all elements.
Extent few_blocks(const Polynomial& p, Extent, const Hardware& gpu) {
  return grid_of(std::min<std::int64_t>(ceil_div(p.x.elements(), kThreads), gpu.multiprocessors),
                 1);
}

// ---- one_chain ----------------------------------------------------------------------------------
constexpr Variant<Polynomial> kOneChain = chains_row<1, few_blocks>(
    "one_chain", "One warp per scheduler and one chain of dependent FMAs per thread.");

// ---- two_chains ---------------------------------------------------------------------------------
constexpr Variant<Polynomial> kTwoChains = chains_row<2, few_blocks>(
    "two_chains", {"Each thread computes two elements at a time, with two independent chains.",
                   Step::kParallelism});

// ---- four_chains --------------------------------------------------------------------------------
constexpr Variant<Polynomial> kFourChains = chains_row<4, few_blocks>(
    "four_chains", {"Four independent chains per thread.", Step::kParallelism});

// ---- eight_chains -------------------------------------------------------------------------------
constexpr Variant<Polynomial> kEightChains = chains_row<8, few_blocks>(
    "eight_chains", {"Eight independent chains per thread.", Step::kParallelism});

// ---- more_warps, warps_and_chains ---------------------------------------------------------------
// One pass over all elements.
template <int kChains>
Extent all_blocks(const Polynomial& p, Extent, const Hardware&) {
  return grid_of(ceil_div(p.x.elements(), std::int64_t{kThreads} * kChains), 1);
}

// ---- more_warps ---------------------------------------------------------------------------------
constexpr Variant<Polynomial> kMoreWarps = chains_row<1, all_blocks<1>>(
    "more_warps", {"One chain per thread, and as many resident warps as a multiprocessor supports.",
                   Step::kParallelism, Step::kOccupancy});

// ---- warps_and_chains ---------------------------------------------------------------------------
constexpr Variant<Polynomial> kWarpsAndChains = chains_row<4, all_blocks<4>>(
    "warps_and_chains",
    {"Four independent chains per thread, and as many resident warps as fit.", Step::kParallelism});

// -------------------------------------------------------------------------------------------------

constexpr Variant<Polynomial> kSteps[] = {kOneChain,    kTwoChains, kFourChains,
                                          kEightChains, kMoreWarps, kWarpsAndChains};

}  // namespace

Ladder<InstructionParallelism> instruction_parallelism_ladder() { return ladder_of(kSteps); }

}  // namespace ado::cuda

#ifdef STANDALONE
#include "common/standalone.cuh"

int main() {
  using namespace ado;
  using Polynomial = InstructionParallelism;
  Polynomial p;
  p.x = cuda::random_array(kFloat32, {1 << 20});
  p.out = cuda::random_array(kFloat32, {1 << 20});
  return cuda::run_ladder(cuda::instruction_parallelism_ladder(), p, [](const Polynomial& p) {
    for (std::int64_t i = 0; i < p.x.elements(); ++i) {
      float y = 1;
      for (int period = 0; period < Polynomial::kPeriods; ++period)
        for (int k = Polynomial::kPeriod - 1; k >= 0; --k)
          y = std::fma(y, p.x.as<const float>()[i], 1 - k * static_cast<float>(Polynomial::kStep));
      p.out.as<float>()[i] = y;
    }
  });
}
#endif
