// Averages and product in one launch: a cluster of blocks computes the results of a few sets.
//
// The blocks of a cluster share the rows of the sets, and store each average in the shared memory
// of all of them. After a barrier of the cluster, each block multiplies some rows of the matrix by
// all averages. So averages never pass through global memory, and no second launch is needed. Each
// cluster reads the whole matrix, which comes from L2.
#pragma once

#include <algorithm>
#include <cstdint>

#include "average_matvec/averaging.cuh"
#include "average_matvec/operands.cuh"
#include "average_matvec/row_product.cuh"
#include "routines/average_matvec.hpp"

namespace ado::cuda {

struct SetGroupPlan {
  int sets = 1;  // per cluster, a power of two, at most 32
  unsigned cluster = 1;
  bool staged = false;  // rows are staged; otherwise one warp adds a part of a row
  StagedRows rows = {};
  SplitRows split = {.parts = 1, .part_samples = 0};
  std::size_t averages = 0;  // elements in shared memory, before the staged rows
  std::size_t shared_bytes = 0;
};

inline constexpr std::int64_t kMaxGroupAverageBytes = 24 << 10;
inline constexpr std::int64_t kGroupStagedBytes = 20 << 10;
inline constexpr std::int64_t kGroupStagedRow = 1 << 10;
inline constexpr std::int64_t kGroupBytes = 64 << 10;  // of the vectors of a group with several sets

inline SetGroupPlan set_group_plan(const AverageMatvec& p) {
  SetGroupPlan plan;
  const std::int64_t sets = p.sets(), length = p.length(), samples = p.samples();
  const std::int64_t element = p.vectors.type.size, row_bytes = samples * element;
  constexpr std::int64_t kBusy = 264;  // blocks; tuned on an H200 (132 multiprocessors)
  const auto clusters = [&] { return ceil_div(sets, std::int64_t{plan.sets}); };
  while (plan.sets < kWarpSize && ceil_div(sets, 2 * plan.sets) >= kBusy &&
         2 * plan.sets * length * element <= kMaxGroupAverageBytes / 2 &&
         2 * plan.sets * length * row_bytes <= kGroupBytes)
    plan.sets *= 2;
  const std::int64_t rows = plan.sets * length;
  const std::int64_t group_bytes = rows * row_bytes + length * length * element;
  while (plan.cluster < kMaxCluster && clusters() * plan.cluster < kBusy &&
         group_bytes / plan.cluster >= 8 << 10)
    plan.cluster *= 2;
  plan.staged = row_bytes <= kGroupStagedRow;
  if (plan.staged) {
    const std::int64_t share = ceil_div(rows, std::int64_t{plan.cluster});
    const int count = static_cast<int>(std::max<std::int64_t>(
        std::min(share, kGroupStagedBytes / std::max<std::int64_t>(row_bytes, 1)), 1));
    plan.rows = {.rows_per_block = count, .lanes = lanes_of_staged(count, samples)};
  } else {
    const std::int64_t wanted = std::clamp<std::int64_t>(
        kProductWarps * plan.cluster / std::max<std::int64_t>(rows, 1), 1,
        std::min<std::int64_t>(ceil_div(row_bytes, 2 << 10), 64));
    const std::int64_t part = ceil_div(ceil_div(samples, wanted), 128) * 128;
    plan.split = {.parts = ceil_div(samples, part), .part_samples = part};
  }
  plan.averages = static_cast<std::size_t>(
      rows * (plan.split.parts > 1 ? plan.split.parts + 1 : 1));
  plan.averages = (plan.averages + 3) / 4 * 4;  // the staged rows start at a vector
  plan.shared_bytes =
      plan.averages * static_cast<std::size_t>(element) +
      (plan.staged ? bytes_of_staged(plan.rows.rows_per_block, samples, static_cast<int>(element))
                   : 0);
  return plan;
}

inline const char* why_not_set_groups(const AverageMatvec& p) {
  return p.length() * p.vectors.type.size > kMaxGroupAverageBytes
             ? "the averages of one set exceed 24 KiB, the part of shared memory for them"
             : nullptr;
}

#ifdef __CUDACC__

// Starts to load a part of the matrix into L2 while the vectors are being averaged.
inline __device__ void prefetch_to_l2(const void* from, std::int64_t bytes) {
  constexpr int kLine = 128;
  const char* const line = static_cast<const char*>(from);
  for (std::int64_t at = threadIdx.x * kLine; at < bytes; at += kProductThreads * kLine)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(line + at));
}

// Rows [first_row, end_row) of the product with `sets` averages, of which `exist` are stored. The
// averages of an element are neighbours. Lanes that share an average have different rows:
//
//   4 sets    lane     0 1 2 3 | 4 5 6 7 | 8 ...
//             set      0 1 2 3 | 0 1 2 3 | 0 ...
//             element     0    |    1    | 2 ...    then 8, 9, 10, ...
template <class T>
__device__ void multiply_group(const AverageMatvecOperands<T>& p, const T* averages, int sets,
                               int first_row, int end_row, std::int64_t first_set, int exist) {
  constexpr int kRows = 4;
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const int set = lane & (sets - 1), element = lane / sets, elements = kWarpSize / sets;
  const int length = static_cast<int>(p.length);
  for (int row = first_row + warp * kRows; row < end_row; row += kProductWarps * kRows) {
    const T* from[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      from[i] = p.matrix + static_cast<std::int64_t>(min(row + i, length - 1)) * length;
    T product[kRows] = {};
#pragma unroll 4
    for (int j = element; j < length; j += elements) {
      const T average = averages[j * sets + set];
#pragma unroll
      for (int i = 0; i < kRows; ++i) product[i] = fma(__ldg(from[i] + j), average, product[i]);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      for (int distance = sets; distance < kWarpSize; distance *= 2)
        product[i] += __shfl_xor_sync(kAllLanes, product[i], distance);
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      if (element == (i & (elements - 1)) && row + i < end_row && set < exist)
        p.out[static_cast<std::int64_t>(row + i) * p.sets + first_set + set] = product[i];
  }
}

// kCluster: the sets of a cluster of several blocks; otherwise of one block.
template <class T, bool kStaged, bool kCluster>
__global__ void __launch_bounds__(kProductThreads, 4)
    average_matvec_set_groups(AverageMatvecOperands<T> p, SetGroupPlan plan) {
  extern __shared__ __align__(kVectorBytes) std::byte shared[];
  T* const averages = reinterpret_cast<T*>(shared);
  const unsigned rank = kCluster ? cluster_rank() : 0, blocks = kCluster ? plan.cluster : 1;
  const int length = static_cast<int>(p.length);
  const std::int64_t first_set = std::int64_t{blockIdx.x / blocks} * plan.sets;
  const int exist = static_cast<int>(min(p.sets - first_set, std::int64_t{plan.sets}));
  const int rows = exist * length, parts = static_cast<int>(plan.split.parts);
  const int row_share = (length + blocks - 1) / blocks;
  const int first_row = min(static_cast<int>(rank) * row_share, length);
  const int end_row = min(first_row + row_share, length);
  prefetch_to_l2(p.matrix + static_cast<std::int64_t>(first_row) * length,
                 static_cast<std::int64_t>(end_row - first_row) * length * sizeof(T));
  // A block may store to another one only after that has started.
  if (kCluster) arrive_at_cluster();

  const auto publish = [&](int row, int part, T value) {
    const int set = row / length, element = row - set * length;
    T* const own = averages + (element * parts + part) * plan.sets + set;
    if (!kCluster) *own = value;
    for (unsigned block = 0; kCluster && block < blocks; ++block)
      *in_block_of_cluster(own, block) = value;
  };
  const T samples = static_cast<T>(p.samples);
  if constexpr (kStaged) {
    T* const staged = averages + plan.averages;
    const int share = (rows + blocks - 1) / blocks;
    const int end = min((static_cast<int>(rank) + 1) * share, rows);
    bool started = false;
    for (int first = static_cast<int>(rank) * share; first < end;
         first += plan.rows.rows_per_block) {
      const int count = min(plan.rows.rows_per_block, end - first);
      const T* const from =
          stage(staged, p.vectors, p.sets * p.length * p.samples,
                (first_set * length + first) * p.samples, count * static_cast<int>(p.samples));
      if (kCluster && !started) wait_for_cluster();
      started = true;
      sum_staged_rows(from, count, static_cast<int>(p.samples), plan.rows.lanes,
                      [&](int row, T sum) { publish(first + row, 0, sum / samples); });
      __syncthreads();  // all threads have read the staged rows
    }
    if (kCluster && !started) wait_for_cluster();
  } else {
    const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
    bool started = false;
    for (int item = static_cast<int>(rank) * kProductWarps + warp; item < rows * parts;
         item += static_cast<int>(blocks) * kProductWarps) {
      const int row = item / parts, part = item - row * parts;
      const std::int64_t first = part * plan.split.part_samples;
      const T own = sum_of_lane<kWarpSize>(
          p.samples_of(first_set, row) + first,
          min(plan.split.part_samples, p.samples - first), lane, kVectorsPerThread * kWarpSize);
      const T sum = sum_over_lanes(own);
      if (kCluster && !started) wait_for_cluster();
      started = true;
      if (lane == 0) publish(row, part, parts == 1 ? sum / samples : sum);
    }
    if (kCluster && !started) wait_for_cluster();
  }
  if (kCluster)
    synchronise_cluster();
  else
    __syncthreads();
  const T* totals = averages;
  if (parts > 1) {
    T* const to = averages + plan.sets * length * parts;
    for (int i = threadIdx.x; i < plan.sets * length; i += kProductThreads) {
      const int element = i / plan.sets, set = i & (plan.sets - 1);
      CompensatedSum<T> sum;
      for (int part = 0; part < parts; ++part)
        sum.add(averages[(element * parts + part) * plan.sets + set]);
      to[i] = sum.total() / samples;
    }
    __syncthreads();
    totals = to;
  }
  multiply_group(p, totals, plan.sets, first_row, end_row, first_set, exist);
}

#endif

}  // namespace ado::cuda
