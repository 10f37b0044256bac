// Max plus, engine: terms split over threads and blocks, for problems with too few points to keep a
// device busy.
#pragma once

#include "common/dependent_launch.cuh"
#include "max_plus/engine/columns.cuh"

#include <algorithm>

namespace ado::cuda {
namespace {

// ---- split_terms, one_barrier -------------------------------------------------------------------
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
// by atomic operations. A separate kernel sets out to zero first; the launch and the loads of the
// main kernel overlap it.
struct TermSplit {
  int lanes;              // threads of a team
  std::int64_t blocks_x;  // along the points
  std::int64_t blocks_y;  // along the terms
  std::int64_t rows_per_block;
  Extent grid() const { return grid_of(blocks_x, blocks_y); }
};

#ifdef __CUDACC__

// Atomic maximum. Neither value is negative, and the bit patterns of non-negative numbers have the
// same order as the numbers. A NaN with a cleared sign bit is larger than all numbers.
__device__ void atomic_larger(float* to, float best) {
  atomicMax(reinterpret_cast<unsigned*>(to), __float_as_uint(best) & 0x7fffffffU);
}
__device__ void atomic_larger(double* to, double best) {
  atomicMax(reinterpret_cast<unsigned long long*>(to),
            static_cast<unsigned long long>(__double_as_longlong(best)) & 0x7fffffffffffffffULL);
}

constexpr int kZeroThreads = 256;

template <class T>
__global__ void __launch_bounds__(kZeroThreads) max_plus_zero(T* out, std::int64_t points) {
  allow_next_kernel();
  if (thread_x() < points) out[thread_x()] = 0;
}

// Launches a kernel that splits the terms.
template <class T>
void launch_split(const Launch& go, const MaxPlus& p, const TermSplit& split,
                  void (*kernel)(MaxPlusOperands<T>, int, std::int64_t)) {
  const bool merges = split.blocks_y > 1;
  if (merges) {
    Launch zero = go;
    zero.block = {kZeroThreads};
    zero.grid = grid_of(ceil_div(p.points(), kZeroThreads), 1);
    launch(zero, max_plus_zero<T>, p.out.as<T>(), p.points());
  }
  launch_with({.dependent = merges}, go, kernel, operands_of<T>(p), split.lanes,
              split.rows_per_block);
}

#endif

// ---- split_terms --------------------------------------------------------------------------------
// The number of blocks that keeps the device busy. It also limits the atomic operations.
std::int64_t busy_blocks(const Hardware& gpu) {
  constexpr double kPerMultiprocessor = 5.82;  // H200: 768 blocks
  return std::max<std::int64_t>(static_cast<std::int64_t>(kPerMultiprocessor * gpu.multiprocessors),
                                1);
}

// Calls `visit` like with_batch. If rows are not aligned but a block has one thread per point, the
// batch is one element of each of four rows.
template <class Visit>
auto with_split_batch(const MaxPlus& p, Visit visit) {
  if (rows_aligned(p) || p.points() > kColumnThreads) return with_batch(p, visit);
  return with_real(p.big.type, [&](auto zero) { return visit(zero, ColumnBatch<1, 1, 4>{}); });
}

TermSplit term_split_of(const MaxPlus& p, const Hardware& gpu) {
  if (p.points() == 0) return {.lanes = 1, .blocks_x = 0, .blocks_y = 1, .rows_per_block = 1};
  constexpr int kMinBatches = 4;  // of rows per team, if the terms are split over blocks
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

#ifdef __CUDACC__
// With more than one block along y, out must be zero before the maxima are merged.
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
  if (gridDim.y > 1) wait_for_previous_kernel();
  maxima.for_vectors([&](std::int64_t vector, const Points& best) {
    if (gridDim.y == 1)
      reinterpret_cast<Points*>(p.out)[vector] = best;
    else
      for (int i = 0; i < Batch::kLength; ++i)
        atomic_larger(p.out + vector * Batch::kLength + i, best.at[i]);
  });
}
#endif

constexpr Variant<MaxPlus> kSplitTerms = {
    .name = "split_terms",
    .changes = {"Splits the terms over more threads and blocks if the points alone do not keep the "
                "device busy.",
                Step::kParallelism},
    .blocks = {{{kColumnThreads}}},
    .grid = [](const MaxPlus& p, Extent,
               const Hardware& gpu) { return term_split_of(p, gpu).grid(); },
    .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
      with_split_batch(p, [&]<class T, class Batch>(T, Batch) {
        launch_split<T>(go, p, term_split_of(p, go.hardware), max_plus_split_terms<T, Batch>);
      });
    })};

// ---- one_barrier --------------------------------------------------------------------------------
// All loads of a small problem are in flight at once.
//
// The time of a small problem is the latency of one launch and of the accesses that wait for each
// other. In split_terms, a thread has few loads in flight, and the tree reduction needs two
// barriers of 1024 threads per level. Here, a thread loads several rows at once. The maxima of the
// teams of a warp are merged by shuffles, and the maxima of the warps after a single barrier
// (example: eight lanes, 32 teams):
//
//   warp 0   | team 0 | team 1 | team 2 | team 3 |   shuffles: the maxima of these four teams
//   ...
//   warp 7   | team 28 ...                       |   barrier; the first team merges eight warps
constexpr int kOneBarrierThreads = 256;
// Rows in flight per thread: few if they suffice, because with cold caches, the instructions are
// fetched from DRAM.
constexpr int kFewRows = 4;
template <class T>
constexpr int kManyRows = 64 / static_cast<int>(sizeof(T));
// Resident blocks per multiprocessor; more would leave too few registers for the loads in flight.
constexpr int kOneBarrierBlocks = 4;
std::int64_t resident_blocks(const Hardware& gpu) {
  return std::int64_t{kOneBarrierBlocks} * gpu.multiprocessors;
}

// The number of lanes is a power of two, because a division would delay the first load. Teams have
// more lanes than a warp if the blocks would otherwise not be resident at the same time. They have
// fewer, but no fewer than a sector has elements, if the block would otherwise load its rows in
// several batches. Terms are split over blocks only if the saved batches would take longer than the
// merge in out.
TermSplit one_barrier_split_of(const MaxPlus& p, const Hardware& gpu, int batch_rows) {
  constexpr std::int64_t kMaxBatches = 3;
  const std::int64_t points = p.points(), terms = p.terms(), resident = resident_blocks(gpu);
  const std::int64_t sector = kSectorBytes / p.big.type.size;
  if (points == 0) return {.lanes = 1, .blocks_x = 0, .blocks_y = 1, .rows_per_block = 1};
  int lanes = 1;
  while (lanes < kWarpSize && lanes < points) lanes *= 2;
  while (lanes < kOneBarrierThreads && ceil_div(points, lanes) > resident) lanes *= 2;
  const auto rows_at_once = [&] { return std::int64_t{kOneBarrierThreads / lanes} * batch_rows; };
  while (lanes > sector && rows_at_once() < terms && ceil_div(points, lanes) < resident / 2)
    lanes /= 2;
  const std::int64_t blocks_x = ceil_div(points, lanes);
  const std::int64_t batches = std::max<std::int64_t>(ceil_div(terms, rows_at_once()), 1);
  std::int64_t splits = 1;
  if (batches > kMaxBatches) splits = std::clamp<std::int64_t>(resident / blocks_x, 1, batches);
  splits = std::max(splits, ceil_div(terms, std::int64_t{1} << 30));  // the kernel counts in int
  const std::int64_t teams = kOneBarrierThreads / lanes;
  const std::int64_t rows = std::max<std::int64_t>(ceil_div(terms, splits * teams), 1) * teams;
  return {.lanes = lanes,
          .blocks_x = blocks_x,
          .blocks_y = std::max<std::int64_t>(ceil_div(terms, rows), 1),
          .rows_per_block = rows};
}

// Calls `visit` with a zero of the element type, the batch of a thread, and the split.
template <class Visit>
auto with_one_barrier(const MaxPlus& p, const Hardware& gpu, Visit visit) {
  return with_real(p.big.type, [&]<class T>(T zero) {
    const TermSplit split = one_barrier_split_of(p, gpu, kFewRows);
    if (p.terms() <= kFewRows * (kOneBarrierThreads / split.lanes))
      return visit(zero, ColumnBatch<1, 1, kFewRows>{}, split);
    return visit(zero, ColumnBatch<1, 1, kManyRows<T>>{},
                 one_barrier_split_of(p, gpu, kManyRows<T>));
  });
}

#ifdef __CUDACC__

// Returns the maximum of `best` and the first `exist` of kTerms sums of one point. The
// elements are `pitch` apart, and the terms are `step` apart. All loads are issued before the first
// sum. A missing element is replaced by -infinity, because nvcc 13.0 would place a predicated sum
// directly after its load, so that each load would wait for the previous one.
template <int kTerms, class T>
__device__ T add_terms_of_point(T best, const T* from, std::int64_t pitch, const T* small, int step,
                                int exist) {
  T value[kTerms], term[kTerms];
#pragma unroll
  for (int i = 0; i < kTerms; ++i) {
    value[i] = static_cast<T>(-INFINITY);
    term[i] = 0;
    if (i < exist) {
      value[i] = *from;
      term[i] = *small;
    }
    from += pitch;
    small += step;
  }
#pragma unroll
  for (int i = 0; i < kTerms; ++i) best = larger(best, value[i] + term[i]);
  return best;
}

// With more than one block along y, out must be zero before the maxima are merged.
template <class T, class Batch>
__global__ void __launch_bounds__(kOneBarrierThreads, kOneBarrierBlocks)
    max_plus_one_barrier(MaxPlusOperands<T> p, int lanes, std::int64_t rows_per_block) {
  constexpr int kRows = Batch::kRows;
  constexpr bool kOnce = kRows == kFewRows;  // one batch suffices, in one block along y
  __shared__ T shared_maxima[kOneBarrierThreads];
  const int thread = threadIdx.x, lane = thread & (lanes - 1);
  const int log_lanes = __ffs(lanes) - 1, team = thread >> log_lanes;
  constexpr int kLogThreads = 8;
  static_assert(1 << kLogThreads == kOneBarrierThreads);
  const int log_teams = kLogThreads - log_lanes, teams = 1 << log_teams;
  const std::int64_t point = (block_x() << log_lanes) + lane;
  const std::int64_t row = (kOnce ? 0 : block_y() * rows_per_block) + team;
  T best = 0;
  if (point < p.points) {
    const T *from = p.big + row * p.points + point, *small = p.small + row;
    const std::int64_t pitch = teams * p.points;
    const int left = static_cast<int>(min(rows_per_block - team, p.terms - row));
    int rows = (left + teams - 1) >> log_teams;
#pragma unroll 1
    do {
      best = add_terms_of_point<kRows>(best, from, pitch, small, teams, rows);
      from += kRows * pitch;
      small += kRows * teams;
      rows -= kRows;
    } while (!kOnce && rows > 0);
  }
#pragma unroll 1
  for (int distance = lanes; distance < kWarpSize; distance *= 2)
    best = larger(best, __shfl_xor_sync(kAllLanes, best, distance));
  shared_maxima[thread] = best;
  __syncthreads();
  if (thread >= lanes || point >= p.points) return;
  const int step = max(lanes, kWarpSize);
#pragma unroll
  for (int i = 1; i < kOneBarrierThreads / kWarpSize; ++i)
    if (i * step < kOneBarrierThreads) best = larger(best, shared_maxima[thread + i * step]);
  if (kOnce || gridDim.y == 1) {
    p.out[point] = best;
  } else {
    wait_for_previous_kernel();
    atomic_larger(p.out + point, best);
  }
}

#endif

constexpr Variant<MaxPlus> kOneBarrier = {
    .name = "one_barrier",
    .changes = {"Loads several rows per thread at once in smaller blocks, and merges the maxima by "
                "shuffles and a single barrier.",
                Step::kInFlight, Step::kBarriers},
    .blocks = {{{kOneBarrierThreads}}},
    .grid =
        [](const MaxPlus& p, Extent, const Hardware& gpu) {
          return with_one_barrier(p, gpu,
                                  [](auto, auto, const TermSplit& split) { return split.grid(); });
        },
    .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
      with_one_barrier(p, go.hardware, [&]<class T, class Batch>(T, Batch, const TermSplit& split) {
        launch_split<T>(go, p, split, max_plus_one_barrier<T, Batch>);
      });
    })};

}  // namespace
}  // namespace ado::cuda
