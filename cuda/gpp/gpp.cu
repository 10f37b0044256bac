// The GPP self-energy on the GPU: the ladder, with the resources and costs of its variants.
//
// The files in reading order: model.cuh (the formulas), passes.cuh (sums over threads and blocks),
// published_steps.cuh, pole.cuh and hoisting.cuh, sorting.cuh, tiling.cuh.
#include "routines/gpp.hpp"

#include "gpp/hoisting.cuh"
#include "gpp/published_steps.cuh"
#include "gpp/sorting.cuh"
#include "gpp/tiling.cuh"

namespace ado::cuda {
namespace {

using namespace gpp;

constexpr double kComplexBytes = 16;

// Bytes of the loads that differ between lanes. In each pass of at most kMost frequencies, these
// are aqsn for each (band, igp, ig), and wtilde and i_eps `pair_loads` times for each (igp, ig).
template <int kMost>
double bytes_of_loads(const Gpp& p, std::int64_t pair_loads) {
  const double loads =
      static_cast<double>(pairs_of(p)) * static_cast<double>(p.bands() + 2 * pair_loads);
  return kComplexBytes * loads * static_cast<double>(ceil_div(p.frequencies(), kMost));
}

// Distribution of the problem over blocks and threads: block shapes, grid, scratch memory and loads
// of a variant.
struct Decomposition {
  Blocks blocks;
  Extent (*grid)(const Gpp&, Extent block);
  std::size_t (*scratch_bytes)(const Gpp&);
  double (*bytes)(const Gpp&);
};

constexpr Blocks kBlocks = {{{kThreads}, {64}, {256}, {kMinThreads}}};

// Grid-stride loops over (band, igp, ig), over (igp, ig), or over cache blocks.
constexpr Decomposition kTriples{
    .blocks = kBlocks,
    .grid = [](const Gpp& p, Extent block) { return grid_stride(triples_of(p), block); },
    .scratch_bytes = [](const Gpp& p) { return grid_stride_partial_bytes(triples_of(p)); },
    .bytes = [](const Gpp& p) { return bytes_of_loads<kMaxFrequencies>(p, p.bands()); }};

constexpr Decomposition kPairs{
    .blocks = kBlocks,
    .grid = [](const Gpp& p, Extent block) { return grid_stride(pairs_of(p), block); },
    .scratch_bytes = [](const Gpp& p) { return grid_stride_partial_bytes(pairs_of(p)); },
    .bytes = [](const Gpp& p) { return bytes_of_loads<kMaxFrequencies>(p, 1); }};

constexpr Decomposition kPairsByFrequency{
    .blocks = kBlocks,
    .grid = kPairs.grid,
    .scratch_bytes = kPairs.scratch_bytes,
    .bytes = [](const Gpp& p) { return bytes_of_loads<1>(p, 1); }};

constexpr Decomposition kBlocksOfTriples{
    .blocks = kBlocks,
    .grid = [](const Gpp& p, Extent block) { return grid_stride(blocked_triples_of(p), block); },
    .scratch_bytes = [](const Gpp& p) { return grid_stride_partial_bytes(blocked_triples_of(p)); },
    .bytes = [](const Gpp& p) { return bytes_of_loads<1>(p, cache_blocks_of(p).bands); }};

constexpr Decomposition kTransposed{.blocks = kBlocks,
                                    .grid = kBlocksOfTriples.grid,
                                    .scratch_bytes = scratch_of_transposed,
                                    .bytes = kBlocksOfTriples.bytes};

constexpr Decomposition kTransposedLarge{
    .blocks = {{{kLargeThreads}, {256}, {128}, {64}, {kMinThreads}}},
    .grid = kTransposed.grid,
    .scratch_bytes = kTransposed.scratch_bytes,
    .bytes = kTransposed.bytes};

// One thread per (igp, ig). The smallest block has the most partial sums.
constexpr Decomposition kThreadPerPair{
    .blocks = kBlocks,
    .grid = grid_of_pairs,
    .scratch_bytes =
        [](const Gpp& p) { return partial_bytes(volume_of(grid_of_pairs(p, {kMinThreads}))); },
    .bytes = kPairs.bytes};

constexpr Decomposition kSortedPairs{
    .blocks = kBlocks,
    .grid = grid_of_pairs,
    .scratch_bytes =
        [](const Gpp& p) { return kThreadPerPair.scratch_bytes(p) + sorted_list_bytes(p); },
    .bytes = kPairs.bytes};

constexpr Decomposition kSortedPairs2d{
    .blocks = {{{32, kTileWarps}, {32, 2}, {32, 8}}},
    .grid = grid_of_pairs,
    .scratch_bytes =
        [](const Gpp& p) {
          return partial_bytes(volume_of(grid_of_pairs(p, {32, 2}))) + sorted_list_bytes(p);
        },
    .bytes = kPairs.bytes};

// Tiles of (igp, ig). aqsn is read and written once by the gather, and then loaded once per tile.
template <int kRowsPerThread>
constexpr Decomposition kTiles{
    .blocks = {{{kTileWarps * kTileColumns}}},
    .grid = [](const Gpp& p, Extent) { return grid_of_tiles<kRowsPerThread>(p); },
    .scratch_bytes =
        [](const Gpp& p) {
          return partial_bytes(volume_of(grid_of_tiles<kRowsPerThread>(p))) +
                 sorted_tiles_bytes<kRowsPerThread>(p);
        },
    .bytes =
        [](const Gpp& p) {
          const auto bands = static_cast<double>(p.bands()),
                     columns = static_cast<double>(p.columns());
          const auto tiles = static_cast<double>(tiling_of<kRowsPerThread>(p).across);
          const auto passes = static_cast<double>(ceil_div(p.frequencies(), kMaxFrequencies));
          return kComplexBytes *
                 (2 * bands * columns +
                  passes * (tiles * bands * columns + 2 * static_cast<double>(pairs_of(p))));
        }};

// Operations of a kernel per (band, igp, ig, frequency), for occupied and for empty bands, and per
// pass and (band, igp, ig). Sums over threads and blocks are not counted.
struct PerTerm {
  int occupied = 0, other = 0, pair = 0;
};
struct OperationCounts {
  PerTerm flops, instructions;
  int frequencies = 1;  // of a pass
};

double total_of(const Gpp& p, const PerTerm& counts, int frequencies) {
  const std::int64_t passes = ceil_div(p.frequencies(), frequencies);
  return p.flops_of(counts.occupied, counts.other, counts.pair * static_cast<double>(passes));
}
template <OperationCounts kCounts>
double flops_of(const Gpp& p) {
  return total_of(p, kCounts.flops, kCounts.frequencies);
}
template <OperationCounts kCounts>
double instructions_of(const Gpp& p) {
  return total_of(p, kCounts.instructions, kCounts.frequencies);
}

template <OperationCounts kCounts>
constexpr Variant<Gpp> variant_of(const char* name, const char* changes,
                                  const Decomposition& decomposition,
                                  void (*run)(const Gpp&, const Launch&)) {
  return {.name = name,
          .changes = changes,
          .device = Device::kCuda,
          .precision = Gpp::kPrecision,
          .blocks = decomposition.blocks,
          .grid = decomposition.grid,
          .scratch_bytes = decomposition.scratch_bytes,
          .flops = flops_of<kCounts>,
          .bytes = decomposition.bytes,
          .instructions = instructions_of<kCounts>,
          .run = run};
}

// Counted in the SASS of sm_90 along the first branch, with positive x for occupied bands and
// negative x for empty bands. In variants that sort bands, occupied bands count as full.
constexpr OperationCounts kCollapse3{
    .flops = {123, 123, 42}, .instructions = {72, 72, 33}, .frequencies = kMaxFrequencies};
constexpr OperationCounts kBandsInside{
    .flops = {116, 116, 38}, .instructions = {66, 66, 30}, .frequencies = kMaxFrequencies};
constexpr OperationCounts kFrequencyOutside{.flops = {154, 154}, .instructions = {96, 96}};
constexpr OperationCounts kReciprocal{.flops = {118, 118}, .instructions = {78, 78}};
constexpr OperationCounts kSquaredModuli{.flops = {92, 92}, .instructions = {62, 62}};
constexpr OperationCounts kSimplifiedBranches{.flops = {85, 74}, .instructions = {57, 48}};
constexpr OperationCounts kBlocked{.flops = {88, 77}, .instructions = {59, 50}};

constexpr OperationCounts kHoisted{
    .flops = {52, 35, 6}, .instructions = {30, 20, 4}, .frequencies = kMaxFrequencies};
constexpr OperationCounts kOneReciprocal{
    .flops = {43, 36, 6}, .instructions = {26, 21, 4}, .frequencies = kMaxFrequencies};
constexpr OperationCounts kFastReciprocal{
    .flops = {39, 32, 6}, .instructions = {24, 19, 4}, .frequencies = kMaxFrequencies};
constexpr OperationCounts kSkipEmptyBands{
    .flops = {39, 18, 6}, .instructions = {24, 10, 4}, .frequencies = kMaxFrequencies};
constexpr OperationCounts kBranchFree{
    .flops = {41, 18, 6}, .instructions = {27, 10, 4}, .frequencies = kMaxFrequencies};
constexpr OperationCounts kSortedBands{
    .flops = {36, 18, 6}, .instructions = {22, 10, 4}, .frequencies = kMaxFrequencies};
constexpr OperationCounts kFarFromPoles{
    .flops = {35, 18, 6}, .instructions = {21, 10, 4}, .frequencies = kMaxFrequencies};

constexpr Variant<Gpp> kVariants[] = {
    variant_of<kCollapse3>("collapse3",
                           "One thread per item of the collapsed triple loop, with complex "
                           "divisions and square roots.",
                           kTriples, ADO_RUN(run_in_passes<gpp_collapse3<1>, gpp_collapse3<2>>)),
    variant_of<kBandsInside>(
        "bands_inside",
        "One thread per (igp, ig) loops over all bands and loads wtilde and i_eps only once.",
        kPairs, ADO_RUN(run_in_passes<gpp_bands_inside<1>, gpp_bands_inside<2>>)),
    variant_of<kFrequencyOutside>("frequency_outside", "Launches the kernel once per frequency.",
                                  kPairsByFrequency,
                                  ADO_RUN(run_by_frequency<gpp_frequency_outside>)),
    variant_of<kReciprocal>(
        "reciprocal", "Multiplies by the reciprocal of the squared modulus instead of dividing.",
        kPairsByFrequency, ADO_RUN(run_by_frequency<gpp_reciprocal>)),
    variant_of<kSquaredModuli>("squared_moduli",
                               "Compares squared moduli, which saves the square roots.",
                               kPairsByFrequency, ADO_RUN(run_by_frequency<gpp_squared_moduli>)),
    variant_of<kSimplifiedBranches>(
        "simplified_branches",
        "Initialises the terms with 0, drops the last branch, and adds ssx under one condition.",
        kPairsByFrequency, ADO_RUN(run_by_frequency<gpp_simplified_branches>)),
    variant_of<kBlocked>("blocked",
                         "Splits bands into 64 blocks and ig into 128 blocks for the caches; each "
                         "thread loops over one block.",
                         kBlocksOfTriples, ADO_RUN([](const Gpp& p, const Launch& go) {
                           run_passes<1>(p, go, [&](const Pass<1>& pass) {
                             launch(go, gpp_blocked, inputs_of(p), pass, cache_blocks_of(p));
                           });
                         })),
    variant_of<kBlocked>("swapped_indices",
                         "Transposes wx and aqsm first, so that bands are contiguous.", kTransposed,
                         ADO_RUN(run_transposed<gpp_swapped_indices>)),
    variant_of<kBlocked>("large_blocks", "Uses blocks of 512 threads, with matching launch bounds.",
                         kTransposedLarge, ADO_RUN(run_transposed<gpp_large_blocks>)),
    variant_of<kHoisted>(
        "hoisted_invariants",
        "Hoists everything that does not depend on the band out of the loop; one thread per (igp, "
        "ig) sums real coefficients for two frequencies.",
        kThreadPerPair,
        ADO_RUN(run_in_passes<gpp_hoisted_invariants<1>, gpp_hoisted_invariants<2>>)),
    variant_of<kOneReciprocal>(
        "one_reciprocal", "Shares one division between both quotients.", kThreadPerPair,
        ADO_RUN(run_in_passes<gpp_one_reciprocal<1>, gpp_one_reciprocal<2>>)),
    variant_of<kFastReciprocal>(
        "fast_reciprocal", "Hardware reciprocal approximation plus one cubic refinement.",
        kThreadPerPair, ADO_RUN(run_in_passes<gpp_fast_reciprocal<1>, gpp_fast_reciprocal<2>>)),
    variant_of<kSkipEmptyBands>(
        "skip_empty_bands", "Skips asx for bands with an occupation of 0.", kThreadPerPair,
        ADO_RUN(run_in_passes<gpp_skip_empty_bands<1>, gpp_skip_empty_bands<2>>)),
    variant_of<kBranchFree>(
        "branch_free", "Selects between the results of both branches instead of branching.",
        kThreadPerPair, ADO_RUN(run_in_passes<gpp_branch_free<1>, gpp_branch_free<2>>)),
    variant_of<kSortedBands>("sorted_bands",
                             "Sorts bands by occupation: full bands with non-negative energies "
                             "skip the weight and the cut-off test.",
                             kSortedPairs, ADO_RUN(run_sorted_bands)),
    variant_of<kFarFromPoles>(
        "sorted_by_energy",
        "Sorts bands of the same kind by energy: groups of 16 bands that are far from all poles of "
        "a warp skip the selection.",
        kSortedPairs,
        ADO_RUN(run_sorted_by_energy<gpp_sorted_by_energy<1>, gpp_sorted_by_energy<2>>)),
    variant_of<kFarFromPoles>(
        "blocks_2d", "Uses blocks of 32 ig by 4 igp, whose warps share aqsn through L1.",
        kSortedPairs2d, ADO_RUN(run_sorted_by_energy<gpp_blocks_2d<1>, gpp_blocks_2d<2>>)),
    variant_of<kFarFromPoles>("tiled",
                              "Gathers the sorted operands and stages them in shared memory with "
                              "asynchronous copies.",
                              kTiles<1>, ADO_RUN(run_tiles<1>)),
    variant_of<kFarFromPoles>("two_rows",
                              "Each thread computes two igp and loads aqsn once for both.",
                              kTiles<2>, ADO_RUN(run_tiles<2>)),
};

}  // namespace

Ladder<Gpp> gpp_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda
