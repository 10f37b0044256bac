// The GPP self-energy on the GPU: the rungs, what they ask for and what they cost.
#include "routines/gpp.hpp"

#include "gpp/hoisted.cuh"
#include "gpp/published.cuh"
#include "gpp/tiled.cuh"

namespace ado::cuda {
namespace {

using namespace gpp;

constexpr double kComplexBytes = 16;

// Loads that differ from lane to lane: aqsn in each (band, igp, ig), and wtilde and i_eps so often
// in each (igp, ig); all that in each pass of at most kMost frequencies.
template <int kMost>
double bytes_of_loads(const Gpp& p, std::int64_t pair_loads) {
  const double loads =
      static_cast<double>(pairs_of(p)) * static_cast<double>(p.bands() + 2 * pair_loads);
  return kComplexBytes * loads * static_cast<double>(ceil_div(p.frequencies(), kMost));
}

// How a rung spreads the problem over threads.
struct Spread {
  Blocks blocks;
  Extent (*grid)(const Gpp&, Extent block);
  std::size_t (*scratch_bytes)(const Gpp&);
  double (*bytes)(const Gpp&);
};

constexpr Blocks kBlocks = {{{kThreads}, {64}, {256}, {32}}};

// Threads take (band, igp, ig) in turns, or (igp, ig), or blocks of them.
constexpr Spread kTriples{
    .blocks = kBlocks,
    .grid = [](const Gpp& p, Extent block) { return grid_in_turns(triples_of(p), block); },
    .scratch_bytes = [](const Gpp& p) { return bytes_of_partials_in_turns(triples_of(p)); },
    .bytes = [](const Gpp& p) { return bytes_of_loads<kMostFrequencies>(p, p.bands()); }};

constexpr Spread kPairs{
    .blocks = kBlocks,
    .grid = [](const Gpp& p, Extent block) { return grid_in_turns(pairs_of(p), block); },
    .scratch_bytes = [](const Gpp& p) { return bytes_of_partials_in_turns(pairs_of(p)); },
    .bytes = [](const Gpp& p) { return bytes_of_loads<kMostFrequencies>(p, 1); }};

constexpr Spread kPairsByFrequency{.blocks = kBlocks,
                                   .grid = kPairs.grid,
                                   .scratch_bytes = kPairs.scratch_bytes,
                                   .bytes = [](const Gpp& p) { return bytes_of_loads<1>(p, 1); }};

constexpr Spread kBlocksOfTriples{
    .blocks = kBlocks,
    .grid = [](const Gpp& p, Extent block) { return grid_in_turns(blocks_of_triples(p), block); },
    .scratch_bytes = [](const Gpp& p) { return bytes_of_partials_in_turns(blocks_of_triples(p)); },
    .bytes = [](const Gpp& p) { return bytes_of_loads<1>(p, blocking_of(p).bands); }};

constexpr Spread kTransposed{.blocks = kBlocks,
                             .grid = kBlocksOfTriples.grid,
                             .scratch_bytes = scratch_of_transposed,
                             .bytes = kBlocksOfTriples.bytes};

constexpr Spread kTransposedLarge{.blocks = {{{kLargeThreads}, {256}, {128}, {64}, {32}}},
                                  .grid = kTransposed.grid,
                                  .scratch_bytes = kTransposed.scratch_bytes,
                                  .bytes = kTransposed.bytes};

// A grid of threads, one an (igp, ig).
constexpr Spread kLanes{
    .blocks = kBlocks,
    .grid = grid_of_lanes,
    .scratch_bytes =
        [](const Gpp& p) { return bytes_of_partials(volume_of(grid_of_lanes(p, {kWarp}))); },
    .bytes = kPairs.bytes};

// Tiles of them; aqsn is loaded once for each, after it has been gathered.
template <int kRows>
constexpr Spread kTiles{
    .blocks = {{{kTileWarps * kWarp}}},
    .grid = [](const Gpp& p, Extent) { return grid_of_tiles<kRows>(p); },
    .scratch_bytes =
        [](const Gpp& p) {
          return bytes_of_partials(volume_of(grid_of_tiles<kRows>(p))) + bytes_of_sorted<kRows>(p);
        },
    .bytes =
        [](const Gpp& p) {
          const auto bands = static_cast<double>(p.bands()),
                     columns = static_cast<double>(p.columns());
          const auto tiles = static_cast<double>(tiling_of<kRows>(p).across);
          const auto passes = static_cast<double>(ceil_div(p.frequencies(), kMostFrequencies));
          return kComplexBytes *
                 (2 * bands * columns +
                  passes * (tiles * bands * columns + 2 * static_cast<double>(pairs_of(p))));
        }};

template <Work kWork>
constexpr Variant<Gpp> rung(const char* name, const char* changes, const Spread& spread,
                            void (*run)(const Gpp&, const Launch&)) {
  return {.name = name,
          .changes = changes,
          .device = Device::kCuda,
          .precision = Gpp::kPrecision,
          .blocks = spread.blocks,
          .grid = spread.grid,
          .scratch_bytes = spread.scratch_bytes,
          .flops = flops_of<kWork>,
          .bytes = spread.bytes,
          .instructions = instructions_of<kWork>,
          .run = run};
}

// Counted in the SASS of sm_90 along the first branch, where x is positive if the band is occupied
// and negative if not.
constexpr Work kCollapse3{
    .flops = {123, 123, 42}, .instructions = {72, 72, 33}, .frequencies = kMostFrequencies};
constexpr Work kBandsInside{
    .flops = {116, 116, 38}, .instructions = {66, 66, 30}, .frequencies = kMostFrequencies};
constexpr Work kFrequencyOutside{.flops = {154, 154}, .instructions = {96, 96}};
constexpr Work kReciprocal{.flops = {118, 118}, .instructions = {78, 78}};
constexpr Work kSquaredModuli{.flops = {92, 92}, .instructions = {62, 62}};
constexpr Work kSimplifiedBranches{.flops = {85, 74}, .instructions = {57, 48}};
constexpr Work kBlocked{.flops = {88, 77}, .instructions = {59, 50}};

constexpr Work kHoisted{
    .flops = {52, 35, 6}, .instructions = {30, 20, 4}, .frequencies = kMostFrequencies};
constexpr Work kOneReciprocal{
    .flops = {43, 36, 6}, .instructions = {26, 21, 4}, .frequencies = kMostFrequencies};
constexpr Work kFastReciprocal{
    .flops = {39, 32, 6}, .instructions = {24, 19, 4}, .frequencies = kMostFrequencies};
constexpr Work kOccupiedApart{
    .flops = {39, 18, 6}, .instructions = {24, 10, 4}, .frequencies = kMostFrequencies};
constexpr Work kBranchFree{
    .flops = {41, 18, 6}, .instructions = {27, 10, 4}, .frequencies = kMostFrequencies};
constexpr Work kTiled{
    .flops = {35, 18, 6}, .instructions = {21, 10, 4}, .frequencies = kMostFrequencies};

constexpr Variant<Gpp> kVariants[] = {
    rung<kCollapse3>("collapse3",
                     "A thread an item of all three loops, with divisions and square roots; the "
                     "frequencies inside.",
                     kTriples, ADO_RUN(run_in_passes<gpp_collapse3<1>, gpp_collapse3<2>>)),
    rung<kBandsInside>("bands_inside",
                       "A thread takes all bands of its (igp, ig), which is loaded once.", kPairs,
                       ADO_RUN(run_in_passes<gpp_bands_inside<1>, gpp_bands_inside<2>>)),
    rung<kFrequencyOutside>("frequency_outside", "A launch for each frequency.", kPairsByFrequency,
                            ADO_RUN(run_by_frequency<gpp_frequency_outside>)),
    rung<kReciprocal>(
        "reciprocal",
        "Divides by a complex number by one real reciprocal, that of its squared modulus.",
        kPairsByFrequency, ADO_RUN(run_by_frequency<gpp_reciprocal>)),
    rung<kSquaredModuli>("squared_moduli", "Compares squared moduli, without square roots.",
                         kPairsByFrequency, ADO_RUN(run_by_frequency<gpp_squared_moduli>)),
    rung<kSimplifiedBranches>(
        "simplified_branches",
        "Begins with terms of 0, has no last branch, and adds ssx under one condition.",
        kPairsByFrequency, ADO_RUN(run_by_frequency<gpp_simplified_branches>)),
    rung<kBlocked>(
        "blocked",
        "Splits the bands into 64 blocks and ig into 128, whose members threads take in turns.",
        kBlocksOfTriples, ADO_RUN([](const Gpp& p, const Launch& go) {
          run_passes<1>(p, go, [&](const Pass<1>& pass) {
            launch(go, gpp_blocked, view_of(p), pass, blocking_of(p));
          });
        })),
    rung<kBlocked>("swapped_indices", "Transposes wx and aqsm first, so that bands are neighbours.",
                   kTransposed, ADO_RUN(run_transposed<gpp_swapped_indices>)),
    rung<kBlocked>("large_blocks", "Launch bounds of 512 threads, and as many in a block.",
                   kTransposedLarge, ADO_RUN(run_transposed<gpp_large_blocks>)),
    rung<kHoisted>("hoisted_invariants",
                   "Takes out of the loop what does not depend on the band, and adds up real "
                   "coefficients; frequencies inside.",
                   kLanes,
                   ADO_RUN(run_in_passes<gpp_hoisted_invariants<1>, gpp_hoisted_invariants<2>>)),
    rung<kOneReciprocal>("one_reciprocal", "One division for both quotients.", kLanes,
                         ADO_RUN(run_in_passes<gpp_one_reciprocal<1>, gpp_one_reciprocal<2>>)),
    rung<kFastReciprocal>(
        "fast_reciprocal", "The table's reciprocal and one cubic step instead of a division.",
        kLanes, ADO_RUN(run_in_passes<gpp_fast_reciprocal<1>, gpp_fast_reciprocal<2>>)),
    rung<kOccupiedApart>("occupied_apart", "Nothing of asx in bands that are not occupied.", kLanes,
                         ADO_RUN(run_in_passes<gpp_occupied_apart<1>, gpp_occupied_apart<2>>)),
    rung<kBranchFree>("branch_free", "Selects the numbers of either branch instead of branching.",
                      kLanes, ADO_RUN(run_in_passes<gpp_branch_free<1>, gpp_branch_free<2>>)),
    rung<kTiled>("tiled", "Blocks of 32 ig by 4 igp, with sorted bands staged in shared memory.",
                 kTiles<1>, ADO_RUN(run_tiles<1>)),
    rung<kTiled>("two_rows", "Two igp a thread, which share what is loaded of a band.", kTiles<2>,
                 ADO_RUN(run_tiles<2>)),
};

}  // namespace

Ladder<Gpp> gpp_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda
