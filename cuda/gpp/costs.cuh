// Costs of the variants of gpp: blocks, grid, scratch memory, loads and executed operations.
#pragma once

#include <cmath>

#include "gpp/engine_single_launch.cuh"
#include "gpp/engine_split_tiles.cuh"

namespace ado::cuda::gpp {

inline constexpr double kComplexBytes = 16;

// Bytes of the loads that differ between lanes. In each pass of at most `frequencies`
// frequencies, these are aqsn for each (band, igp, ig), and wtilde and i_eps `pair_loads` times for
// each (igp, ig).
inline double bytes_of_loads(const Gpp& p, std::int64_t pair_loads, int frequencies) {
  const double loads =
      static_cast<double>(pairs_of(p)) * static_cast<double>(p.bands() + 2 * pair_loads);
  return kComplexBytes * loads * static_cast<double>(ceil_div(p.frequencies(), frequencies));
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
  Formula<double(const Gpp&, int frequencies)> bytes;  // frequencies: of a pass
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
    .bytes = [](const Gpp& p, int most) { return bytes_of_loads(p, p.bands(), most); },
    .work =
        [](const Gpp& p, std::int64_t threads) {
          return work_of(p, pairs_of(p), p.bands(), iterations(triples_of(p), threads));
        }};

inline constexpr Decomposition kPairs{
    .blocks = kBlocks,
    .grid = [](const Gpp& p, Extent block) { return grid_stride(pairs_of(p), block); },
    .scratch_bytes = [](const Gpp& p) { return grid_stride_partial_bytes(pairs_of(p)); },
    .bytes = [](const Gpp& p, int most) { return bytes_of_loads(p, 1, most); },
    .work = work_of_pairs};

inline constexpr Decomposition kBlocksOfTriples{
    .blocks = kBlocks,
    .grid = [](const Gpp& p, Extent block) { return grid_stride(blocked_triples_of(p), block); },
    .scratch_bytes = [](const Gpp& p) { return grid_stride_partial_bytes(blocked_triples_of(p)); },
    .bytes = [](const Gpp& p,
                int most) { return bytes_of_loads(p, cache_blocks_of(p).bands, most); },
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

inline std::size_t sorted_pairs_bytes(const Gpp& p, Extent most_blocks) {
  return partial_bytes(volume_of(grid_of_pairs(p, most_blocks))) + sorted_list_bytes(p);
}

inline constexpr Decomposition kSortedPairs{
    .blocks = kBlocks,
    .grid = grid_of_pairs,
    .scratch_bytes = [](const Gpp& p) { return sorted_pairs_bytes(p, {kMinThreads}); },
    .bytes = kPairs.bytes,
    .work = work_inside_matrix};

inline constexpr Decomposition kSortedWarps{.blocks = kBlocks,
                                            .grid = kSortedPairs.grid,
                                            .scratch_bytes = kSortedPairs.scratch_bytes,
                                            .bytes = kSortedPairs.bytes,
                                            .work = work_of_whole_warps};

inline constexpr Decomposition kSortedPairs2d{.blocks = {{{32, kTileWarps}, {32, 2}, {32, 8}}},
                                              .grid = grid_of_pairs,
                                              .scratch_bytes =
                                                  [](const Gpp& p) {
                                                    return sorted_pairs_bytes(p, {32, 2});
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
    .bytes = [](const Gpp& p, int,
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
        [](const Gpp& p, int, const Hardware& gpu) {
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
  int frequencies = kMaxFrequencies;  // of a pass
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
// The columns are occupied, other, pair and loop of Operations, then other_alone.
//
// A division contains one FMA in float32, which tests the range of the operands. collapse3,
// bands_inside and frequency_outside have four divisions per term.
inline constexpr OperationCounts kCollapse3{.flops = {131, 131, 42}, .instructions = {76, 76, 33}};
inline constexpr OperationCounts kBandsInside{.flops = {124, 124, 38, 16},
                                              .instructions = {70, 70, 30, 13}};
inline constexpr OperationCounts kFrequencyOutside{
    .flops = {162, 162, 0, 14}, .instructions = {100, 100, 0, 11}, .frequencies = 1};
inline constexpr OperationCounts kReciprocal{
    .flops = {118, 118, 0, 14}, .instructions = {78, 78, 0, 11}, .frequencies = 1};
inline constexpr OperationCounts kSquaredModuli{
    .flops = {92, 92, 0, 14}, .instructions = {62, 62, 0, 11}, .frequencies = 1};
inline constexpr OperationCounts kSimplifiedBranches{
    .flops = {85, 74, 0, 14}, .instructions = {57, 48, 0, 11}, .frequencies = 1};
inline constexpr OperationCounts kBlocked{
    .flops = {88, 77, 0, 18}, .instructions = {59, 50, 0, 14}, .frequencies = 1};

inline constexpr OperationCounts kHoisted{.flops = {55, 38, 6, 135},
                                          .instructions = {32, 22, 4, 92}};
inline constexpr OperationCounts kOneReciprocal{.flops = {46, 39, 6, 135},
                                                .instructions = {28, 23, 4, 92}};
inline constexpr OperationCounts kFastReciprocal{.flops = {39, 32, 6, 135},
                                                 .instructions = {24, 19, 4, 92}};
inline constexpr OperationCounts kSkipEmptyBands{.flops = {39, 18, 6, 135},
                                                 .instructions = {24, 10, 4, 92}};
inline constexpr OperationCounts kBranchFree{.flops = {41, 18, 6, 133},
                                             .instructions = {27, 10, 4, 90}};
inline constexpr OperationCounts kSortedBands{.flops = {36, 18, 6, 137},
                                              .instructions = {22, 10, 4, 94}};
// Half of the full bands of gpp_operands are far from all poles of a warp: they take 35 FLOPs and
// 21 instructions, and the other bands take one more of each. Each chunk is tested once, with four
// FLOPs in three instructions.
inline constexpr OperationCounts kFarFromPoles{.flops = {35.5, 18, 6 + 4.0 / kChunk, 137},
                                               .instructions = {21.5, 10, 4 + 3.0 / kChunk, 94}};

// For gpp_operands with the size of si214 (from its energies), 44 % of the full bands and 90
// % of the empty bands use moments. Full bands with moments execute 29 FLOPs in 16 instructions,
// and empty bands 15 in 8.5. The other full bands execute 36 in 22, and weighted bands 41 in 27.
// The constants of moments are computed once per chunk, and the limits of the energies and the
// coefficients once per pair and launch.
inline constexpr OperationCounts kMomentSums{
    .flops = {33.4, 15.3, 6 + 5.0 / kChunk, 368, 18},
    .instructions = {19.8, 8.7, 4 + 5.0 / kChunk, 252, 10}};
// Full bands use the arithmetic of sorted_bands.
inline constexpr OperationCounts kSingleLaunch{.flops = {36, 18, 6, 141},
                                               .instructions = {22, 10, 4, 98}};

// Adds blocks, grid, scratch memory and costs to a variant.
template <const OperationCounts& kCounts, const Decomposition& kDecomposition>
constexpr Variant<Gpp> with_costs(Variant<Gpp> variant) {
  variant.blocks = kDecomposition.blocks;
  variant.grid = kDecomposition.grid;
  variant.scratch_bytes = kDecomposition.scratch_bytes;
  variant.flops = [](const Gpp& p, const Hardware& gpu) {
    return total_of(p, kCounts.flops, kCounts.frequencies, kDecomposition, gpu);
  };
  variant.bytes = [](const Gpp& p, const Hardware& gpu) {
    return kDecomposition.bytes(p, kCounts.frequencies, gpu);
  };
  variant.instructions = [](const Gpp& p, const Hardware& gpu) {
    return total_of(p, kCounts.instructions, kCounts.frequencies, kDecomposition, gpu);
  };
  return variant;
}

}  // namespace ado::cuda::gpp
