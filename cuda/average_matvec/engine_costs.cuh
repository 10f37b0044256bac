// Executed FLOPs and requested bytes of the CUDA variants of average_matvec.
//
// The FLOPs of the variants up to `overlapped` equal the hardware counters of an H200 exactly for
// N = L = M = 1024 in float32, except that cuBLAS also multiplies each result by alpha. They assume
// that the compiler fuses no multiplication with an addition: only the products of tiles and the
// divisions are written with FMAs.
#pragma once

#include <cmath>

#include "average_matvec/engine_averaging.cuh"
#include "average_matvec/engine_cluster.cuh"
#include "average_matvec/engine_overlapped.cuh"
#include "average_matvec/engine_row_product.cuh"
#include "average_matvec/engine_small_sets.cuh"
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
// depend on the alignment of the row. Rows start `stride` elements apart, so the alignment is the
// same for every kLength-th row, and the result is the mean over kLength rows. Missing vectors of a
// batch of loads are added as zeros.
template <int kLanes, class T>
double flops_of_row_sum(std::int64_t stride, std::int64_t samples, std::int64_t warps) {
  constexpr int kLength = kVectorLength<T>;
  constexpr double kFlopsOfBatch = kVectorsPerThread * kLength - 1 + kFlopsOfAdd;
  std::int64_t batches = 0, additions = 0;  // of kLength rows
  for (int row = 0; row < kLength; ++row) {
    const std::int64_t leading = std::min(samples, (kLength - row * stride % kLength) % kLength);
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
  const double sum = kLanes == 0 ? n.samples
                                 : flops_of_row_sum<std::max(kLanes, 1), T>(
                                       p.samples(), p.samples(), sharing.warps_per_row);
  return n.rows() * (sum + flops_of_division(n));
}

// FLOPs of launch_averaging(). All parts of a row have the alignment of the row.
inline double flops_of_averaging(const AverageMatvec& p, const Hardware& gpu) {
  const AveragingPlan plan = averaging_of(p, gpu);
  const Sizes n(p);
  if (plan.kind == Averaging::kNone) return 0;
  return with_type_and_lanes(p, [&]<class T>(T, auto lanes) {
    if (plan.kind == Averaging::kRows)
      return flops_of_wide_averages<lanes, T>(
          p, sharing_for<lanes>(p.sets() * p.length(), p.samples() * std::int64_t{sizeof(T)}, gpu));
    const auto sum_of_part = [&](std::int64_t samples) {
      return flops_of_row_sum<kWarpSize, T>(p.samples(), samples, kAveragingWarps);
    };
    const SplitRows& split = plan.split;
    const auto parts = static_cast<double>(split.parts);
    const double combined = kFlopsOfAdd * parts + kFlopsOfTotal * kAveragingThreads +
                            kFlopsOfShuffles * kAveragingWarps + kAveragingWarps;
    return n.rows() * ((parts - 1) * sum_of_part(split.part_samples) +
                       sum_of_part(p.samples() - (split.parts - 1) * split.part_samples) +
                       combined + flops_of_division(n));
  });
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

inline double flops_of_split_average_then_gemm(const AverageMatvec& p, const Hardware& gpu) {
  const Sizes n(p);
  return flops_of_averaging(p, gpu) + 2 * n.rows() * n.length;
}

// The columns of staged chunks and the rows of blocks are padded. Each warp then reduces its
// products over the lanes. The sums of the warps that share a row are added to an initial zero.
inline double flops_of_row_product(const AverageMatvec& p, const Hardware& gpu) {
  return flops_of_averaging(p, gpu) +
         with_row_product(p, gpu, [&](auto, auto, auto sets, const RowProductPlan& plan) {
           constexpr int kValues = kWarpRows * sets;
           const double tiles = 1.0 * plan.row_blocks * plan.set_tiles;
           const std::int64_t chunks = ceil_div(p.length(), std::int64_t{plan.chunk});
           const double columns =
               static_cast<double>(kStagesAverages<sets> ? chunks * plan.chunk : p.length());
           const double results = tiles * plan.row_groups * kValues;
           double of_lane = 0;  // sum_values_over_lanes
           for (int lanes = kWarpSize, left = kValues; lanes > 1; lanes /= 2)
             of_lane += left > 1 ? left /= 2 : 1;
           return results * (2 * columns + plan.cluster * (kProductWarps / plan.row_groups)) +
                  tiles * plan.cluster * kProductThreads * of_lane;
         });
}

// All lanes of a block execute the additions of the reductions, including lanes without a row.
inline double flops_of_small_sets(const AverageMatvec& p, const Hardware& gpu) {
  const SmallPlan plan = small_plan(p, gpu);
  const Sizes n(p);
  const double full = static_cast<double>(std::int64_t{1} << plan.log_sets);
  const auto of_block = [&](double sets) {
    const double rows = sets * n.length;
    const double passes = std::ceil(rows / (kSmallThreads >> plan.log_lanes));
    return passes * kSmallThreads * (kSmallSums - 1 + plan.log_lanes) +
           rows * (n.samples + 1 + 2 * n.length);
  };
  const double full_blocks = std::floor(n.sets / full);
  const double left = n.sets - full_blocks * full;
  return full_blocks * of_block(full) + (left > 0 ? of_block(left) : 0);
}

// All lanes of a block execute the additions of every batch, including lanes without a sample.
inline double flops_of_cluster(const AverageMatvec& p, const Hardware& gpu) {
  const ClusterPlan plan = cluster_plan(p, gpu);
  const std::int64_t parts = std::int64_t{1} << plan.log_parts;
  const auto blocks = static_cast<double>(plan.slices * plan.cluster);  // of one group of sets
  const std::int64_t groups = std::int64_t{kClusterThreads >> plan.log_lanes} * plan.cluster;
  const std::int64_t batches = ceil_div(p.samples(), kClusterSamples * (parts << plan.log_lanes));
  const double of_thread = static_cast<double>(batches) * (kClusterSamples - 1 + kFlopsOfAdd) +
                           kFlopsOfTotal + plan.log_lanes;
  const auto of_sets = [&](std::int64_t sets) {
    const std::int64_t rows = sets * p.length();
    const auto passes = static_cast<double>(ceil_div(rows * parts, groups));
    const auto results = static_cast<double>(rows);
    return blocks *
               (passes * kClusterThreads * of_thread + results * static_cast<double>(parts + 1)) +
           results * (2 * static_cast<double>(p.length()) + kFlopsOfShuffles);
  };
  const std::int64_t full = p.sets() / plan.sets;
  return static_cast<double>(full) * of_sets(plan.sets) + of_sets(p.sets() - full * plan.sets);
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

// The vectors are read once, the averages and the sums of parts are written, and the sums are read.
inline double bytes_of_averaging(const AverageMatvec& p, const Hardware& gpu) {
  const AveragingPlan plan = averaging_of(p, gpu);
  const Sizes n(p);
  if (plan.kind == Averaging::kNone) return 0;
  const double parts = plan.split.parts > 1 ? static_cast<double>(plan.split.parts) : 0;
  return n.element_bytes * n.rows() * (n.samples + 1 + 2 * parts);
}

inline double bytes_of_split_average_then_gemm(const AverageMatvec& p, const Hardware& gpu) {
  const Sizes n(p);
  return bytes_of_averaging(p, gpu) + n.element_bytes * (2 * n.rows() + n.length * n.length);
}

// The matrix is read once per tile of sets, and the averages of a tile once per block of rows.
inline double bytes_of_row_product(const AverageMatvec& p, const Hardware& gpu) {
  const Sizes n(p);
  return bytes_of_averaging(p, gpu) +
         with_row_product(p, gpu, [&](auto, auto, auto sets, const RowProductPlan& plan) {
           const double matrix =
               1.0 * plan.set_tiles * plan.row_blocks * plan.row_groups * kWarpRows * n.length;
           const double averages = 1.0 * plan.set_tiles * sets * plan.row_blocks * n.length;
           return n.element_bytes * (matrix + averages + n.rows());
         });
}

// Each block reads the whole matrix.
inline double bytes_of_small_sets(const AverageMatvec& p, const Hardware& gpu) {
  const Sizes n(p);
  return n.element_bytes * (n.rows() * (n.samples + 1) +
                            static_cast<double>(small_plan(p, gpu).blocks) * n.length * n.length);
}

// Each cluster reads the vectors of its sets. The matrix is read once per group of sets.
inline double bytes_of_cluster(const AverageMatvec& p, const Hardware& gpu) {
  const ClusterPlan plan = cluster_plan(p, gpu);
  const Sizes n(p);
  return n.element_bytes * (n.rows() * (plan.slices * n.samples + 1) +
                            static_cast<double>(plan.tiles) * n.length * n.length);
}

}  // namespace ado::cuda
