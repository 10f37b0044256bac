// Costs of the variants of gpp: blocks, grid, scratch memory, loads and executed operations.
#pragma once

#include <cmath>

#include "gpp/single_launch.cuh"
#include "gpp/split_tiles.cuh"

namespace ado::cuda::gpp {

inline constexpr double kComplexBytes = 16;

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
  Formula<Extent(const Gpp&, Extent block)> grid;
  Formula<std::size_t(const Gpp&)> scratch_bytes;
  Formula<double(const Gpp&)> bytes;
  Formula<PassWork(const Gpp&, std::int64_t threads)> work;
};

inline PassWork work_of(const Gpp& p, std::int64_t pairs, std::int64_t loops, double terms) {
  return {.occupied = static_cast<double>(p.occupied()),
          .other = static_cast<double>(p.bands() - p.occupied()),
          .pairs = static_cast<double>(pairs),
          .loops = static_cast<double>(loops),
          .terms = terms};
}

// Iterations of a grid-stride loop, averaged over the threads.
inline double iterations(std::int64_t items, std::int64_t threads) {
  return std::max(1.0, static_cast<double>(items) / static_cast<double>(threads));
}

inline PassWork work_of_pairs(const Gpp& p, std::int64_t threads) {
  return work_of(p, pairs_of(p), 1,
                 iterations(pairs_of(p), threads) * static_cast<double>(p.bands()));
}

inline PassWork work_of_cache_blocks(const Gpp& p, std::int64_t threads) {
  const CacheBlocks blocks = cache_blocks_of(p);
  const std::int64_t terms =
      ceil_div(p.columns(), blocks.columns) * ceil_div(p.bands(), blocks.bands);
  return work_of(p, pairs_of(p), blocks.bands,
                 iterations(blocked_triples_of(p), threads) * static_cast<double>(terms));
}

// One (igp, ig) per thread. Lanes outside the matrix are idle, or execute the same operations as
// other lanes.
inline PassWork work_per_thread(const Gpp& p, std::int64_t pairs) {
  const std::int64_t segments = ceil_div(p.bands(), Gpp::kLongestSum);
  return work_of(p, pairs, segments, static_cast<double>(segments));
}
inline PassWork work_inside_matrix(const Gpp& p, std::int64_t) {
  return work_per_thread(p, pairs_of(p));
}
inline PassWork work_of_whole_warps(const Gpp& p, std::int64_t threads) {
  return work_per_thread(p, threads);
}

// Tiles also compute the padding of each kind of band. It is half of the largest padding on average
// for full and for weighted bands, whose numbers depend on the values.
template <int kRowsPerThread>
PassWork work_of_tiles(const Gpp& p, std::int64_t, const Hardware& gpu) {
  const Tiling tiling = tiling_of<kRowsPerThread>(p, gpu);
  const std::int64_t pairs = tiling.across * tiling.down * kTileRows<kRowsPerThread> * kTileColumns;
  PassWork work = work_of(p, pairs, tiling.segments, 0);
  if (p.occupied() > 0) work.occupied += kGroup - 1;
  work.other = static_cast<double>(round_up(p.bands() - p.occupied(), kGroup));
  return work;
}

// Bytes of the loads whose addresses differ between lanes. aqsn is loaded once per pass and tile
// along igp, and `gathers` more times. wtilde and i_eps are loaded once per pass.
inline double bytes_of_tiles(const Gpp& p, std::int64_t across, double gathers) {
  const auto bands = static_cast<double>(p.bands()), columns = static_cast<double>(p.columns());
  const auto passes = static_cast<double>(ceil_div(p.frequencies(), kMaxFrequencies));
  return kComplexBytes *
         (gathers * bands * columns + passes * (static_cast<double>(across) * bands * columns +
                                                2 * static_cast<double>(pairs_of(p))));
}

inline constexpr Blocks kBlocks = {{{kThreads}, {64}, {256}, {kMinThreads}}};

// Grid-stride loops over (band, igp, ig), over (igp, ig), or over cache blocks.
inline constexpr Decomposition kTriples{
    .blocks = kBlocks,
    .grid = [](const Gpp& p, Extent block) { return grid_stride(triples_of(p), block); },
    .scratch_bytes = [](const Gpp& p) { return grid_stride_partial_bytes(triples_of(p)); },
    .bytes = [](const Gpp& p) { return bytes_of_loads<kMaxFrequencies>(p, p.bands()); },
    .work =
        [](const Gpp& p, std::int64_t threads) {
          return work_of(p, pairs_of(p), p.bands(), iterations(triples_of(p), threads));
        }};

inline constexpr Decomposition kPairs{
    .blocks = kBlocks,
    .grid = [](const Gpp& p, Extent block) { return grid_stride(pairs_of(p), block); },
    .scratch_bytes = [](const Gpp& p) { return grid_stride_partial_bytes(pairs_of(p)); },
    .bytes = [](const Gpp& p) { return bytes_of_loads<kMaxFrequencies>(p, 1); },
    .work = work_of_pairs};

inline constexpr Decomposition kPairsByFrequency{
    .blocks = kBlocks,
    .grid = kPairs.grid,
    .scratch_bytes = kPairs.scratch_bytes,
    .bytes = [](const Gpp& p) { return bytes_of_loads<1>(p, 1); },
    .work = work_of_pairs};

inline constexpr Decomposition kBlocksOfTriples{
    .blocks = kBlocks,
    .grid = [](const Gpp& p, Extent block) { return grid_stride(blocked_triples_of(p), block); },
    .scratch_bytes = [](const Gpp& p) { return grid_stride_partial_bytes(blocked_triples_of(p)); },
    .bytes = [](const Gpp& p) { return bytes_of_loads<1>(p, cache_blocks_of(p).bands); },
    .work = work_of_cache_blocks};

inline constexpr Decomposition kTransposed{.blocks = kBlocks,
                                           .grid = kBlocksOfTriples.grid,
                                           .scratch_bytes = scratch_of_transposed,
                                           .bytes = kBlocksOfTriples.bytes,
                                           .work = work_of_cache_blocks};

inline constexpr Decomposition kTransposedLarge{
    .blocks = {{{kLargeThreads}, {256}, {128}, {64}, {kMinThreads}}},
    .grid = kTransposed.grid,
    .scratch_bytes = kTransposed.scratch_bytes,
    .bytes = kTransposed.bytes,
    .work = work_of_cache_blocks};

// One thread per (igp, ig). The smallest block has the most partial sums.
inline constexpr Decomposition kThreadPerPair{
    .blocks = kBlocks,
    .grid = grid_of_pairs,
    .scratch_bytes =
        [](const Gpp& p) { return partial_bytes(volume_of(grid_of_pairs(p, {kMinThreads}))); },
    .bytes = kPairs.bytes,
    .work = work_inside_matrix};

inline constexpr Decomposition kSortedPairs{.blocks = kBlocks,
                                            .grid = grid_of_pairs,
                                            .scratch_bytes =
                                                [](const Gpp& p, const Hardware& gpu) {
                                                  return kThreadPerPair.scratch_bytes(p, gpu) +
                                                         sorted_list_bytes(p);
                                                },
                                            .bytes = kPairs.bytes,
                                            .work = work_inside_matrix};

inline constexpr Decomposition kSortedWarps{.blocks = kBlocks,
                                            .grid = kSortedPairs.grid,
                                            .scratch_bytes = kSortedPairs.scratch_bytes,
                                            .bytes = kSortedPairs.bytes,
                                            .work = work_of_whole_warps};

inline constexpr Decomposition kSortedPairs2d{
    .blocks = {{{32, kTileWarps}, {32, 2}, {32, 8}}},
    .grid = grid_of_pairs,
    .scratch_bytes =
        [](const Gpp& p) {
          return partial_bytes(volume_of(grid_of_pairs(p, {32, 2}))) + sorted_list_bytes(p);
        },
    .bytes = kPairs.bytes,
    .work = work_of_whole_warps};

// Items of single_launch. Lanes outside the matrix execute the same operations as other lanes.
inline constexpr Decomposition kItems{
    .blocks = {{{kSingleThreads}}},
    .grid = grid_of_items,
    .scratch_bytes =
        [](const Gpp& p, const Hardware& gpu) {
          return partial_bytes(volume_of(grid_of_items(p, {}, gpu)));
        },
    .bytes = [](const Gpp& p,
                const Hardware& gpu) { return bytes_of_tiles(p, items_of(p, gpu).across, 0); },
    .work =
        [](const Gpp& p, std::int64_t threads, const Hardware& gpu) {
          const Items items = items_of(p, gpu);
          const std::int64_t segments = items.count / items.tiles;
          return work_of(p, std::int64_t{items.tiles} * kSingleThreads, segments,
                         iterations(std::int64_t{items.count} * kSingleThreads, threads));
        }};

// Tiles of (igp, ig). aqsn is read and written once by the gather, and then loaded once per tile.
template <int kRowsPerThread>
inline constexpr Decomposition kTiles{
    .blocks = {{{kTileWarps * kTileColumns}}},
    .grid = grid_of_tiles<kRowsPerThread>,
    .scratch_bytes =
        [](const Gpp& p, const Hardware& gpu) {
          return partial_bytes(volume_of(grid_of_tiles<kRowsPerThread>(p, {}, gpu))) +
                 sorted_tiles_bytes<kRowsPerThread>(p);
        },
    .bytes =
        [](const Gpp& p, const Hardware& gpu) {
          return bytes_of_tiles(p, tiling_of<kRowsPerThread>(p, gpu).across, 2);
        },
    .work = work_of_tiles<kRowsPerThread>};

// Two launches on the same tiles.
inline constexpr Decomposition kSplitTiles{
    .blocks = kTiles<kSplitRows>.blocks,
    .grid = kTiles<kSplitRows>.grid,
    .scratch_bytes =
        [](const Gpp& p, const Hardware& gpu) {
          const Extent grid = grid_of_split_sums(grid_of_tiles<kSplitRows>(p, {}, gpu));
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

inline double total_of(const Gpp& p, const Operations& counts, int frequencies,
                       const Decomposition& decomposition, const Hardware& gpu) {
  if (p.empty()) return 0;
  const Extent block = decomposition.blocks[0];
  const std::int64_t threads =
      volume_of(decomposition.grid(p, block, gpu)) * static_cast<std::int64_t>(block.volume());
  const PassWork work = decomposition.work(p, threads, gpu);
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

// Counted in the SASS of sm_90 along the first branch, with positive x for occupied bands and
// negative x for empty bands, like most terms of gpp_operands. The second branch, which 3 % of
// these terms take, saves up to 15 FLOPs. In variants that sort bands, occupied bands count as
// full; weighted bands take five FLOPs more.
//
// A division contains one FMA in float32, which tests the range of the operands. collapse3,
// bands_inside and frequency_outside have four divisions per term.
inline constexpr OperationCounts kCollapse3{
    .flops = {.occupied = 131, .other = 131, .pair = 42},
    .instructions = {.occupied = 76, .other = 76, .pair = 33},
    .frequencies = kMaxFrequencies};
inline constexpr OperationCounts kBandsInside{
    .flops = {.occupied = 124, .other = 124, .pair = 38, .loop = 16},
    .instructions = {.occupied = 70, .other = 70, .pair = 30, .loop = 13},
    .frequencies = kMaxFrequencies};
inline constexpr OperationCounts kFrequencyOutside{
    .flops = {.occupied = 162, .other = 162, .pair = 0, .loop = 14},
    .instructions = {.occupied = 100, .other = 100, .pair = 0, .loop = 11}};
inline constexpr OperationCounts kReciprocal{
    .flops = {.occupied = 118, .other = 118, .pair = 0, .loop = 14},
    .instructions = {.occupied = 78, .other = 78, .pair = 0, .loop = 11}};
inline constexpr OperationCounts kSquaredModuli{
    .flops = {.occupied = 92, .other = 92, .pair = 0, .loop = 14},
    .instructions = {.occupied = 62, .other = 62, .pair = 0, .loop = 11}};
inline constexpr OperationCounts kSimplifiedBranches{
    .flops = {.occupied = 85, .other = 74, .pair = 0, .loop = 14},
    .instructions = {.occupied = 57, .other = 48, .pair = 0, .loop = 11}};
inline constexpr OperationCounts kBlocked{
    .flops = {.occupied = 88, .other = 77, .pair = 0, .loop = 18},
    .instructions = {.occupied = 59, .other = 50, .pair = 0, .loop = 14}};

inline constexpr OperationCounts kHoisted{
    .flops = {.occupied = 52, .other = 35, .pair = 6, .loop = 135},
    .instructions = {.occupied = 30, .other = 20, .pair = 4, .loop = 92},
    .frequencies = kMaxFrequencies};
inline constexpr OperationCounts kOneReciprocal{
    .flops = {.occupied = 43, .other = 36, .pair = 6, .loop = 135},
    .instructions = {.occupied = 26, .other = 21, .pair = 4, .loop = 92},
    .frequencies = kMaxFrequencies};
inline constexpr OperationCounts kFastReciprocal{
    .flops = {.occupied = 39, .other = 32, .pair = 6, .loop = 135},
    .instructions = {.occupied = 24, .other = 19, .pair = 4, .loop = 92},
    .frequencies = kMaxFrequencies};
inline constexpr OperationCounts kSkipEmptyBands{
    .flops = {.occupied = 39, .other = 18, .pair = 6, .loop = 135},
    .instructions = {.occupied = 24, .other = 10, .pair = 4, .loop = 92},
    .frequencies = kMaxFrequencies};
inline constexpr OperationCounts kBranchFree{
    .flops = {.occupied = 41, .other = 18, .pair = 6, .loop = 133},
    .instructions = {.occupied = 27, .other = 10, .pair = 4, .loop = 90},
    .frequencies = kMaxFrequencies};
inline constexpr OperationCounts kSortedBands{
    .flops = {.occupied = 36, .other = 18, .pair = 6, .loop = 137},
    .instructions = {.occupied = 22, .other = 10, .pair = 4, .loop = 94},
    .frequencies = kMaxFrequencies};
// Half of the full bands of gpp_operands are far from all poles of a warp: they take 35 FLOPs and
// 21 instructions, and the other bands take one more of each. Each chunk is tested once, with four
// FLOPs in three instructions.
inline constexpr OperationCounts kFarFromPoles{
    .flops = {.occupied = 35.5, .other = 18, .pair = 6 + 4.0 / kChunk, .loop = 137},
    .instructions = {.occupied = 21.5, .other = 10, .pair = 4 + 3.0 / kChunk, .loop = 94},
    .frequencies = kMaxFrequencies};

// For gpp_operands with the size of si214 (benchmarks/gpp_bound.py), 44 % of the full bands and 90
// % of the empty bands use moments. Full bands with moments execute 29 FLOPs in 16 instructions,
// and empty bands 15 in 8.5. The other full bands execute 36 in 22, and weighted bands 41 in 27.
// The constants of moments are computed once per chunk, and the limits of the energies and the
// coefficients once per pair and launch.
inline constexpr OperationCounts kMomentSums{
    .flops =
        {.occupied = 33.4, .other = 15.3, .pair = 6 + 5.0 / kChunk, .loop = 368, .other_alone = 18},
    .instructions =
        {.occupied = 19.8, .other = 8.7, .pair = 4 + 5.0 / kChunk, .loop = 252, .other_alone = 10},
    .frequencies = kMaxFrequencies};
// Full bands use the arithmetic of sorted_bands.
inline constexpr OperationCounts kSingleLaunch{
    .flops = {.occupied = 36, .other = 18, .pair = 6, .loop = 141},
    .instructions = {.occupied = 22, .other = 10, .pair = 4, .loop = 98},
    .frequencies = kMaxFrequencies};

// Adds blocks, grid, scratch memory and costs to a variant.
template <const OperationCounts& kCounts, const Decomposition& kDecomposition>
constexpr Variant<Gpp> with_costs(Variant<Gpp> variant) {
  variant.blocks = kDecomposition.blocks;
  variant.grid = kDecomposition.grid;
  variant.scratch_bytes = kDecomposition.scratch_bytes;
  variant.flops = [](const Gpp& p, const Hardware& gpu) {
    return total_of(p, kCounts.flops, kCounts.frequencies, kDecomposition, gpu);
  };
  variant.bytes = kDecomposition.bytes;
  variant.instructions = [](const Gpp& p, const Hardware& gpu) {
    return total_of(p, kCounts.instructions, kCounts.frequencies, kDecomposition, gpu);
  };
  return variant;
}

}  // namespace ado::cuda::gpp
