// GPP: the costs of variants, from the distribution of the problem over threads and the operations
// of a kernel.
#pragma once

#include <algorithm>
#include <cmath>

#include "gpp/terms.cuh"

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

// One (igp, ig) per thread. Lanes outside the matrix are idle, or execute the same operations as
// other lanes.
inline PassWork work_per_thread(const Gpp& p, std::int64_t pairs) {
  const std::int64_t segments = ceil_div(p.bands(), Gpp::kLongestSum);
  return work_of(p, pairs, segments, static_cast<double>(segments));
}
inline PassWork work_inside_matrix(const Gpp& p, std::int64_t) {
  return work_per_thread(p, pairs_of(p));
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

// The default of OpenACC compilers comes first.
inline constexpr int kThreads = 128, kMaxThreads = 256;
inline constexpr Blocks kBlocks = {{{kThreads}, {64}, {256}, {kMinThreads}}};

// One thread per (igp, ig). The smallest block has the most partial sums.
inline constexpr Decomposition kThreadPerPair{
    .blocks = kBlocks,
    .grid = grid_of_pairs,
    .scratch_bytes =
        [](const Gpp& p) { return partial_bytes(volume_of(grid_of_pairs(p, {kMinThreads}))); },
    .bytes = [](const Gpp& p, int most) { return bytes_of_loads(p, 1, most); },
    .work = work_inside_matrix};

// Operations of a kernel: per (band, igp, ig, frequency) of occupied and of empty bands; per pass
// and (band, igp, ig); and per pass and loop over bands, before and after the loop.
struct Operations {
  double occupied = 0, other = 0, pair = 0, loop = 0;
  double other_alone = other;  // of empty bands in a pass of one frequency
};
// Counted in the SASS of sm_90 along the first branch, with positive x for occupied bands and
// negative x for empty bands, like most terms of gpp_operands. The second branch, which 3 % of
// these terms take, saves up to 15 FLOPs. In variants that sort bands, occupied bands count as
// full; weighted bands take five FLOPs more.
//
// The columns are occupied, other, pair and loop of Operations, then other_alone.
//
// A division contains one FMA in float32, which tests the range of the operands. collapse3,
// bands_inside and frequency_outside have four divisions per term.
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
