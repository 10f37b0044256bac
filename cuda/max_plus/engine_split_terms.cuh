// Terms split over threads and blocks, for problems with too few points to keep a device busy.
//
// The threads of a block form teams of `lanes` threads, enough for the points of the block. The
// teams process the block's rows in round-robin order. Blocks of the same points process different
// rows (4 teams of 256 lanes, 2 blocks along the terms):
//
//                        points of a block
//                        lane 0 ............ lane 255
//   block y = 0   row 0  team 0 ....................     then rows 4, 8, ...
//                 row 1  team 1 ....................          rows 5, 9, ...
//                 row 2  team 2 ....................
//                 row 3  team 3 ....................
//   block y = 1   row n  team 0 ....................     n = rows per block
//                 ...
//
// The maxima of the teams are merged in shared memory. The maxima of the blocks are merged in out
// by atomic operations.
#pragma once

#include <algorithm>

#include "max_plus/engine_columns.cuh"

namespace ado::cuda {

// The number of blocks that keeps the device busy. It also limits the atomic operations.
inline std::int64_t busy_blocks(const Hardware& gpu) {
  constexpr Tuned<double> kPerMultiprocessor{5.82, "H200"};  // 768 blocks
  return std::max<std::int64_t>(
      static_cast<std::int64_t>(kPerMultiprocessor.on(gpu) * gpu.multiprocessors), 1);
}
// Minimum number of batches of rows per team, if the terms are split over blocks.
inline constexpr int kMinBatches = 4;

// Calls `visit` like with_batch. If rows are not aligned but a block has one thread per point, the
// batch is one element of each of four rows.
template <class Visit>
auto with_split_batch(const MaxPlus& p, Visit visit) {
  if (rows_aligned(p) || p.points() > kColumnThreads) return with_batch(p, visit);
  return with_real(p.big.type, [&](auto zero) { return visit(zero, ColumnBatch<1, 1, 4>{}); });
}

struct TermSplit {
  int lanes;              // threads of a team
  std::int64_t blocks_x;  // along the points
  std::int64_t blocks_y;  // along the terms
  std::int64_t rows_per_block;
};

inline Extent grid_of(const TermSplit& split) { return grid_of(split.blocks_x, split.blocks_y); }

inline TermSplit term_split_of(const MaxPlus& p, const Hardware& gpu) {
  if (p.points() == 0) return {.lanes = 1, .blocks_x = 0, .blocks_y = 1, .rows_per_block = 1};
  return with_split_batch(p, [&]<class Batch>(auto, Batch) {
    const std::int64_t row_threads = ceil_div(p.points(), Batch::kPoints);
    const std::int64_t busy = busy_blocks(gpu);
    // Halve the teams, to no less than a warp, until the device is busy or the teams would have too
    // few rows.
    std::int64_t lanes = kColumnThreads;
    while (lanes > 32 && ceil_div(row_threads, lanes) < busy &&
           2 * kColumnThreads / lanes * Batch::kRows <= p.terms())
      lanes /= 2;
    lanes = std::min(lanes, row_threads);
    const std::int64_t blocks_x = ceil_div(row_threads, lanes);
    const std::int64_t batch_rows = kColumnThreads / lanes * Batch::kRows;  // of all teams
    const std::int64_t max_splits =
        std::max<std::int64_t>(p.terms() / (kMinBatches * batch_rows), 1);
    const std::int64_t splits = std::clamp<std::int64_t>(busy / blocks_x, 1, max_splits);
    const std::int64_t rows =
        std::max<std::int64_t>(ceil_div(p.terms(), splits * batch_rows), 1) * batch_rows;
    return TermSplit{.lanes = static_cast<int>(lanes),
                     .blocks_x = blocks_x,
                     .blocks_y = std::max<std::int64_t>(ceil_div(p.terms(), rows), 1),
                     .rows_per_block = rows};
  });
}

// Executed FLOPs of blocks of `threads` threads. Threads that do not fill a team are idle.
template <class Batch>
double flops_of_teams(const MaxPlus& p, const TermSplit& split, std::int64_t threads) {
  const std::int64_t teams = threads / split.lanes;
  const auto additions_of_block = [&](std::int64_t rows) {
    std::int64_t additions = 0;
    for (std::int64_t team = 0; team < std::min(teams, rows); ++team)
      additions += additions_of_thread<Batch>(ceil_div(rows - team, teams));
    return static_cast<double>(additions);
  };
  const std::int64_t full = p.terms() / split.rows_per_block;
  const double of_terms = static_cast<double>(full) * additions_of_block(split.rows_per_block) +
                          additions_of_block(p.terms() % split.rows_per_block);
  return static_cast<double>(split.blocks_x * split.lanes) * of_terms;
}

inline double flops_of_split(const MaxPlus& p, const Hardware& gpu) {
  const TermSplit split = term_split_of(p, gpu);
  return with_split_batch(
      p, [&]<class Batch>(auto, Batch) { return flops_of_teams<Batch>(p, split, kColumnThreads); });
}

// Without a split, each thread would process its own columns, as in `vectorised`.
inline const char* why_split_slower(const MaxPlus& p, const Hardware& gpu) {
  constexpr std::int64_t kMinTerms = 4;
  if (p.terms() < kMinTerms) return "there are too few terms to split";
  const TermSplit split = term_split_of(p, gpu);
  if (split.blocks_y > 1 || split.lanes < kColumnThreads) return nullptr;
  return split.blocks_x >= busy_blocks(gpu)
             ? "every multiprocessor already has enough blocks without splitting the terms"
             : "there are too few terms to split";
}

#ifdef __CUDACC__

// Atomic maximum. Neither value is negative, and the bit patterns of non-negative numbers have the
// same order as the numbers. A NaN with a cleared sign bit is larger than all numbers.
inline __device__ void atomic_larger(float* to, float best) {
  atomicMax(reinterpret_cast<unsigned*>(to), __float_as_uint(best) & 0x7fffffffU);
}
inline __device__ void atomic_larger(double* to, double best) {
  atomicMax(reinterpret_cast<unsigned long long*>(to),
            static_cast<unsigned long long>(__double_as_longlong(best)) & 0x7fffffffffffffffULL);
}

// With more than one block along y, out must be zero beforehand.
template <class T, class Batch>
__global__ void __launch_bounds__(kColumnThreads)
    max_plus_split_terms(MaxPlusOperands<T> p, int lanes, std::int64_t rows_per_block) {
  using Points = Vector<T, Batch::kLength>;
  const int lane = threadIdx.x % lanes, team = threadIdx.x / lanes, teams = kColumnThreads / lanes;
  const std::int64_t first_row = block_y() * rows_per_block;
  ColumnMaxima<T, Batch> maxima(p, block_x() * lanes * Batch::kVectors + lane, lanes);
  if (team < teams) maxima.add(first_row + team, min(first_row + rows_per_block, p.terms), teams);

  // Tree reduction: in each iteration, the lower half of the remaining teams merges the maxima of
  // the upper half.
  __shared__ Points shared_maxima[Batch::kVectors][kColumnThreads];
  for (int left = teams; left > 1;) {
    const int half = (left + 1) / 2;
#pragma unroll
    for (int j = 0; j < Batch::kVectors; ++j) shared_maxima[j][threadIdx.x] = maxima.best(j);
    __syncthreads();
    if (team + half < left)
      maxima.merge([&](int j) { return shared_maxima[j][threadIdx.x + half * lanes]; });
    __syncthreads();
    left = half;
  }
  if (team != 0) return;
  maxima.for_vectors([&](std::int64_t vector, const Points& best) {
    if (gridDim.y == 1)
      reinterpret_cast<Points*>(p.out)[vector] = best;
    else
      for (int i = 0; i < Batch::kLength; ++i)
        atomic_larger(p.out + vector * Batch::kLength + i, best.at[i]);
  });
}

#endif

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

inline constexpr int kOneBarrierThreads = 256;
using OneBarrierBatch = ColumnBatch<1, 1, 8>;

// Each team of a block has one thread per point. Terms are split over blocks as long as every
// thread has at least one batch of rows.
inline TermSplit one_barrier_split_of(const MaxPlus& p, const Hardware& gpu) {
  if (p.points() == 0) return {.lanes = 1, .blocks_x = 0, .blocks_y = 1, .rows_per_block = 1};
  const std::int64_t lanes = std::min<std::int64_t>(p.points(), kOneBarrierThreads);
  const std::int64_t blocks_x = ceil_div(p.points(), lanes);
  const std::int64_t rows_at_once = kOneBarrierThreads / lanes * OneBarrierBatch::kRows;
  const std::int64_t splits = std::clamp<std::int64_t>(
      p.terms() / rows_at_once, 1, std::max<std::int64_t>(busy_blocks(gpu) / blocks_x, 1));
  const std::int64_t rows =
      std::max<std::int64_t>(ceil_div(p.terms(), splits * rows_at_once), 1) * rows_at_once;
  return {.lanes = static_cast<int>(lanes),
          .blocks_x = blocks_x,
          .blocks_y = std::max<std::int64_t>(ceil_div(p.terms(), rows), 1),
          .rows_per_block = rows};
}

inline double flops_of_one_barrier(const MaxPlus& p, const Hardware& gpu) {
  return flops_of_teams<OneBarrierBatch>(p, one_barrier_split_of(p, gpu), kOneBarrierThreads);
}

inline const char* why_one_barrier_slower(const MaxPlus& p, const Hardware& gpu) {
  constexpr Tuned<double> kElementsPerMultiprocessor{15887.52, "H200"};  // 2^21 elements
  constexpr Tuned<std::int64_t> kMinTermsPerPoint{2, "H200"}, kFewElements{1 << 11, "H200"};
  const std::int64_t elements = p.terms() * p.points();
  if (static_cast<double>(elements) > kElementsPerMultiprocessor.on(gpu) * gpu.multiprocessors)
    return "with this many terms, merging is a small part of the time";
  if (p.terms() < kMinTermsPerPoint.on(gpu) * p.points() && elements > kFewElements.on(gpu))
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
