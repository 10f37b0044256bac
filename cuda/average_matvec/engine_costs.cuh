// Executed FLOPs and requested bytes of the CUDA variants of average_matvec up to `overlapped`.
//
// The FLOPs equal the hardware counters of an H200 exactly for
// N = L = M = 1024 in float32, except that cuBLAS also multiplies each result by alpha. They assume
// that the compiler fuses no multiplication with an addition: only the products of tiles and the
// divisions are written with FMAs.
#pragma once

#include <cmath>

#include "average_matvec/engine_overlapped.cuh"
#include "average_matvec/steps.cuh"

namespace ado::cuda {

// The sizes of a problem as floating-point numbers.
struct Sizes {
  double sets, length, samples, element_bytes;
  explicit Sizes(const AverageMatvec& p)
      : sets(static_cast<double>(p.sets())),
        length(static_cast<double>(p.length())),
        samples(static_cast<double>(p.samples())),
        element_bytes(p.vectors.type.size) {}
  double rows() const { return sets * length; }
};

inline constexpr double kFlopsOfAdd = CompensatedSum<double>::kFlopsOfAdd;
inline constexpr double kFlopsOfTotal = CompensatedSum<double>::kFlopsOfTotal;
inline constexpr double kFlopsOfShuffles = 32 * 5;                // of a reduction over a warp
inline constexpr double kFlopsOfTreeReduction = kSetThreads - 1;  // of a reduction over a block

// Operations that replace a division on the GPU (SASS of sm_90). The approximate reciprocal is not
// counted. Its refinement takes five FMAs in float32, and seven FMAs and a multiplication in
// float64. In float64, one more FMA in float32 tests for special cases. Special cases, such as
// zeros and subnormal numbers, take more operations.
inline double flops_of_division(const Sizes& n) {
  return n.element_bytes == sizeof(float) ? 2 * 5 : 2 * 7 + 1 + 2;
}

// Averages with `lanes` lanes per row, one compensated sum per lane and one compensated addition
// per sample. Lanes without samples also finalise their sum.
inline double flops_of_averages(const Sizes& n, double lanes) {
  const double reduction = lanes > 1 ? kFlopsOfShuffles : 0;
  return n.rows() *
         (kFlopsOfAdd * n.samples + kFlopsOfTotal * lanes + reduction + flops_of_division(n));
}

// FLOPs of the sum of one row by `warps` warps, or by kLanes lanes (sum_of_lane). The additions
// depend on the alignment of the row. It is the same for every kLength-th row, so the result is the
// mean over kLength rows. Missing vectors of a batch of loads are added as zeros.
template <int kLanes, class T>
double flops_of_row_sum(std::int64_t samples, std::int64_t warps) {
  constexpr int kLength = kVectorLength<T>;
  constexpr double kFlopsOfBatch = kVectorsPerThread * kLength - 1 + kFlopsOfAdd;
  std::int64_t batches = 0, additions = 0;  // of kLength rows
  for (int row = 0; row < kLength; ++row) {
    const std::int64_t leading = std::min(samples, (kLength - row * samples % kLength) % kLength);
    const std::int64_t vectors = (samples - leading) / kLength;
    const std::int64_t edges = samples - vectors * kLength;
    // kLanes batches load kInFlight contiguous vectors.
    constexpr std::int64_t kInFlight = std::int64_t{kVectorsPerThread} * kLanes;
    batches += vectors / kInFlight * kLanes + std::min<std::int64_t>(vectors % kInFlight, kLanes);
    additions += std::max(edges, kLanes * warps);  // lanes without an edge element add zero
  }
  const double lanes = static_cast<double>(kLanes * warps);
  const double sums = kFlopsOfBatch * static_cast<double>(batches) / kLength +
                      kFlopsOfAdd * static_cast<double>(additions) / kLength +
                      kFlopsOfTotal * lanes;
  return sums + lanes * std::log2(kLanes) + (warps > 1 ? static_cast<double>(warps) : 0);
}

// FLOPs of average_rows_of().
template <int kLanes, class T>
double flops_of_wide_averages(const AverageMatvec& p, const RowSharing& sharing) {
  const Sizes n(p);
  const double sum =
      kLanes == 0 ? n.samples
                  : flops_of_row_sum<std::max(kLanes, 1), T>(p.samples(), sharing.warps_per_row);
  return n.rows() * (sum + flops_of_division(n));
}

// One set per block: each row of the matrix takes L multiplications and a tree reduction.
template <int kLanes>
double flops_with_trees(const AverageMatvec& p) {
  const Sizes n(p);
  return flops_of_averages(n, kLanes) + n.rows() * (n.length + kFlopsOfTreeReduction);
}

// One set per block, with shuffles in two stages instead.
inline double flops_with_shuffles(const AverageMatvec& p) {
  const Sizes n(p);
  return flops_of_averages(n, 32) + n.rows() * (n.length + 33 * kFlopsOfShuffles);
}

// The product is assumed to consist of L FMAs per element of the result. cuBLAS selects its kernel
// at run time: one with tiles also multiplies padding, and one for tensor cores executes no FMAs.
inline double flops_with_gemm(const AverageMatvec& p) {
  const Sizes n(p);
  return flops_of_averages(n, 32) + 2 * n.rows() * n.length;
}

// FLOPs of `tiles` tiles of the product. Tiles and chunks are padded with zeros. Then the results
// of the teams are added to zero.
template <class Tile>
double flops_of_tiles(const AverageMatvec& p, double tiles) {
  const double chunks = static_cast<double>(ceil_div(p.length(), Tile::kChunk));
  return tiles * Tile::kElements * (2 * Tile::kChunk * chunks + Tile::kTeams);
}

inline double flops_of_wide_average(const AverageMatvec& p) {
  return with_type_and_lanes(p, [&]<class T>(T, auto lanes) {
    using Tile = WideTile<T>;
    const auto tiles =
        static_cast<double>(ceil_div(p.sets(), Tile::kSets) * ceil_div(p.length(), Tile::kRows));
    return flops_of_wide_averages<lanes, T>(p, sharing_of<lanes, T>(p)) +
           flops_of_tiles<Tile>(p, tiles);
  });
}

inline double flops_of_overlapped(const AverageMatvec& p, const Hardware& gpu) {
  const OverlapSchedule schedule = schedule_of(p, gpu);
  return with_type_and_lanes(p, [&]<class T>(T, auto lanes) {
    return flops_of_wide_averages<lanes, T>(p, sharing_of<lanes, T>(p)) +
           flops_of_tiles<MainTile<T>>(p, 1.0 * schedule.groups * schedule.group_tiles) +
           flops_of_tiles<LastTile<T>>(p, schedule.blocks - schedule.first_last_tile);
  });
}

inline std::size_t bytes_of_averages(const AverageMatvec& p) {
  return static_cast<std::size_t>(p.sets() * p.length() * p.vectors.type.size);
}

// The vectors are read once, and the matrix once per set.
inline double bytes_of_set_per_block(const AverageMatvec& p) {
  const Sizes n(p);
  return n.element_bytes * n.rows() * (n.samples + n.length + 1);
}

// The averages are written, and the product is assumed to read each operand once (the requests of
// cuBLAS are unknown).
inline double bytes_with_gemm(const AverageMatvec& p) {
  const Sizes n(p);
  return n.element_bytes * (n.rows() * (n.samples + 3) + n.length * n.length);
}

// The averages are written. The product reads the averages once per row of tiles and the matrix
// once per column of tiles.
template <template <class> class Tile>
double bytes_with_tiles(const AverageMatvec& p) {
  const Sizes n(p);
  return with_real(p.vectors.type, [&]<class T>(T) {
    const double averages_read = std::ceil(n.length / Tile<T>::kRows) * n.rows();
    const double matrix_read = std::ceil(n.sets / Tile<T>::kSets) * n.length * n.length;
    return n.element_bytes * (n.rows() * (n.samples + 2) + averages_read + matrix_read);
  });
}

}  // namespace ado::cuda
