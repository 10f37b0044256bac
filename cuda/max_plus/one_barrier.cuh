// Few points: terms are split over the teams of small blocks, which merge their maxima after a
// single barrier.
//
// The tree reduction of `split_terms` needs two barriers of 1024 threads per level. Here, each
// thread stores its maximum to shared memory once. After one barrier, a group of up to 32
// neighbouring threads loads the maxima of one point and merges them by shuffles (example: three
// lanes, 85 teams, groups of 32):
//
//   shared memory   team 0: p0 p1 p2   team 1: p0 p1 p2   ...   team 84: p0 p1 p2
//   group of p0     thread i loads p0 of teams i, i + 32 and i + 64; five shuffles
#pragma once

#include "common/warp.cuh"
#include "max_plus/split_terms.cuh"

namespace ado::cuda {

inline constexpr int kOneBarrierThreads = 256;
using OneBarrierBatch = ColumnBatch<1, 1, 8>;

// Each team of a block has one thread per point. Terms are split over blocks as long as every
// thread has at least one batch of rows. kBusyBlocks limits the number of atomic operations.
inline TermSplit one_barrier_split_of(const MaxPlus& p) {
  if (p.points() == 0) return {.lanes = 1, .blocks_x = 0, .blocks_y = 1, .rows_per_block = 1};
  const std::int64_t lanes = std::min<std::int64_t>(p.points(), kOneBarrierThreads);
  const std::int64_t blocks_x = ceil_div(p.points(), lanes);
  const std::int64_t rows_at_once = kOneBarrierThreads / lanes * OneBarrierBatch::kRows;
  const std::int64_t splits = std::clamp<std::int64_t>(
      p.terms() / rows_at_once, 1, std::max<std::int64_t>(kBusyBlocks / blocks_x, 1));
  const std::int64_t rows =
      std::max<std::int64_t>(ceil_div(p.terms(), splits * rows_at_once), 1) * rows_at_once;
  return {.lanes = static_cast<int>(lanes),
          .blocks_x = blocks_x,
          .blocks_y = std::max<std::int64_t>(ceil_div(p.terms(), rows), 1),
          .rows_per_block = rows};
}

inline double flops_of_one_barrier(const MaxPlus& p) {
  return flops_of_teams<OneBarrierBatch>(p, one_barrier_split_of(p), kOneBarrierThreads);
}

// Tuned on an H200.
inline const char* why_one_barrier_slower(const MaxPlus& p, const Hardware&) {
  constexpr std::int64_t kMinTermsPerPoint = 2, kFewElements = 1 << 11, kMaxElements = 1 << 21;
  const std::int64_t elements = p.terms() * p.points();
  if (elements > kMaxElements) return "with this many terms, merging is a small part of the time";
  if (p.terms() < kMinTermsPerPoint * p.points() && elements > kFewElements)
    return "with this many points, only few teams must be merged";
  return nullptr;
}

#ifdef __CUDACC__

// With more than one block along y, out must be initialised with zeros.
template <class T, class Batch, int kThreads>
__global__ void __launch_bounds__(kThreads)
    max_plus_one_barrier(MaxPlusOperands<T> p, int lanes, std::int64_t rows_per_block) {
  static_assert(Batch::kPoints == 1);
  const int lane = threadIdx.x % lanes, team = threadIdx.x / lanes, teams = kThreads / lanes;
  const std::int64_t first_point = block_x() * lanes, first_row = block_y() * rows_per_block;
  ColumnMaxima<T, Batch> maxima(p, first_point + lane, lanes);
  if (team < teams) maxima.add(first_row + team, min(first_row + rows_per_block, p.terms), teams);

  __shared__ T shared_maxima[kThreads];
  shared_maxima[threadIdx.x] = maxima.best(0).at[0];
  __syncthreads();
  int group = kWarpSize;  // threads per group, a power of two
  while (group > teams) group /= 2;
  const int member = threadIdx.x % group;
  for (int first = 0; first < lanes; first += kThreads / group) {  // all threads take part
    const int point = first + static_cast<int>(threadIdx.x) / group;
    T best = 0;
    if (point < lanes)
      for (int i = member; i < teams; i += group)
        best = larger(best, shared_maxima[i * lanes + point]);
    for (int distance = group / 2; distance > 0; distance /= 2)
      best = larger(best, __shfl_xor_sync(kAllLanes, best, distance));
    if (member != 0 || point >= lanes || first_point + point >= p.points) continue;
    if (gridDim.y == 1)
      p.out[first_point + point] = best;
    else
      atomic_larger(p.out + first_point + point, best);
  }
}

#endif

}  // namespace ado::cuda
