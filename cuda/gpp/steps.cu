// The GPP self-energy on the GPU, the steps: asx and ach, sums over all (band, igp, ig). Read them
// beside the post and the paper ("8 Steps to 3.7 TFLOP/s"). The post has a baseline and four steps.
// The paper's code (gpp0.f90 to gpp8.f90) has another order:
//
//   variant               post          paper   change
//   collapse3             baseline      gpp0    one loop over all items instead of three loops
//   bands_inside          step 1        gpp4    the loop over bands inside a thread
//   frequency_outside     step 2        gpp5    one launch per frequency
//   reciprocal            step 3        gpp1    reciprocals instead of complex divisions
//   squared_moduli        step 3        gpp3    squares instead of absolute values
//   simplified_branches                 gpp2    fewer branches
//   blocked                             gpp6    cache blocking
//   swapped_indices                     gpp7    bands contiguous in wx and aqsm
//   large_blocks          step 4        gpp8    another block size
//
// These steps follow the publications literally, even where that is slow. There are two exceptions:
// differences with cancellation are computed in another way (model.cuh), and long sums are
// compensated (passes.cuh). After the paper, hoisted_invariants to branch_free have fewer
// operations per band. engine/ has the variants for the speed of the default call, and the choice
// among all variants.
//
// The problem si214 in the comments of this folder has 800 bands, 1385 igp, 11075 ig and 2
// frequencies.
#include "routines/gpp.hpp"

#include "gpp/costs.cuh"
#include "gpp/model.cuh"
#include "gpp/passes.cuh"
#include "gpp/terms.cuh"

namespace ado::cuda::gpp {
namespace {

#ifdef __CUDACC__

template <void (*kKernel)(Inputs, Pass<1>)>
void run_by_frequency(const Gpp& p, const Launch& go) {
  run_passes<1>(p, go, [&](const Pass<1>& pass) { launch(go, kKernel, inputs_of(p), pass); });
}

#endif

// ---- collapse3 ----------------------------------------------------------------------------------
// The three loops are collapsed into one, with one item per thread and iteration. Each item loads
// all its operands and evaluates the formulas with complex divisions and absolute values.
#ifdef __CUDACC__
template <int kF>
__global__ void __launch_bounds__(kMaxThreads) gpp_collapse3(Inputs p, Pass<kF> pass) {
  ThreadSums<kF> sums;
  const std::int64_t pairs = p.rows * p.columns, triples = p.bands * pairs;
  for (std::int64_t first = block_x() * blockDim.x; first < triples;
       first += std::int64_t{gridDim.x} * blockDim.x) {
    if (const std::int64_t item = first + threadIdx.x; item < triples) {
      const std::int64_t ig = item % p.columns, n_igp = item / p.columns;
      const std::int64_t igp = n_igp % p.rows, n = n_igp / p.rows;
      const std::int64_t pair = igp * p.columns + ig;
      const Complex w = p.wtilde[pair], eps = p.i_eps[pair];
      const Complex aqsn = p.aqsn[n * p.columns + ig];
      const double occ = p.occ[n], vcoul = p.vcoul[igp];
      const Complex m = conj(p.aqsm[n * p.rows + igp]) * aqsn;
#pragma unroll
      for (int i = 0; i < kF; ++i) {
        const double x = p.wx[n * p.frequencies + pass.first + i];
        const Complex wdiff = x - w, delw = w / wdiff;
        const double delwr = norm(delw);
        Complex ssx, sch;
        if (norm(wdiff) > p.limit_two && delwr < p.limit_one) {
          ssx = w * w * eps / difference_of_squares(x, w);
          sch = delw * eps;
        } else if (delwr > Gpp::kTolZero) {
          ssx = -(w * w * eps) / (2 * (w * (x + w)));
          sch = {};
        } else {
          ssx = sch = {};
        }
        // If x = -w, ssx is NaN, and the comparison with the cut-off is false. For an empty band,
        // ssx must be set to 0, because 0 times NaN is NaN.
        const bool within_cutoff = abs(ssx) <= p.sexcut * abs(eps);
        if (!within_cutoff & ((x < 0) | (occ == 0))) ssx = {};
        sums.asx[i] += vcoul * occ * ssx * m;
        sums.ach[i] += 0.5 * (vcoul * sch * m);
      }
    }
    sums.next();
  }
  sums.store(pass);
}
#endif

constexpr Decomposition kTriples{
    .blocks = kBlocks,
    .grid = [](const Gpp& p, Extent block) { return grid_stride(triples_of(p), block); },
    .scratch_bytes = [](const Gpp& p) { return grid_stride_partial_bytes(triples_of(p)); },
    .bytes = [](const Gpp& p, int most) { return bytes_of_loads(p, p.bands(), most); },
    .work =
        [](const Gpp& p, std::int64_t threads) {
          return work_of(p, pairs_of(p), p.bands(), iterations(triples_of(p), threads));
        }};

constexpr OperationCounts kCollapse3Costs{.flops = {131, 131, 42}, .instructions = {76, 76, 33}};
constexpr Variant<Gpp> kCollapse3 = with_costs<kCollapse3Costs, kTriples>(
    {.name = "collapse3",
     .changes = {"Collapses the three loops and distributes their items over the threads, with "
                 "complex divisions and square roots."},
     .run = ADO_RUN(run_in_passes<gpp_collapse3<1>, gpp_collapse3<2>>)});

// ---- bands_inside, frequency_outside ------------------------------------------------------------
// A thread keeps its (igp, ig) for all bands. aqsn is the only operand in the loop that differs
// between lanes.
#ifdef __CUDACC__
// The arithmetic of collapse3.
__device__ inline Term term_as_written(const Inputs& p, double x, Complex w, Complex eps) {
  const Complex wdiff = x - w, delw = w / wdiff;
  const double delwr = norm(delw);
  if (norm(wdiff) > p.limit_two && delwr < p.limit_one)
    return {.ssx = w * w * eps / difference_of_squares(x, w), .sch = delw * eps};
  if (delwr > Gpp::kTolZero) return {.ssx = -(w * w * eps) / (2 * (w * (x + w))), .sch = {}};
  return {};
}

template <int kF>
__device__ void add_pairs(const Inputs& p, const Pass<kF>& pass) {
  ThreadSums<kF> sums;
  const std::int64_t pairs = p.rows * p.columns;
  for (std::int64_t first = block_x() * blockDim.x; first < pairs;
       first += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t pair = first + threadIdx.x, igp = pair / p.columns, ig = pair % p.columns;
    const bool own = pair < pairs;
    const Complex w = own ? p.wtilde[pair] : Complex{}, eps = own ? p.i_eps[pair] : Complex{};
#pragma unroll 1
    for (std::int64_t n = 0; n < p.bands; ++n) {
      if (own) {
        const Complex aqsn = p.aqsn[n * p.columns + ig];
        const double occ = p.occ[n], vcoul = p.vcoul[igp];
        const Complex m = conj(p.aqsm[n * p.rows + igp]) * aqsn;
#pragma unroll
        for (int i = 0; i < kF; ++i) {
          const double x = p.wx[n * p.frequencies + pass.first + i];
          Term term = term_as_written(p, x, w, eps);
          const bool within_cutoff = abs(term.ssx) <= p.sexcut * abs(eps);
          if (!within_cutoff & ((x < 0) | (occ == 0))) term.ssx = {};
          sums.asx[i] += vcoul * occ * term.ssx * m;
          sums.ach[i] += 0.5 * (vcoul * term.sch * m);
        }
      }
      sums.next();
    }
  }
  sums.store(pass);
}
#endif

// ---- bands_inside, frequency_outside, reciprocal, squared_moduli, simplified_branches -----------
// A grid-stride loop over (igp, ig).
constexpr Decomposition kPairs{
    .blocks = kBlocks,
    .grid = [](const Gpp& p, Extent block) { return grid_stride(pairs_of(p), block); },
    .scratch_bytes = [](const Gpp& p) { return grid_stride_partial_bytes(pairs_of(p)); },
    .bytes = [](const Gpp& p, int most) { return bytes_of_loads(p, 1, most); },
    .work =
        [](const Gpp& p, std::int64_t threads) {
          return work_of(p, pairs_of(p), 1,
                         iterations(pairs_of(p), threads) * static_cast<double>(p.bands()));
        }};

// ---- bands_inside -------------------------------------------------------------------------------
#ifdef __CUDACC__
template <int kF>
__global__ void __launch_bounds__(kMaxThreads) gpp_bands_inside(Inputs p, Pass<kF> pass) {
  add_pairs(p, pass);
}
#endif

constexpr OperationCounts kBandsInsideCosts{.flops = {124, 124, 38, 16},
                                            .instructions = {70, 70, 30, 13}};
constexpr Variant<Gpp> kBandsInside = with_costs<kBandsInsideCosts, kPairs>(
    {.name = "bands_inside",
     .changes = {"Each thread loops over all bands of an (igp, ig) and loads wtilde and i_eps "
                 "only once.",
                 Step::kReuse, Step::kDramReuse},
     .run = ADO_RUN(run_in_passes<gpp_bands_inside<1>, gpp_bands_inside<2>>)});

// ---- frequency_outside --------------------------------------------------------------------------
// The same kernel with one launch per frequency, which needs fewer registers. Every launch repeats
// all loads and the computations that do not depend on the frequency.
#ifdef __CUDACC__
__global__ void __launch_bounds__(kMaxThreads) gpp_frequency_outside(Inputs p, Pass<1> pass) {
  add_pairs(p, pass);
}
#endif

constexpr OperationCounts kFrequencyOutsideCosts{
    .flops = {162, 162, 0, 14}, .instructions = {100, 100, 0, 11}, .frequencies = 1};
constexpr Variant<Gpp> kFrequencyOutside = with_costs<kFrequencyOutsideCosts, kPairs>(
    {.name = "frequency_outside",
     .changes = {"Launches the kernel once per frequency.", Step::kOccupancy},
     .run = ADO_RUN(run_by_frequency<gpp_frequency_outside>)});

// ---- reciprocal ---------------------------------------------------------------------------------
#ifdef __CUDACC__
__global__ void __launch_bounds__(kMaxThreads) gpp_reciprocal(Inputs p, Pass<1> pass) {
  ThreadSums<1> sums;
  const std::int64_t pairs = p.rows * p.columns;
  for (std::int64_t first = block_x() * blockDim.x; first < pairs;
       first += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t pair = first + threadIdx.x, igp = pair / p.columns, ig = pair % p.columns;
    const bool own = pair < pairs;
    const Complex w = own ? p.wtilde[pair] : Complex{}, eps = own ? p.i_eps[pair] : Complex{};
#pragma unroll 1
    for (std::int64_t n = 0; n < p.bands; ++n) {
      if (own) {
        const Complex aqsn = p.aqsn[n * p.columns + ig];
        const double occ = p.occ[n], vcoul = p.vcoul[igp];
        const Complex m = conj(p.aqsm[n * p.rows + igp]) * aqsn;
        const double x = p.wx[n * p.frequencies + pass.first];
        const Complex wdiff = x - w, delw = divide_by_reciprocal(w, wdiff);
        const double delwr = norm(delw);
        Complex ssx, sch;
        if (norm(wdiff) > p.limit_two && delwr < p.limit_one) {
          ssx = divide_by_reciprocal(w * w * eps, difference_of_squares(x, w));
          sch = delw * eps;
        } else if (delwr > Gpp::kTolZero) {
          ssx = divide_by_reciprocal(-(w * w * eps), 2 * (w * (x + w)));
          sch = {};
        } else {
          ssx = sch = {};
        }
        const bool within_cutoff = abs(ssx) <= p.sexcut * abs(eps);
        if (!within_cutoff & ((x < 0) | (occ == 0))) ssx = {};
        sums.asx[0] += vcoul * occ * ssx * m;
        sums.ach[0] += 0.5 * (vcoul * sch * m);
      }
      sums.next();
    }
  }
  sums.store(pass);
}
#endif

constexpr OperationCounts kReciprocalCosts{
    .flops = {118, 118, 0, 14}, .instructions = {78, 78, 0, 11}, .frequencies = 1};
constexpr Variant<Gpp> kReciprocal = with_costs<kReciprocalCosts, kPairs>(
    {.name = "reciprocal",
     .changes = {"Multiplies by the reciprocal of the squared modulus instead of dividing.",
                 Step::kOperations},
     .run = ADO_RUN(run_by_frequency<gpp_reciprocal>)});

// ---- squared_moduli -----------------------------------------------------------------------------
// The cut-off compares squared moduli, so no square root remains.
#ifdef __CUDACC__
__global__ void __launch_bounds__(kMaxThreads) gpp_squared_moduli(Inputs p, Pass<1> pass) {
  ThreadSums<1> sums;
  const std::int64_t pairs = p.rows * p.columns;
  for (std::int64_t first = block_x() * blockDim.x; first < pairs;
       first += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t pair = first + threadIdx.x, igp = pair / p.columns, ig = pair % p.columns;
    const bool own = pair < pairs;
    const Complex w = own ? p.wtilde[pair] : Complex{}, eps = own ? p.i_eps[pair] : Complex{};
#pragma unroll 1
    for (std::int64_t n = 0; n < p.bands; ++n) {
      if (own) {
        const Complex aqsn = p.aqsn[n * p.columns + ig];
        const double occ = p.occ[n], vcoul = p.vcoul[igp];
        const Complex m = conj(p.aqsm[n * p.rows + igp]) * aqsn;
        const double x = p.wx[n * p.frequencies + pass.first];
        const Complex wdiff = x - w, delw = divide_by_reciprocal(w, wdiff);
        const double delwr = norm(delw);
        Complex ssx, sch;
        if (norm(wdiff) > p.limit_two && delwr < p.limit_one) {
          ssx = divide_by_reciprocal(w * w * eps, difference_of_squares(x, w));
          sch = delw * eps;
        } else if (delwr > Gpp::kTolZero) {
          ssx = divide_by_reciprocal(-(w * w * eps), 2 * (w * (x + w)));
          sch = {};
        } else {
          ssx = sch = {};
        }
        const bool within_cutoff = norm(ssx) <= p.sexcut * p.sexcut * norm(eps);
        if (!within_cutoff & ((x < 0) | (occ == 0))) ssx = {};
        sums.asx[0] += vcoul * occ * ssx * m;
        sums.ach[0] += 0.5 * (vcoul * sch * m);
      }
      sums.next();
    }
  }
  sums.store(pass);
}
#endif

constexpr OperationCounts kSquaredModuliCosts{
    .flops = {92, 92, 0, 14}, .instructions = {62, 62, 0, 11}, .frequencies = 1};
constexpr Variant<Gpp> kSquaredModuli = with_costs<kSquaredModuliCosts, kPairs>(
    {.name = "squared_moduli",
     .changes = {"Compares squared moduli, which saves the square roots.", Step::kOperations},
     .run = ADO_RUN(run_by_frequency<gpp_squared_moduli>)});

// ---- simplified_branches ------------------------------------------------------------------------
// sch and ssx are initialised with 0, which alone does not change the time, and one condition
// controls the addition of ssx, instead of a cut-off that sets ssx to 0.
#ifdef __CUDACC__
__global__ void __launch_bounds__(kMaxThreads) gpp_simplified_branches(Inputs p, Pass<1> pass) {
  ThreadSums<1> sums;
  const std::int64_t pairs = p.rows * p.columns;
  for (std::int64_t first = block_x() * blockDim.x; first < pairs;
       first += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t pair = first + threadIdx.x, igp = pair / p.columns, ig = pair % p.columns;
    const bool own = pair < pairs;
    const Complex w = own ? p.wtilde[pair] : Complex{}, eps = own ? p.i_eps[pair] : Complex{};
#pragma unroll 1
    for (std::int64_t n = 0; n < p.bands; ++n) {
      if (own) {
        const Complex aqsn = p.aqsn[n * p.columns + ig];
        const double occ = p.occ[n], vcoul = p.vcoul[igp];
        const Complex m = conj(p.aqsm[n * p.rows + igp]) * aqsn;
        const double x = p.wx[n * p.frequencies + pass.first];
        const Complex wdiff = x - w, delw = 1 / norm(wdiff) * (w * conj(wdiff));
        const double delwr = norm(delw);
        Complex sch = {}, ssx = {};
        if (norm(wdiff) > p.limit_two && delwr < p.limit_one) {
          const Complex cden = difference_of_squares(x, w);
          ssx = 1 / norm(cden) * (w * w * eps * conj(cden));
          sch = delw * eps;
        } else if (delwr > Gpp::kTolZero) {
          const Complex cden = 2 * (w * (x + w));
          ssx = 1 / norm(cden) * (-(w * w * eps) * conj(cden));
        }
        if (occ != 0 && (x >= 0 || norm(ssx) <= p.sexcut * p.sexcut * norm(eps)))
          sums.asx[0] += vcoul * occ * ssx * m;
        sums.ach[0] += 0.5 * (vcoul * sch * m);
      }
      sums.next();
    }
  }
  sums.store(pass);
}
#endif

constexpr OperationCounts kSimplifiedBranchesCosts{
    .flops = {85, 74, 0, 14}, .instructions = {57, 48, 0, 11}, .frequencies = 1};
constexpr Variant<Gpp> kSimplifiedBranches = with_costs<kSimplifiedBranchesCosts, kPairs>(
    {.name = "simplified_branches",
     .changes = {"Initialises the terms with 0, drops the last branch, and adds ssx under one "
                 "condition.",
                 Step::kOperations, Step::kDivergence},
     .run = ADO_RUN(run_by_frequency<gpp_simplified_branches>)});

// ---- blocked, swapped_indices, large_blocks -----------------------------------------------------
// Cache blocking as in the paper's code. It takes 187 ms instead of 167 ms (H200, si214). The loop
// over (band block, igp, column block) is distributed over the threads. Each thread processes every
// blocks.bands-th band and every blocks.columns-th ig. If kTransposed, wx and aqsm are indexed
// [frequency][band] and [igp][band].

// The numbers of blocks into which `blocked` splits the bands and ig, as in the paper's code.
struct CacheBlocks {
  std::int64_t bands, columns;
};
CacheBlocks cache_blocks_of(const Gpp& p) {
  constexpr std::int64_t kBandBlocks = 64, kColumnBlocks = 128;
  return {std::min(p.bands(), kBandBlocks), std::min(p.columns(), kColumnBlocks)};
}
std::int64_t blocked_triples_of(const Gpp& p) {
  const CacheBlocks blocks = cache_blocks_of(p);
  return blocks.bands * p.rows() * blocks.columns;
}

// Grid-stride loops over cache blocks.
PassWork work_of_cache_blocks(const Gpp& p, std::int64_t threads) {
  const CacheBlocks blocks = cache_blocks_of(p);
  const std::int64_t terms =
      ceil_div(p.columns(), blocks.columns) * ceil_div(p.bands(), blocks.bands);
  return work_of(p, pairs_of(p), blocks.bands,
                 iterations(blocked_triples_of(p), threads) * static_cast<double>(terms));
}

constexpr Decomposition kBlocksOfTriples{
    .blocks = kBlocks,
    .grid = [](const Gpp& p, Extent block) { return grid_stride(blocked_triples_of(p), block); },
    .scratch_bytes = [](const Gpp& p) { return grid_stride_partial_bytes(blocked_triples_of(p)); },
    .bytes = [](const Gpp& p,
                int most) { return bytes_of_loads(p, cache_blocks_of(p).bands, most); },
    .work = work_of_cache_blocks};

constexpr OperationCounts kBlockedCosts{
    .flops = {88, 77, 0, 18}, .instructions = {59, 50, 0, 14}, .frequencies = 1};

#ifdef __CUDACC__
template <bool kTransposed>
__device__ void add_blocks(const Inputs& p, const Pass<1>& pass, CacheBlocks blocks) {
  ThreadSums<1> sums;
  const std::int64_t threads = blocks.bands * p.rows * blocks.columns;
  for (std::int64_t first = block_x() * blockDim.x; first < threads;
       first += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t thread = first + threadIdx.x;
    const std::int64_t column_block = thread % blocks.columns, others = thread / blocks.columns;
    const std::int64_t igp = others % p.rows, band_block = others / p.rows;
#pragma unroll 1
    for (std::int64_t column = 0; column < p.columns; column += blocks.columns) {
      const std::int64_t ig = column + column_block, pair = igp * p.columns + ig;
      const bool own = thread < threads && ig < p.columns;
      const Complex w = own ? p.wtilde[pair] : Complex{}, eps = own ? p.i_eps[pair] : Complex{};
#pragma unroll 1
      for (std::int64_t band = 0; band < p.bands; band += blocks.bands) {
        if (const std::int64_t n = band + band_block; own && n < p.bands) {
          const Complex aqsn = p.aqsn[n * p.columns + ig];
          const double occ = p.occ[n], vcoul = p.vcoul[igp];
          const Complex m = conj(p.aqsm[kTransposed ? igp * p.bands + n : n * p.rows + igp]) * aqsn;
          const auto energy = [&](int i) {
            const std::int64_t f = pass.first + i;
            return p.wx[kTransposed ? f * p.bands + n : n * p.frequencies + f];
          };
          add_simplified_terms(p, occ, vcoul, w, eps, m, energy, sums);
        }
        sums.next();
      }
    }
  }
  sums.store(pass);
}

template <void (*kKernel)(Inputs, Pass<1>, CacheBlocks)>
void run_blocked(const Gpp& p, const Launch& go, const Inputs& inputs) {
  run_passes<1>(
      p, go, [&](const Pass<1>& pass) { launch(go, kKernel, inputs, pass, cache_blocks_of(p)); });
}
#endif

// ---- blocked ------------------------------------------------------------------------------------
#ifdef __CUDACC__
__global__ void __launch_bounds__(kMaxThreads)
    gpp_blocked(Inputs p, Pass<1> pass, CacheBlocks blocks) {
  add_blocks<false>(p, pass, blocks);
}
#endif

constexpr Variant<Gpp> kBlocked = with_costs<kBlockedCosts, kBlocksOfTriples>(
    {.name = "blocked",
     .changes = {"Splits bands into 64 blocks and ig into 128 blocks for the caches; each "
                 "thread loops over one block.",
                 Step::kReuse, Step::kDramReuse},
     .run = ADO_RUN(
         [](const Gpp& p, const Launch& go) { run_blocked<gpp_blocked>(p, go, inputs_of(p)); })});

// ---- swapped_indices, large_blocks --------------------------------------------------------------
// wx and aqsm are transposed in scratch memory first, behind the partial sums.
constexpr Decomposition kTransposed{
    .blocks = kBlocks,
    .grid = kBlocksOfTriples.grid,
    .scratch_bytes =
        [](const Gpp& p) {
          return grid_stride_partial_bytes(blocked_triples_of(p)) +
                 static_cast<std::size_t>(p.aqsm.bytes() + p.wx.bytes());
        },
    .bytes = kBlocksOfTriples.bytes,
    .work = work_of_cache_blocks};

#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kMaxThreads)
    gpp_transpose(const T* from, T* to, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = thread_x(); i < rows * columns; i += std::int64_t{gridDim.x} * blockDim.x)
    to[i] = from[i % rows * columns + i / rows];
}

// Transposes `matrix` into the memory at `to`, and advances `to` past it.
template <class T>
const T* transposed(const Launch& go, const Array& matrix, std::byte*& to) {
  T* const swapped = reinterpret_cast<T*>(to);
  to += matrix.bytes();
  Launch transposing = go;
  transposing.block = {kMaxThreads};
  transposing.grid = grid_stride(matrix.elements(), transposing.block);
  launch(transposing, gpp_transpose<T>, matrix.as<const T>(), swapped, matrix.shape[0],
         matrix.shape[1]);
  return swapped;
}

template <void (*kKernel)(Inputs, Pass<1>, CacheBlocks)>
void run_transposed(const Gpp& p, const Launch& go) {
  std::byte* free = go.scratch + grid_stride_partial_bytes(blocked_triples_of(p));
  Inputs inputs = inputs_of(p);
  inputs.aqsm = transposed<Complex>(go, p.aqsm, free);
  inputs.wx = transposed<double>(go, p.wx, free);
  run_blocked<kKernel>(p, go, inputs);
}
#endif

// ---- swapped_indices ----------------------------------------------------------------------------
// The distance in aqsm between consecutive bands of a thread is 64 elements instead of 64 rows.
// This makes no difference (H200, si214).
#ifdef __CUDACC__
__global__ void __launch_bounds__(kMaxThreads)
    gpp_swapped_indices(Inputs p, Pass<1> pass, CacheBlocks blocks) {
  add_blocks<true>(p, pass, blocks);
}
#endif

constexpr Variant<Gpp> kSwappedIndices = with_costs<kBlockedCosts, kTransposed>(
    {.name = "swapped_indices",
     .changes = {"Transposes wx and aqsm first, so that bands are contiguous.", Step::kCoalescing},
     .run = ADO_RUN(run_transposed<gpp_swapped_indices>)});

// ---- large_blocks -------------------------------------------------------------------------------
// The largest block that allows 128 registers per thread. On sm_90, nvcc uses at most 76 registers
// with any bounds, and the large blocks are slower.
constexpr int kLargeThreads = 512;

#ifdef __CUDACC__
__global__ void __launch_bounds__(kLargeThreads)
    gpp_large_blocks(Inputs p, Pass<1> pass, CacheBlocks blocks) {
  add_blocks<true>(p, pass, blocks);
}
#endif

constexpr Decomposition kTransposedLarge{
    .blocks = {{{kLargeThreads}, {256}, {128}, {64}, {kMinThreads}}},
    .grid = kTransposed.grid,
    .scratch_bytes = kTransposed.scratch_bytes,
    .bytes = kTransposed.bytes,
    .work = work_of_cache_blocks};

constexpr Variant<Gpp> kLargeBlocks = with_costs<kBlockedCosts, kTransposedLarge>(
    {.name = "large_blocks",
     .changes = {"Uses blocks of 512 threads, with matching launch bounds.", Step::kOccupancy},
     .run = ADO_RUN(run_transposed<gpp_large_blocks>)});

// ---- hoisted_invariants -------------------------------------------------------------------------
// Everything that depends only on (igp, ig) is hoisted out of the loop over bands, with one
// (igp, ig) per thread. Only real coefficients remain in the loop. A full band has an occupation of
// 1 and no negative energies, an empty band an occupation of 0.
//
// With w = a + ib, d = a - x, q = a + x, u = 1 / (d^2 + b^2) and v = 1 / (q^2 + b^2):
//
//   far from the pole    sch / (I w) = -d u + ib u
//                        ssx / (I w / 2) = -2a (d q + b^2) u v + ib (u + v)
//   near the pole        ssx / (I w / 2) = -q v + ib v
//
// "Far from the pole" means the first branch of the formulas, "near the pole" the second.
//
// Far from the pole, ssx / (I w / 2) = 2w / (x^2 - w^2) = 1 / (x - w) - 1 / (x + w). Near the pole,
// ssx / (I w / 2) = -2w delw / (4 w^2 (delw + 1/2)), with delw inserted. So with m = conj(aqsm)
// aqsn, it is enough to sum four real coefficients times m. The factors w, I and ib are applied
// after the loop. The two tests of the first branch become one, 1/u > limit. The cut-off |ssx| >
// sexcut |I| compares 1 / (u v) with |w|^4 far from the pole, and 1/v with |w|^2 / 4 near the pole.
//
// The kernel sums four real coefficients times m, in segments of kLongestSum bands. The error bound
// allows segments of this length to be summed without compensation.
#ifdef __CUDACC__
template <int kF>
__global__ void __launch_bounds__(kHoistedThreads, 2)
    gpp_hoisted_invariants(Inputs p, Pass<kF> pass) {
  ThreadSums<kF> sums;
  const std::int64_t igp = block_y(), ig = thread_x();
  const bool own = igp < p.rows && ig < p.columns;
  const Pole w = pole_of(p, own ? p.wtilde[igp * p.columns + ig] : Complex{});
#pragma unroll 1
  for (std::int64_t first = 0; first < p.bands; first += Gpp::kLongestSum) {
    const std::int64_t last = min(first + Gpp::kLongestSum, p.bands);
    PairSums<kF> pair_sums;
    if (own) {
#pragma unroll 1
      for (std::int64_t n = first; n < last; ++n) {
        const Complex m = conj(p.aqsm[n * p.rows + igp]) * p.aqsn[n * p.columns + ig];
        const double occ = p.occ[n];
#pragma unroll
        for (int f = 0; f < kF; ++f) {
          const double x = p.wx[n * p.frequencies + pass.first + f];
          const double d = w.a - x, q = w.a + x;
          const double den = fma(d, d, w.b2), den_plus = fma(q, q, w.b2);
          const double w2 = squared_modulus(w), sexcut2 = p.sexcut * p.sexcut;
          double sch = 0, sch_b = 0, ssx = 0, ssx_b = 0;
          if (den > w.limit) {  // far from the pole
            const double both = den * den_plus, uv = 1 / both, u = 1 / den;
            sch = d * u;
            sch_b = u;
            const double weight = x < 0 && sexcut2 * both < w2 * w2 ? 0 : occ;
            if (weight != 0) {
              ssx = weight * (fma(d, q, w.b2) * uv);
              ssx_b = weight * fma(uv, den, u);
            }
          } else if (den != 0 && w2 > Gpp::kTolZero * den) {  // near the pole
            const double weight = x < 0 && sexcut2 * den_plus < 0.25 * w2 ? 0 : occ;
            if (weight != 0) {
              ssx_b = weight * (1 / den_plus);
              ssx = q * w.half_inverse * ssx_b;
            }
          }
          multiply_add(pair_sums.ssx[f], ssx, m);
          multiply_add(pair_sums.ssx_b[f], ssx_b, m);
          multiply_add(pair_sums.sch_b[f], sch_b, m);
          multiply_add(pair_sums.sch[f], sch, m);
        }
      }
    }
    add_pair(
        p, pass, own, igp, ig, w, pair_sums, last - first,
        [=](std::int64_t i) { return first + i; }, sums);
    sums.next();
  }
  sums.store(pass);
}
#endif

constexpr OperationCounts kHoistedCosts{.flops = {55, 38, 6, 135}, .instructions = {32, 22, 4, 92}};
constexpr Variant<Gpp> kHoistedInvariants = with_costs<kHoistedCosts, kThreadPerPair>(
    {.name = "hoisted_invariants",
     .changes = {"Hoists everything that does not depend on the band out of the loop; one "
                 "thread per (igp, ig) sums real coefficients for two frequencies.",
                 Step::kOperations},
     .run = ADO_RUN(run_in_passes<gpp_hoisted_invariants<1>, gpp_hoisted_invariants<2>>)});

// ---- one_reciprocal, fast_reciprocal, skip_empty_bands, branch_free -----------------------------
#ifdef __CUDACC__
// The loop of the following variants. The parameters of `add_band` are the pole, x, the occupation,
// m, the index of the frequency and the sums.
template <int kF, class AddBand>
__device__ void add_all_bands(const Inputs& p, const Pass<kF>& pass, AddBand add_band) {
  ThreadSums<kF> sums;
  const std::int64_t igp = block_y(), ig = thread_x();
  const bool own = igp < p.rows && ig < p.columns;
  const Pole w = pole_of(p, own ? p.wtilde[igp * p.columns + ig] : Complex{});
#pragma unroll 1
  for (std::int64_t first = 0; first < p.bands; first += Gpp::kLongestSum) {
    const std::int64_t last = min(first + Gpp::kLongestSum, p.bands);
    PairSums<kF> pair_sums;
    if (own) {
#pragma unroll 1
      for (std::int64_t n = first; n < last; ++n) {
        const Complex m = conj(p.aqsm[n * p.rows + igp]) * p.aqsn[n * p.columns + ig];
        const double occ = p.occ[n];
#pragma unroll
        for (int f = 0; f < kF; ++f)
          add_band(w, p.wx[n * p.frequencies + pass.first + f], occ, m, f, pair_sums);
      }
    }
    add_pair(
        p, pass, own, igp, ig, w, pair_sums, last - first,
        [=](std::int64_t i) { return first + i; }, sums);
    sums.next();
  }
  sums.store(pass);
}
#endif

// ---- one_reciprocal, fast_reciprocal, skip_empty_bands ------------------------------------------
// Computes the coefficients of hoisted_invariants with one reciprocal, r = u v,
// instead of two: u = r / v and v = r / u.
#ifdef __CUDACC__
template <double (*kReciprocal)(double)>
__device__ Coefficients by_branches(const Inputs& p, const Pole& w, double x, double occ) {
  const double d = w.a - x, q = w.a + x;
  const double den = fma(d, d, w.b2), den_plus = fma(q, q, w.b2), w2 = squared_modulus(w);
  Coefficients c = {};
  if (den > w.limit) {
    const double both = den * den_plus, r = kReciprocal(both);
    c.sch_b = r * den_plus;
    c.sch = d * c.sch_b;
    if (const double weight = weight_of(p, x, occ, w2 * w2, both); weight != 0) {
      c.ssx = weight * (fma(d, q, w.b2) * r);
      c.ssx_b = weight * fma(r, den, c.sch_b);
    }
  } else if (den != 0 && w2 > Gpp::kTolZero * den) {
    if (const double weight = weight_of(p, x, occ, 0.25 * w2, den_plus); weight != 0) {
      const double v = weight * kReciprocal(den_plus);
      c.ssx = q * w.half_inverse * v;
      c.ssx_b = v;
    }
  }
  return c;
}
#endif

// ---- one_reciprocal -----------------------------------------------------------------------------
#ifdef __CUDACC__
__device__ inline double exact_reciprocal(double x) { return 1 / x; }

template <int kF>
__global__ void __launch_bounds__(kHoistedThreads, 2) gpp_one_reciprocal(Inputs p, Pass<kF> pass) {
  add_all_bands(p, pass,
                [&](const Pole& w, double x, double occ, Complex m, int f, PairSums<kF>& sums) {
                  const Coefficients c = by_branches<exact_reciprocal>(p, w, x, occ);
                  sums.add_exchange(f, c, m);
                  sums.add_coulomb_hole(f, c, m);
                });
}
#endif

constexpr OperationCounts kOneReciprocalCosts{.flops = {46, 39, 6, 135},
                                              .instructions = {28, 23, 4, 92}};
constexpr Variant<Gpp> kOneReciprocal = with_costs<kOneReciprocalCosts, kThreadPerPair>(
    {.name = "one_reciprocal",
     .changes = {"Shares one division between both quotients.", Step::kOperations},
     .run = ADO_RUN(run_in_passes<gpp_one_reciprocal<1>, gpp_one_reciprocal<2>>)});

// ---- fast_reciprocal, skip_empty_bands ----------------------------------------------------------
#ifdef __CUDACC__
__device__ inline double fast_reciprocal(double x) { return approximate_reciprocal(x); }
#endif

// ---- fast_reciprocal ----------------------------------------------------------------------------
#ifdef __CUDACC__
template <int kF>
__global__ void __launch_bounds__(kHoistedThreads, 2) gpp_fast_reciprocal(Inputs p, Pass<kF> pass) {
  add_all_bands(p, pass,
                [&](const Pole& w, double x, double occ, Complex m, int f, PairSums<kF>& sums) {
                  const Coefficients c = by_branches<fast_reciprocal>(p, w, x, occ);
                  sums.add_exchange(f, c, m);
                  sums.add_coulomb_hole(f, c, m);
                });
}
#endif

constexpr OperationCounts kFastReciprocalCosts{.flops = {39, 32, 6, 135},
                                               .instructions = {24, 19, 4, 92}};
constexpr Variant<Gpp> kFastReciprocal = with_costs<kFastReciprocalCosts, kThreadPerPair>(
    {.name = "fast_reciprocal",
     .changes = {"Hardware reciprocal approximation plus one cubic refinement.", Step::kOperations},
     .run = ADO_RUN(run_in_passes<gpp_fast_reciprocal<1>, gpp_fast_reciprocal<2>>)});

// ---- skip_empty_bands ---------------------------------------------------------------------------
#ifdef __CUDACC__
template <int kF>
__global__ void __launch_bounds__(kHoistedThreads, 2)
    gpp_skip_empty_bands(Inputs p, Pass<kF> pass) {
  add_all_bands(p, pass,
                [&](const Pole& w, double x, double occ, Complex m, int f, PairSums<kF>& sums) {
                  Coefficients c;
                  if (occ == 0) {
                    c = coulomb_hole(w, x);
                  } else {
                    c = by_branches<fast_reciprocal>(p, w, x, occ);
                    sums.add_exchange(f, c, m);
                  }
                  sums.add_coulomb_hole(f, c, m);
                });
}
#endif

constexpr OperationCounts kSkipEmptyBandsCosts{.flops = {39, 18, 6, 135},
                                               .instructions = {24, 10, 4, 92}};
constexpr Variant<Gpp> kSkipEmptyBands = with_costs<kSkipEmptyBandsCosts, kThreadPerPair>(
    {.name = "skip_empty_bands",
     .changes = {"Skips asx for bands with an occupation of 0.", Step::kOperations},
     .run = ADO_RUN(run_in_passes<gpp_skip_empty_bands<1>, gpp_skip_empty_bands<2>>)});

// ---- branch_free --------------------------------------------------------------------------------
#ifdef __CUDACC__
template <int kF>
__global__ void __launch_bounds__(kHoistedThreads, 2) gpp_branch_free(Inputs p, Pass<kF> pass) {
  add_all_bands(p, pass,
                [&](const Pole& w, double x, double occ, Complex m, int f, PairSums<kF>& sums) {
                  Coefficients c;
                  if (occ == 0) {
                    c = coulomb_hole(w, x);
                  } else {
                    c = by_selection<false>(p, w, x, occ);
                    sums.add_exchange(f, c, m);
                  }
                  sums.add_coulomb_hole(f, c, m);
                });
}
#endif

constexpr OperationCounts kBranchFreeCosts{.flops = {41, 18, 6, 133},
                                           .instructions = {27, 10, 4, 90}};
constexpr Variant<Gpp> kBranchFree = with_costs<kBranchFreeCosts, kThreadPerPair>(
    {.name = "branch_free",
     .changes = {"Selects between the results of both branches instead of branching.",
                 Step::kDivergence},
     .run = ADO_RUN(run_in_passes<gpp_branch_free<1>, gpp_branch_free<2>>)});

// -------------------------------------------------------------------------------------------------

constexpr Variant<Gpp> kSteps[] = {
    kCollapse3,          kBandsInside,    kFrequencyOutside, kReciprocal,  kSquaredModuli,
    kSimplifiedBranches, kBlocked,        kSwappedIndices,   kLargeBlocks, kHoistedInvariants,
    kOneReciprocal,      kFastReciprocal, kSkipEmptyBands,   kBranchFree};

}  // namespace
}  // namespace ado::cuda::gpp

namespace ado::cuda {

Ladder<Gpp> gpp_steps() { return ladder_of(gpp::kSteps); }

}  // namespace ado::cuda

#ifdef STANDALONE
#include <complex>

#include "common/standalone.cuh"

int main() {
  using namespace ado;
  using Complex = std::complex<double>;
  constexpr std::int64_t kBands = 100, kRows = 32, kColumns = 256, kFrequencies = 2;
  Gpp p;
  p.wtilde = cuda::random_array(kComplex128, {kRows, kColumns});
  p.i_eps = cuda::random_array(kComplex128, {kRows, kColumns});
  p.aqsn = cuda::random_array(kComplex128, {kBands, kColumns});
  p.aqsm = cuda::random_array(kComplex128, {kBands, kRows});
  p.wx = cuda::random_array(kFloat64, {kBands, kFrequencies});
  p.vcoul = cuda::random_array(kFloat64, {kRows});
  p.occ = cuda::random_array(kFloat64, {kBands});
  p.asx = cuda::random_array(kComplex128, {kFrequencies});
  p.ach = cuda::random_array(kComplex128, {kFrequencies});
  for (std::int64_t i = 0; i < p.wx.elements(); ++i)  // from -2 to 4
    p.wx.as<double>()[i] = 6 * p.wx.as<double>()[i] - 2;
  for (std::int64_t n = 0; n < kBands; ++n)
    if (n % 3 != 0) p.occ.as<double>()[n] = n % 3 - 1;
  return cuda::run_ladder(cuda::gpp_steps(), p, [](const Gpp& p) {
    for (std::int64_t f = 0; f < kFrequencies; ++f) {
      std::complex<long double> asx = 0, ach = 0;
      for (std::int64_t n = 0; n < kBands; ++n)
        for (std::int64_t igp = 0; igp < kRows; ++igp)
          for (std::int64_t ig = 0; ig < kColumns; ++ig) {
            const Complex w = p.wtilde.as<const Complex>()[igp * kColumns + ig],
                          eps = p.i_eps.as<const Complex>()[igp * kColumns + ig],
                          m = p.vcoul.as<const double>()[igp] *
                              std::conj(p.aqsm.as<const Complex>()[n * kRows + igp]) *
                              p.aqsn.as<const Complex>()[n * kColumns + ig];
            const double x = p.wx.as<const double>()[n * kFrequencies + f];
            const Complex wdiff = x - w, delw = w / wdiff;
            Complex sch = 0, ssx = 0;
            if (std::norm(wdiff) > p.limit_two() && std::norm(delw) < p.limit_one()) {
              sch = eps * delw;
              ssx = eps * w * w / (wdiff * (x + w));
            } else if (std::norm(delw) > Gpp::kTolZero) {
              ssx = -eps * w / (2.0 * (x + w));
            }
            if (x < 0 && std::abs(ssx) > p.sexcut * std::abs(eps)) ssx = 0;
            asx -= p.occ.as<const double>()[n] * ssx * m;
            ach += 0.5 * sch * m;
          }
      p.asx.as<Complex>()[f] = Complex(asx);
      p.ach.as<Complex>()[f] = Complex(ach);
    }
  });
}
#endif
