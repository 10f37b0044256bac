// The GPP self-energy on the GPU: the ladder, with the resources and costs of its variants.
//
// The files in reading order: model.cuh (the formulas), passes.cuh (sums over threads and blocks),
// published_steps.cuh, hoisting.cuh, single_launch.cuh, sorting.cuh, tiling.cuh, moments.cuh and
// split_tiles.cuh.
#include "routines/gpp.hpp"

#include <cmath>

#include "gpp/single_launch.cuh"
#include "gpp/split_tiles.cuh"

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

// The work of one pass, excluding per-term operations.
struct PassWork {
  // Bands and (igp, ig) of the loops, including padding and lanes outside the matrix.
  double occupied = 0, other = 0, pairs = 0;
  double loops = 0;  // over bands, per (igp, ig)
  double terms = 0;  // calls of ThreadSums::next per thread
};

// Distribution of the problem over blocks and threads: block shapes, grid, scratch memory, loads
// and work of a variant.
struct Decomposition {
  Blocks blocks;
  Extent (*grid)(const Gpp&, Extent block);
  std::size_t (*scratch_bytes)(const Gpp&);
  double (*bytes)(const Gpp&);
  PassWork (*work)(const Gpp&, std::int64_t threads);
};

PassWork work_of(const Gpp& p, std::int64_t pairs, std::int64_t loops, double terms) {
  return {.occupied = static_cast<double>(p.occupied()),
          .other = static_cast<double>(p.bands() - p.occupied()),
          .pairs = static_cast<double>(pairs),
          .loops = static_cast<double>(loops),
          .terms = terms};
}

// Iterations of a grid-stride loop, averaged over the threads.
double iterations(std::int64_t items, std::int64_t threads) {
  return std::max(1.0, static_cast<double>(items) / static_cast<double>(threads));
}

PassWork work_of_pairs(const Gpp& p, std::int64_t threads) {
  return work_of(p, pairs_of(p), 1,
                 iterations(pairs_of(p), threads) * static_cast<double>(p.bands()));
}

PassWork work_of_cache_blocks(const Gpp& p, std::int64_t threads) {
  const CacheBlocks blocks = cache_blocks_of(p);
  const std::int64_t terms =
      ceil_div(p.columns(), blocks.columns) * ceil_div(p.bands(), blocks.bands);
  return work_of(p, pairs_of(p), blocks.bands,
                 iterations(blocked_triples_of(p), threads) * static_cast<double>(terms));
}

// One (igp, ig) per thread. Lanes outside the matrix are idle, or execute the same operations as
// other lanes.
PassWork work_per_thread(const Gpp& p, std::int64_t pairs) {
  const std::int64_t segments = ceil_div(p.bands(), Gpp::kLongestSum);
  return work_of(p, pairs, segments, static_cast<double>(segments));
}
PassWork work_inside_matrix(const Gpp& p, std::int64_t) { return work_per_thread(p, pairs_of(p)); }
PassWork work_of_whole_warps(const Gpp& p, std::int64_t threads) {
  return work_per_thread(p, threads);
}

// Tiles also compute the padding of each kind of band. It is half of the largest padding on average
// for full and for weighted bands, whose numbers depend on the values.
template <int kRowsPerThread>
PassWork work_of_tiles(const Gpp& p, std::int64_t) {
  const Tiling tiling = tiling_of<kRowsPerThread>(p);
  const std::int64_t pairs = tiling.across * tiling.down * kTileRows<kRowsPerThread> * kTileColumns;
  PassWork work = work_of(p, pairs, tiling.segments, 0);
  if (p.occupied() > 0) work.occupied += kGroup - 1;
  work.other = static_cast<double>(round_up(p.bands() - p.occupied(), kGroup));
  return work;
}

// Bytes of the loads whose addresses differ between lanes. aqsn is loaded once per pass and tile
// along igp, and `gathers` more times. wtilde and i_eps are loaded once per pass.
double bytes_of_tiles(const Gpp& p, std::int64_t across, double gathers) {
  const auto bands = static_cast<double>(p.bands()), columns = static_cast<double>(p.columns());
  const auto passes = static_cast<double>(ceil_div(p.frequencies(), kMaxFrequencies));
  return kComplexBytes *
         (gathers * bands * columns + passes * (static_cast<double>(across) * bands * columns +
                                                2 * static_cast<double>(pairs_of(p))));
}

constexpr Blocks kBlocks = {{{kThreads}, {64}, {256}, {kMinThreads}}};

// Grid-stride loops over (band, igp, ig), over (igp, ig), or over cache blocks.
constexpr Decomposition kTriples{
    .blocks = kBlocks,
    .grid = [](const Gpp& p, Extent block) { return grid_stride(triples_of(p), block); },
    .scratch_bytes = [](const Gpp& p) { return grid_stride_partial_bytes(triples_of(p)); },
    .bytes = [](const Gpp& p) { return bytes_of_loads<kMaxFrequencies>(p, p.bands()); },
    .work =
        [](const Gpp& p, std::int64_t threads) {
          return work_of(p, pairs_of(p), p.bands(), iterations(triples_of(p), threads));
        }};

constexpr Decomposition kPairs{
    .blocks = kBlocks,
    .grid = [](const Gpp& p, Extent block) { return grid_stride(pairs_of(p), block); },
    .scratch_bytes = [](const Gpp& p) { return grid_stride_partial_bytes(pairs_of(p)); },
    .bytes = [](const Gpp& p) { return bytes_of_loads<kMaxFrequencies>(p, 1); },
    .work = work_of_pairs};

constexpr Decomposition kPairsByFrequency{
    .blocks = kBlocks,
    .grid = kPairs.grid,
    .scratch_bytes = kPairs.scratch_bytes,
    .bytes = [](const Gpp& p) { return bytes_of_loads<1>(p, 1); },
    .work = work_of_pairs};

constexpr Decomposition kBlocksOfTriples{
    .blocks = kBlocks,
    .grid = [](const Gpp& p, Extent block) { return grid_stride(blocked_triples_of(p), block); },
    .scratch_bytes = [](const Gpp& p) { return grid_stride_partial_bytes(blocked_triples_of(p)); },
    .bytes = [](const Gpp& p) { return bytes_of_loads<1>(p, cache_blocks_of(p).bands); },
    .work = work_of_cache_blocks};

constexpr Decomposition kTransposed{.blocks = kBlocks,
                                    .grid = kBlocksOfTriples.grid,
                                    .scratch_bytes = scratch_of_transposed,
                                    .bytes = kBlocksOfTriples.bytes,
                                    .work = work_of_cache_blocks};

constexpr Decomposition kTransposedLarge{
    .blocks = {{{kLargeThreads}, {256}, {128}, {64}, {kMinThreads}}},
    .grid = kTransposed.grid,
    .scratch_bytes = kTransposed.scratch_bytes,
    .bytes = kTransposed.bytes,
    .work = work_of_cache_blocks};

// One thread per (igp, ig). The smallest block has the most partial sums.
constexpr Decomposition kThreadPerPair{
    .blocks = kBlocks,
    .grid = grid_of_pairs,
    .scratch_bytes =
        [](const Gpp& p) { return partial_bytes(volume_of(grid_of_pairs(p, {kMinThreads}))); },
    .bytes = kPairs.bytes,
    .work = work_inside_matrix};

constexpr Decomposition kSortedPairs{
    .blocks = kBlocks,
    .grid = grid_of_pairs,
    .scratch_bytes =
        [](const Gpp& p) { return kThreadPerPair.scratch_bytes(p) + sorted_list_bytes(p); },
    .bytes = kPairs.bytes,
    .work = work_inside_matrix};

constexpr Decomposition kSortedWarps{.blocks = kBlocks,
                                     .grid = kSortedPairs.grid,
                                     .scratch_bytes = kSortedPairs.scratch_bytes,
                                     .bytes = kSortedPairs.bytes,
                                     .work = work_of_whole_warps};

constexpr Decomposition kSortedPairs2d{
    .blocks = {{{32, kTileWarps}, {32, 2}, {32, 8}}},
    .grid = grid_of_pairs,
    .scratch_bytes =
        [](const Gpp& p) {
          return partial_bytes(volume_of(grid_of_pairs(p, {32, 2}))) + sorted_list_bytes(p);
        },
    .bytes = kPairs.bytes,
    .work = work_of_whole_warps};

// Items of single_launch. Lanes outside the matrix execute the same operations as other lanes.
constexpr Decomposition kItems{
    .blocks = {{{kSingleThreads}}},
    .grid = grid_of_items,
    .scratch_bytes = [](const Gpp& p) { return partial_bytes(volume_of(grid_of_items(p, {}))); },
    .bytes =
        [](const Gpp& p) {
          const Items items = items_of(p);
          return bytes_of_tiles(p, items.across, 0);
        },
    .work =
        [](const Gpp& p, std::int64_t threads) {
          const Items items = items_of(p);
          const std::int64_t segments = items.count / items.tiles;
          return work_of(p, std::int64_t{items.tiles} * kSingleThreads, segments,
                         iterations(std::int64_t{items.count} * kSingleThreads, threads));
        }};

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
    .bytes = [](const Gpp& p) { return bytes_of_tiles(p, tiling_of<kRowsPerThread>(p).across, 2); },
    .work = work_of_tiles<kRowsPerThread>};

// Two launches on the same tiles.
constexpr Decomposition kSplitTiles{
    .blocks = kTiles<kSplitRows>.blocks,
    .grid = kTiles<kSplitRows>.grid,
    .scratch_bytes =
        [](const Gpp& p) {
          const Extent grid = grid_of_split_sums(grid_of_tiles<kSplitRows>(p));
          return partial_bytes(volume_of(grid)) + sorted_tiles_bytes<kSplitRows>(p);
        },
    .bytes = kTiles<kSplitRows>.bytes,
    .work = kTiles<kSplitRows>.work};

// Operations of a kernel: per (band, igp, ig, frequency) of occupied and of empty bands; per pass
// and (band, igp, ig); and per pass and loop over bands, before and after the loop.
struct Operations {
  double occupied = 0, other = 0, pair = 0, loop = 0;
  double other_alone = other;  // of empty bands in a pass of one frequency
};
struct OperationCounts {
  Operations flops, instructions;
  int frequencies = 1;  // of a pass
};

// FLOPs of ThreadSums per lane, all of them additions. The shuffles of eight numbers (four with one
// frequency) take nine additions (six), and each gathering adds one number to a compensated sum.
// The sums over the warps of a block and over blocks are not counted.
constexpr double gathering(int frequencies) {
  return (frequencies == 1 ? 6 : 9) + CompensatedSum<double>::kFlopsOfAdd;
}

double total_of(const Gpp& p, const Operations& counts, int frequencies,
                const Decomposition& decomposition) {
  if (p.empty()) return 0;
  const Extent block = decomposition.blocks[0];
  const std::int64_t threads =
      volume_of(decomposition.grid(p, block)) * static_cast<std::int64_t>(block.volume());
  const PassWork work = decomposition.work(p, threads);
  const auto passes = static_cast<double>(ceil_div(p.frequencies(), frequencies));
  const auto alone = static_cast<double>(p.frequencies() % frequencies);
  const double other = static_cast<double>(p.frequencies()) * counts.other +
                       alone * (counts.other_alone - counts.other);
  const double per_pass = (work.occupied + work.other) * counts.pair + work.loops * counts.loop;
  const double sums = (std::floor(work.terms / kMaxTerms) + 1) * gathering(frequencies) +
                      CompensatedSum<double>::kFlopsOfTotal;
  const double occupied = static_cast<double>(p.frequencies()) * counts.occupied;
  const double per_pair = work.occupied * occupied + work.other * other;
  return work.pairs * (per_pair + passes * per_pass) + passes * static_cast<double>(threads) * sums;
}

template <const OperationCounts& kCounts, const Decomposition& kDecomposition>
constexpr Variant<Gpp> variant_of(const char* name, Change changes,
                                  void (*run)(const Gpp&, const Launch&),
                                  decltype(Variant<Gpp>::why_slower) why_slower = nullptr) {
  return {.name = name,
          .changes = changes,
          .why_slower = why_slower,
          .blocks = kDecomposition.blocks,
          .grid = kDecomposition.grid,
          .scratch_bytes = kDecomposition.scratch_bytes,
          .flops =
              [](const Gpp& p) {
                return total_of(p, kCounts.flops, kCounts.frequencies, kDecomposition);
              },
          .bytes = kDecomposition.bytes,
          .instructions =
              [](const Gpp& p) {
                return total_of(p, kCounts.instructions, kCounts.frequencies, kDecomposition);
              },
          .run = run};
}

// A model of the time of a call on an H200, in microseconds, as a function of the shape. The
// coefficients were fitted to cold calls of 220 random shapes from (8, 8, 64, 1) to si214, mainly
// to shapes for which two variants have similar times. gpp_operands created the operands, in which
// 3 % of the terms take the second branch. Blocks with many such terms end last, so the model has a
// term for the bands of one block. `call` is the time per call, `pass` per pass, `operands` per
// million elements of aqsn and aqsm, `pairs` per million (igp, ig), `terms` per million (band, igp,
// ig), and `last` per 100 bands in a block. `pairs` and `terms` refer to whole tiles. Their two
// values are for a pass of one and of two frequencies. For 205 of 220 shapes, the chosen variant
// was at most 3 % slower than the fastest one; for the others, at most 13 %.
struct TimeModel {
  double call, pass, operands;
  double pairs[kMaxFrequencies], terms[kMaxFrequencies], last[kMaxFrequencies];
};

// The work of a variant: the pairs (igp, ig) of whole tiles, and the bands per block.
struct TiledWork {
  std::int64_t pairs, bands_of_block;
};

double microseconds(const Gpp& p, const Hardware& hardware, TiledWork work,
                    const TimeModel& model) {
  constexpr double kMultiprocessors = 132;  // of an H200
  const auto bands = static_cast<double>(p.bands());
  const double pairs = 1e-6 * static_cast<double>(work.pairs);
  const double last =
      1e-2 * static_cast<double>(std::min<std::int64_t>(work.bands_of_block, p.bands()));
  const double operands = 1e-6 * bands * static_cast<double>(p.rows() + p.columns());
  const double slower =
      hardware.multiprocessors > 0 ? kMultiprocessors / hardware.multiprocessors : 1;
  const auto time_of_passes = [&](int index, std::int64_t passes) {
    const double of_tiles = pairs * (model.pairs[index] + bands * model.terms[index]);
    return static_cast<double>(passes) *
           (model.pass + slower * of_tiles + last * model.last[index]);
  };
  return model.call + slower * operands * model.operands +
         time_of_passes(0, p.frequencies() % kMaxFrequencies) +
         time_of_passes(1, p.frequencies() / kMaxFrequencies);
}

double time_of_single_launch(const Gpp& p, const Hardware& hardware) {
  const Items items = items_of(p);
  return microseconds(p, hardware,
                      {std::int64_t{items.tiles} * kSingleThreads, items.segment_length},
                      {3.9, 5.5, 28.7, {26.7, 29.5}, {3.04, 4.45}, {35.0, 54.8}});
}
TiledWork work_of_two_rows(const Gpp& p) {
  const Tiling tiling = tiling_of<2>(p);
  return {tiling.across * kTileRows<2> * tiling.down * kTileColumns, tiling.segment_length};
}
double time_of_two_rows(const Gpp& p, const Hardware& hardware) {
  return microseconds(p, hardware, work_of_two_rows(p),
                      {22.6, 17.0, 46.1, {33.6, 47.1}, {1.83, 2.75}, {44.5, 112.5}});
}
double time_of_moments(const Gpp& p, const Hardware& hardware) {
  return microseconds(p, hardware, work_of_two_rows(p),
                      {37.4, 18.2, 51.8, {52.2, 89.3}, {1.72, 2.36}, {32.7, 111.6}});
}

// The choice between single_launch, two_rows and moments. With few terms, sorting costs more time
// than it saves. moments computes the constants of each pair twice, which costs more time than it
// saves with few bands.
const char* why_two_rows_is_slower(const Gpp& p, const Hardware& hardware) {
  return time_of_two_rows(p, hardware) < time_of_single_launch(p, hardware)
             ? nullptr
             : "single_launch is faster: sorting and more launches cost more time than they save";
}
const char* why_moments_is_slower(const Gpp& p, const Hardware& hardware) {
  if (const char* reason = why_two_rows_is_slower(p, hardware);
      reason != nullptr && time_of_moments(p, hardware) >= time_of_single_launch(p, hardware))
    return reason;
  return time_of_moments(p, hardware) < time_of_two_rows(p, hardware)
             ? nullptr
             : "two_rows is faster: there are too few bands for two launches";
}

// Counted in the SASS of sm_90 along the first branch, with positive x for occupied bands and
// negative x for empty bands, like most terms of gpp_operands. The second branch, which 3 % of
// these terms take, saves up to 15 FLOPs. In variants that sort bands, occupied bands count as
// full; weighted bands take five FLOPs more.
//
// A division contains one FMA in float32, which tests the range of the operands. collapse3,
// bands_inside and frequency_outside have four divisions per term.
constexpr OperationCounts kCollapse3{
    .flops = {131, 131, 42}, .instructions = {76, 76, 33}, .frequencies = kMaxFrequencies};
constexpr OperationCounts kBandsInside{
    .flops = {124, 124, 38, 16}, .instructions = {70, 70, 30, 13}, .frequencies = kMaxFrequencies};
constexpr OperationCounts kFrequencyOutside{.flops = {162, 162, 0, 14},
                                            .instructions = {100, 100, 0, 11}};
constexpr OperationCounts kReciprocal{.flops = {118, 118, 0, 14}, .instructions = {78, 78, 0, 11}};
constexpr OperationCounts kSquaredModuli{.flops = {92, 92, 0, 14}, .instructions = {62, 62, 0, 11}};
constexpr OperationCounts kSimplifiedBranches{.flops = {85, 74, 0, 14},
                                              .instructions = {57, 48, 0, 11}};
constexpr OperationCounts kBlocked{.flops = {88, 77, 0, 18}, .instructions = {59, 50, 0, 14}};

constexpr OperationCounts kHoisted{
    .flops = {52, 35, 6, 135}, .instructions = {30, 20, 4, 92}, .frequencies = kMaxFrequencies};
constexpr OperationCounts kOneReciprocal{
    .flops = {43, 36, 6, 135}, .instructions = {26, 21, 4, 92}, .frequencies = kMaxFrequencies};
constexpr OperationCounts kFastReciprocal{
    .flops = {39, 32, 6, 135}, .instructions = {24, 19, 4, 92}, .frequencies = kMaxFrequencies};
constexpr OperationCounts kSkipEmptyBands{
    .flops = {39, 18, 6, 135}, .instructions = {24, 10, 4, 92}, .frequencies = kMaxFrequencies};
constexpr OperationCounts kBranchFree{
    .flops = {41, 18, 6, 133}, .instructions = {27, 10, 4, 90}, .frequencies = kMaxFrequencies};
constexpr OperationCounts kSortedBands{
    .flops = {36, 18, 6, 137}, .instructions = {22, 10, 4, 94}, .frequencies = kMaxFrequencies};
// Half of the full bands of gpp_operands are far from all poles of a warp: they take 35 FLOPs and
// 21 instructions, and the other bands take one more of each. Each chunk is tested once, with four
// FLOPs in three instructions.
constexpr OperationCounts kFarFromPoles{.flops = {35.5, 18, 6 + 4.0 / kChunk, 137},
                                        .instructions = {21.5, 10, 4 + 3.0 / kChunk, 94},
                                        .frequencies = kMaxFrequencies};

// For gpp_operands with the size of si214 (benchmarks/gpp_bound.py), 44 % of the full bands and 90
// % of the empty bands use moments. Full bands with moments execute 29 FLOPs in 16 instructions,
// and empty bands 15 in 8.5. The other full bands execute 36 in 22, and weighted bands 41 in 27.
// The constants of moments are computed once per chunk, and the limits of the energies and the
// coefficients once per pair and launch.
constexpr OperationCounts kMomentSums{.flops = {33.4, 15.3, 6 + 5.0 / kChunk, 368, 18},
                                      .instructions = {19.8, 8.7, 4 + 5.0 / kChunk, 252, 10},
                                      .frequencies = kMaxFrequencies};
// Full bands use the arithmetic of sorted_bands.
constexpr OperationCounts kSingleLaunch{
    .flops = {36, 18, 6, 141}, .instructions = {22, 10, 4, 98}, .frequencies = kMaxFrequencies};

constexpr Variant<Gpp> kVariants[] = {
    variant_of<kCollapse3, kTriples>(
        "collapse3",
        "One thread per item of the collapsed triple loop, with complex divisions and square "
        "roots.",
        ADO_RUN(run_in_passes<gpp_collapse3<1>, gpp_collapse3<2>>)),
    variant_of<kBandsInside, kPairs>(
        "bands_inside",
        {"One thread per (igp, ig) loops over all bands and loads wtilde and i_eps only once.",
         Step::kReuse, Step::kDramReuse},
        ADO_RUN(run_in_passes<gpp_bands_inside<1>, gpp_bands_inside<2>>)),
    variant_of<kFrequencyOutside, kPairsByFrequency>(
        "frequency_outside", {"Launches the kernel once per frequency.", Step::kOccupancy},
        ADO_RUN(run_by_frequency<gpp_frequency_outside>)),
    variant_of<kReciprocal, kPairsByFrequency>(
        "reciprocal",
        {"Multiplies by the reciprocal of the squared modulus instead of dividing.",
         Step::kOperations},
        ADO_RUN(run_by_frequency<gpp_reciprocal>)),
    variant_of<kSquaredModuli, kPairsByFrequency>(
        "squared_moduli",
        {"Compares squared moduli, which saves the square roots.", Step::kOperations},
        ADO_RUN(run_by_frequency<gpp_squared_moduli>)),
    variant_of<kSimplifiedBranches, kPairsByFrequency>(
        "simplified_branches",
        {"Initialises the terms with 0, drops the last branch, and adds ssx under one condition.",
         Step::kOperations, Step::kDivergence},
        ADO_RUN(run_by_frequency<gpp_simplified_branches>)),
    variant_of<kBlocked, kBlocksOfTriples>("blocked",
                                           {"Splits bands into 64 blocks and ig into 128 blocks "
                                            "for the caches; each thread loops over "
                                            "one block.",
                                            Step::kReuse, Step::kDramReuse},
                                           ADO_RUN([](const Gpp& p, const Launch& go) {
                                             run_passes<1>(p, go, [&](const Pass<1>& pass) {
                                               launch(go, gpp_blocked, inputs_of(p), pass,
                                                      cache_blocks_of(p));
                                             });
                                           })),
    variant_of<kBlocked, kTransposed>(
        "swapped_indices",
        {"Transposes wx and aqsm first, so that bands are contiguous.", Step::kCoalescing},
        ADO_RUN(run_transposed<gpp_swapped_indices>)),
    variant_of<kBlocked, kTransposedLarge>(
        "large_blocks",
        {"Uses blocks of 512 threads, with matching launch bounds.", Step::kOccupancy},
        ADO_RUN(run_transposed<gpp_large_blocks>)),
    variant_of<kHoisted, kThreadPerPair>(
        "hoisted_invariants",
        {"Hoists everything that does not depend on the band out of the loop; one thread per (igp, "
         "ig) sums real coefficients for two frequencies.",
         Step::kOperations},
        ADO_RUN(run_in_passes<gpp_hoisted_invariants<1>, gpp_hoisted_invariants<2>>)),
    variant_of<kOneReciprocal, kThreadPerPair>(
        "one_reciprocal", {"Shares one division between both quotients.", Step::kOperations},
        ADO_RUN(run_in_passes<gpp_one_reciprocal<1>, gpp_one_reciprocal<2>>)),
    variant_of<kFastReciprocal, kThreadPerPair>(
        "fast_reciprocal",
        {"Hardware reciprocal approximation plus one cubic refinement.", Step::kOperations},
        ADO_RUN(run_in_passes<gpp_fast_reciprocal<1>, gpp_fast_reciprocal<2>>)),
    variant_of<kSkipEmptyBands, kThreadPerPair>(
        "skip_empty_bands", {"Skips asx for bands with an occupation of 0.", Step::kOperations},
        ADO_RUN(run_in_passes<gpp_skip_empty_bands<1>, gpp_skip_empty_bands<2>>)),
    variant_of<kBranchFree, kThreadPerPair>(
        "branch_free",
        {"Selects between the results of both branches instead of branching.", Step::kDivergence},
        ADO_RUN(run_in_passes<gpp_branch_free<1>, gpp_branch_free<2>>)),
    variant_of<kSortedBands, kSortedPairs>(
        "sorted_bands",
        {"Sorts bands by occupation: full bands with non-negative energies skip the weight and the "
         "cut-off test.",
         Step::kOperations, Step::kDivergence},
        ADO_RUN(run_sorted_bands)),
    variant_of<kFarFromPoles, kSortedWarps>(
        "sorted_by_energy",
        {"Sorts bands of the same kind by energy: groups of 16 bands that are far from all poles "
         "of "
         "a warp skip the selection.",
         Step::kOperations, Step::kDivergence},
        ADO_RUN(run_sorted_by_energy<gpp_sorted_by_energy<1>, gpp_sorted_by_energy<2>>)),
    variant_of<kFarFromPoles, kSortedPairs2d>(
        "blocks_2d",
        {"Uses blocks of 32 ig by 4 igp, whose warps share aqsn through L1.", Step::kReuse},
        ADO_RUN(run_sorted_by_energy<gpp_blocks_2d<1>, gpp_blocks_2d<2>>)),
    variant_of<kSingleLaunch, kItems>(
        "single_launch",
        {"Uses one launch per pass: does not sort, stages the operands in shared memory with "
         "asynchronous copies, and adds the partial sums in the block that finishes last.",
         Step::kInFlight, Step::kReuse, Step::kFusion},
        ADO_RUN(run_single_launch)),
    variant_of<kFarFromPoles, kTiles<1>>(
        "tiled",
        {"Gathers the sorted operands and stages them in shared memory with asynchronous copies.",
         Step::kInFlight, Step::kReuse},
        ADO_RUN(run_tiles<1>),
        [](const Gpp&, const Hardware&) { return "two_rows or single_launch is faster"; }),
    variant_of<kFarFromPoles, kTiles<2>>(
        "two_rows", {"Each thread computes two igp and loads aqsn once for both.", Step::kReuse},
        ADO_RUN(run_tiles<2>), why_two_rows_is_slower),
    variant_of<kMomentSums, kSplitTiles>(
        "moments",
        {"Launches separate kernels for occupied and empty bands, and computes the coefficients of "
         "bands far from all poles after the loop, from sums of moments.",
         Step::kOperations},
        ADO_RUN(run_moments), why_moments_is_slower),
};

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
