// The GPP self-energy on the GPU: the ladder.
//
// Steps, to be read beside the post and the paper ("8 Steps to 3.7 TFLOP/s"), in this order:
//
//   model.cuh            complex numbers, and the formulas where they cancel
//   passes.cuh           why and how sums over threads and blocks are exact enough
//   published_steps.cuh  each step of the post and the paper, with its place in both
//   hoisting.cuh         the steps after the paper: fewer operations per band
//
// Engine, for the speed of the default call: engine_sorting.cuh (bands by kind and energy),
// engine_single_launch.cuh (small problems), engine_tiling.cuh, engine_moments.cuh and
// engine_split_tiles.cuh (large problems). engine_timing.cuh predicts the times by which a call
// chooses among them; costs.cuh has the grids, loads and operations.
#include "gpp/costs.cuh"

namespace ado::cuda {
namespace {

using namespace gpp;

// With few terms, sorting costs more time than it saves. moments computes the constants of each
// pair twice, which costs more time than it saves with few bands.
const char* why_two_rows_is_slower(const Gpp& p, const Hardware& gpu) {
  return seconds_of_two_rows(p, gpu) < seconds_of_single_launch(p, gpu)
             ? nullptr
             : "single_launch is faster: sorting and more launches cost more time than they save";
}
const char* why_moments_is_slower(const Gpp& p, const Hardware& gpu) {
  const double seconds = seconds_of_moments(p, gpu);
  if (seconds < std::min(seconds_of_two_rows(p, gpu), seconds_of_single_launch(p, gpu)))
    return nullptr;
  if (const char* reason = why_two_rows_is_slower(p, gpu)) return reason;
  return "two_rows is faster: there are too few bands for two launches";
}

constexpr Variant<Gpp> kVariants[] = {
    // The post and the paper (published_steps.cuh).
    with_costs<kCollapse3, kTriples>(
        {.name = "collapse3",
         .changes = {"Collapses the three loops and distributes their items over the threads, with "
                     "complex divisions and square roots."},
         .run = ADO_RUN(run_in_passes<gpp_collapse3<1>, gpp_collapse3<2>>)}),
    with_costs<kBandsInside, kPairs>(
        {.name = "bands_inside",
         .changes = {"Each thread loops over all bands of an (igp, ig) and loads wtilde and i_eps "
                     "only once.",
                     Step::kReuse, Step::kDramReuse},
         .run = ADO_RUN(run_in_passes<gpp_bands_inside<1>, gpp_bands_inside<2>>)}),
    with_costs<kFrequencyOutside, kPairs>(
        {.name = "frequency_outside",
         .changes = {"Launches the kernel once per frequency.", Step::kOccupancy},
         .run = ADO_RUN(run_by_frequency<gpp_frequency_outside>)}),
    with_costs<kReciprocal, kPairs>(
        {.name = "reciprocal",
         .changes = {"Multiplies by the reciprocal of the squared modulus instead of dividing.",
                     Step::kOperations},
         .run = ADO_RUN(run_by_frequency<gpp_reciprocal>)}),
    with_costs<kSquaredModuli, kPairs>(
        {.name = "squared_moduli",
         .changes = {"Compares squared moduli, which saves the square roots.", Step::kOperations},
         .run = ADO_RUN(run_by_frequency<gpp_squared_moduli>)}),
    with_costs<kSimplifiedBranches, kPairs>(
        {.name = "simplified_branches",
         .changes = {"Initialises the terms with 0, drops the last branch, and adds ssx under one "
                     "condition.",
                     Step::kOperations, Step::kDivergence},
         .run = ADO_RUN(run_by_frequency<gpp_simplified_branches>)}),
    with_costs<kBlocked, kBlocksOfTriples>(
        {.name = "blocked",
         .changes = {"Splits bands into 64 blocks and ig into 128 blocks for the caches; each "
                     "thread loops over one block.",
                     Step::kReuse, Step::kDramReuse},
         .run = ADO_RUN([](const Gpp& p, const Launch& go) {
           run_blocked<gpp_blocked>(p, go, inputs_of(p));
         })}),
    with_costs<kBlocked, kTransposed>(
        {.name = "swapped_indices",
         .changes = {"Transposes wx and aqsm first, so that bands are contiguous.",
                     Step::kCoalescing},
         .run = ADO_RUN(run_transposed<gpp_swapped_indices>)}),
    with_costs<kBlocked, kTransposedLarge>(
        {.name = "large_blocks",
         .changes = {"Uses blocks of 512 threads, with matching launch bounds.", Step::kOccupancy},
         .run = ADO_RUN(run_transposed<gpp_large_blocks>)}),
    // After the paper (hoisting.cuh).
    with_costs<kHoisted, kThreadPerPair>(
        {.name = "hoisted_invariants",
         .changes = {"Hoists everything that does not depend on the band out of the loop; one "
                     "thread per (igp, ig) sums real coefficients for two frequencies.",
                     Step::kOperations},
         .run = ADO_RUN(run_in_passes<gpp_hoisted_invariants<1>, gpp_hoisted_invariants<2>>)}),
    with_costs<kOneReciprocal, kThreadPerPair>(
        {.name = "one_reciprocal",
         .changes = {"Shares one division between both quotients.", Step::kOperations},
         .run = ADO_RUN(run_in_passes<gpp_one_reciprocal<1>, gpp_one_reciprocal<2>>)}),
    with_costs<kFastReciprocal, kThreadPerPair>(
        {.name = "fast_reciprocal",
         .changes = {"Hardware reciprocal approximation plus one cubic refinement.",
                     Step::kOperations},
         .run = ADO_RUN(run_in_passes<gpp_fast_reciprocal<1>, gpp_fast_reciprocal<2>>)}),
    with_costs<kSkipEmptyBands, kThreadPerPair>(
        {.name = "skip_empty_bands",
         .changes = {"Skips asx for bands with an occupation of 0.", Step::kOperations},
         .run = ADO_RUN(run_in_passes<gpp_skip_empty_bands<1>, gpp_skip_empty_bands<2>>)}),
    with_costs<kBranchFree, kThreadPerPair>(
        {.name = "branch_free",
         .changes = {"Selects between the results of both branches instead of branching.",
                     Step::kDivergence},
         .run = ADO_RUN(run_in_passes<gpp_branch_free<1>, gpp_branch_free<2>>)}),
    // Engine.
    with_costs<kSortedBands, kSortedPairs>(
        {.name = "sorted_bands",
         .changes = {"Sorts bands by occupation: full bands with non-negative energies skip the "
                     "weight and the cut-off test.",
                     Step::kOperations, Step::kDivergence},
         .run = ADO_RUN(run_sorted_bands)}),
    with_costs<kFarFromPoles, kSortedWarps>(
        {.name = "sorted_by_energy",
         .changes = {"Sorts bands of the same kind by energy: groups of 16 bands that are far from "
                     "all poles of a warp skip the selection.",
                     Step::kOperations, Step::kDivergence},
         .run = ADO_RUN(run_sorted_by_energy<gpp_sorted_by_energy<1>, gpp_sorted_by_energy<2>>)}),
    with_costs<kFarFromPoles, kSortedPairs2d>(
        {.name = "blocks_2d",
         .changes = {"Uses blocks of 32 ig by 4 igp, whose warps share aqsn through L1.",
                     Step::kReuse},
         .run = ADO_RUN(run_sorted_by_energy<gpp_blocks_2d<1>, gpp_blocks_2d<2>>)}),
    with_costs<kSingleLaunch, kItems>(
        {.name = "single_launch",
         .changes =
             {"Uses one launch per pass: does not sort, stages the operands in shared memory with "
              "asynchronous copies, and adds the partial sums in the block that finishes last.",
              Step::kInFlight, Step::kReuse, Step::kFusion},
         .run = ADO_RUN(run_single_launch)}),
    with_costs<kFarFromPoles, kTiles<1>>(
        {.name = "tiled",
         .changes = {"Continues blocks_2d: gathers the sorted operands and stages them in shared "
                     "memory with asynchronous copies.",
                     Step::kInFlight, Step::kReuse},
         .why_slower = [](const Gpp&) { return "two_rows or single_launch is faster"; },
         .run = ADO_RUN(run_tiles<1>)}),
    with_costs<kFarFromPoles, kTiles<2>>(
        {.name = "two_rows",
         .changes = {"Each thread computes two igp and loads aqsn once for both.", Step::kReuse},
         .why_slower = why_two_rows_is_slower,
         .run = ADO_RUN(run_tiles<2>)}),
    with_costs<kMomentSums, kSplitTiles>(
        {.name = "moments",
         .changes =
             {"Launches separate kernels for occupied and empty bands, and computes the "
              "coefficients of bands far from all poles after the loop, from sums of moments.",
              Step::kOperations},
         .why_slower = why_moments_is_slower,
         .run = ADO_RUN(run_moments)}),
};

// The second ladder, gpp_tiles, is for adokernels.distributed.
constexpr Variant<GppTiles> kTilesVariants[] = {
    {.name = "moments",
     .changes = "The last variant of gpp, with one sum per tile of rows.",
     .blocks = kSplitTiles.blocks,
     .grid = grid_of_tile_sums,
     .scratch_bytes = scratch_of_tile_sums,
     .run = ADO_RUN(run_tile_sums)},
};

}  // namespace

Ladder<Gpp> gpp_ladder() { return ladder_of(kVariants); }
Ladder<GppTiles> gpp_tiles_ladder() { return ladder_of(kTilesVariants); }

}  // namespace ado::cuda
