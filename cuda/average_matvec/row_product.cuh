// The product for few sets: it reads the matrix once, at the rate of DRAM.
//
// A warp multiplies kWarpRows rows of the matrix by the averages of kSets sets. Its lanes load
// neighbouring columns, so the matrix needs no shared memory. The warps of a block have different
// rows or different columns; the averages that warps share come from L1. The blocks of a cluster
// share the columns, too, so that matrices with few rows still keep the device busy.
//
//                       columns
//                       | slot 0 | slot 1 | slot 2 | slot 3 | slot 0 | ...
//   row group 0  rows   | warp 0 | warp 1 | warp 0 | warp 1 | ...
//   row group 1         | warp 2 | warp 3 | warp 2 | warp 3 | ...
//                       | rank 0 of the | rank 1 of the |
//                       | cluster       | cluster       |
#pragma once

#include <algorithm>
#include <cstdint>

#include "average_matvec/dependent_launch.cuh"
#include "average_matvec/product_tile.cuh"

namespace ado::cuda {

inline constexpr int kWarpRows = 4;
inline constexpr int kProductThreads = 256;
inline constexpr int kProductWarps = kProductThreads / kWarpSize;
inline constexpr unsigned kMaxCluster = 8;

// Resident blocks per multiprocessor: as many as the registers for the products allow.
template <class T, int kSets>
inline constexpr int kProductBlocks = kSets * sizeof(T) > 32 ? 1 : 2;

struct RowProductPlan {
  int row_groups;  // per block, a power of two
  unsigned cluster;
  unsigned row_blocks, set_tiles;
};

template <class T, int kSets>
RowProductPlan row_product_plan(std::int64_t length, std::int64_t sets, int vector_length) {
  // All blocks of kOneWave run at the same time, even in clusters of eight. A second wave would
  // wait for the first loads again. Tuned on an H200 (132 multiprocessors).
  constexpr std::int64_t kOneWave = 112 * kProductBlocks<T, kSets>;
  const std::int64_t set_tiles = ceil_div(sets, std::int64_t{kSets});
  const auto row_blocks = [&](int row_groups) {
    return ceil_div(length, std::int64_t{kWarpRows} * row_groups);
  };
  int row_groups = std::min(kProductWarps, kSets);
  while (row_groups > 1 && row_blocks(row_groups) * set_tiles > kOneWave / 2 &&
         row_blocks(row_groups) * set_tiles < kOneWave)
    row_groups /= 2;
  const std::int64_t steps = ceil_div(length, std::int64_t{kWarpSize} * vector_length);
  const std::int64_t column_warps = kProductWarps / row_groups;
  const std::int64_t cluster =
      std::min({std::int64_t{kMaxCluster}, kOneWave / (row_blocks(row_groups) * set_tiles),
                ceil_div(steps, column_warps)});
  return {.row_groups = row_groups,
          .cluster = static_cast<unsigned>(std::max<std::int64_t>(cluster, 1)),
          .row_blocks = static_cast<unsigned>(row_blocks(row_groups)),
          .set_tiles = static_cast<unsigned>(set_tiles)};
}

// Calls `visit` with the number of sets per tile.
template <class T, class Visit>
auto with_set_tile(std::int64_t sets, Visit visit) {
  if (sets <= 1) return visit(std::integral_constant<int, 1>{});
  if (sets <= 2) return visit(std::integral_constant<int, 2>{});
  if (sets <= 4) return visit(std::integral_constant<int, 4>{});
  if (sizeof(T) == 8 || sets <= 8) return visit(std::integral_constant<int, 8>{});
  return visit(std::integral_constant<int, sizeof(T) == 8 ? 8 : 16>{});
}

#ifdef __CUDACC__

// Adds kCount values over the lanes of a warp: lane l returns in values[i] the total of value
// l * kCount / 32 + i. In each step, a lane sends the half of its values that its partner keeps.
template <class T, int kCount>
__device__ void sum_values_over_lanes(T (&values)[kCount], int lane) {
  int left = kCount;
#pragma unroll
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
    if (left > 1) {
      left /= 2;
      const bool upper = (lane & distance) != 0;
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i)
        if (i < left) {
          const T sent = upper ? values[i] : values[i + left];
          const T kept = upper ? values[i + left] : values[i];
          values[i] = kept + __shfl_xor_sync(kAllLanes, sent, distance);
        }
    } else {
      values[0] += __shfl_xor_sync(kAllLanes, values[0], distance);
    }
  }
}

// Loads neighbouring columns of the matrix. Each element is used once, so L1 does not keep it.
template <class T, int kLength>
__device__ Vector<T, kLength> load_columns(const T* from) {
  if constexpr (kLength == 1)
    return {{__ldcg(from)}};
  else if constexpr (kLength < kVectorLength<T>)
    return __builtin_bit_cast(Vector<T, kLength>, __ldcg(reinterpret_cast<const float2*>(from)));
  else
    return load_past_l1(reinterpret_cast<const Vector<T, kLength>*>(from));
}

template <class T, int kLength, int kSets>
__global__ void __launch_bounds__(kProductThreads, kProductBlocks<T, kSets>)
    average_matvec_row_product(ProductOperands<T> p, RowProductPlan plan) {
  constexpr int kValues = kWarpRows * kSets;
  constexpr int kSteps = 32 / (kLength * static_cast<int>(sizeof(T)));  // loaded together
  using Columns = Vector<T, kLength>;
  __shared__ T partial[kProductWarps][kValues];
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const unsigned rank = cluster_rank(), tile = blockIdx.x / plan.cluster;
  const std::int64_t first_set = std::int64_t{tile % plan.set_tiles} * kSets;
  const int block_row =
      static_cast<int>(tile / plan.set_tiles) * (kWarpRows * plan.row_groups);
  const int group = warp % plan.row_groups;
  const int column_warps = kProductWarps / plan.row_groups;
  const int slot = static_cast<int>(rank) * column_warps + warp / plan.row_groups;
  const int stride = static_cast<int>(plan.cluster) * column_warps * kWarpSize * kLength;

  // Rows and sets past the end repeat the last one. Their results are not stored.
  const T* row[kWarpRows];
#pragma unroll
  for (int i = 0; i < kWarpRows; ++i)
    row[i] = p.matrix + static_cast<std::int64_t>(
                            min(block_row + group * kWarpRows + i, p.length - 1)) *
                            p.length;
  const T* const averages = p.averages + first_set * p.length;
  const int last_set = static_cast<int>(min(p.sets - 1 - first_set, std::int64_t{kSets - 1}));

  T product[kValues] = {};
  Columns left[kSteps][kWarpRows];
  const auto load = [&](int column) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
#pragma unroll
      for (int i = 0; i < kWarpRows; ++i) {
        left[s][i] = {};
        if (column + s * stride < p.length)
          left[s][i] = load_columns<T, kLength>(row[i] + column + s * stride);
      }
  };
  int column = (slot * kWarpSize + lane) * kLength;
  load(column);
  wait_for_previous_kernel();
  for (; column < p.length;) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
#pragma unroll
      for (int j = 0; j < kSets; ++j) {
        Columns right = {};
        if (column + s * stride < p.length)
          right = *reinterpret_cast<const Columns*>(
              averages + static_cast<std::int64_t>(min(j, last_set)) * p.length + column +
              s * stride);
#pragma unroll
        for (int i = 0; i < kWarpRows; ++i)
#pragma unroll
          for (int e = 0; e < kLength; ++e)
            product[i * kSets + j] = fma(left[s][i].at[e], right.at[e], product[i * kSets + j]);
        // Limits the loads in flight to eight averages; otherwise registers spill.
        if ((s * kSets + j) % 8 == 7) asm volatile("" ::: "memory");
      }
    column += kSteps * stride;
    load(column);
  }

  sum_values_over_lanes(product, lane);
  constexpr int kOwn = kValues >= kWarpSize ? kValues / kWarpSize : 1;
  constexpr int kSharers = kValues >= kWarpSize ? 1 : kWarpSize / kValues;
  if (lane % kSharers == 0)
#pragma unroll
    for (int i = 0; i < kOwn; ++i) partial[warp][lane / kSharers * kOwn + i] = product[i];
  synchronise_cluster();
  // The blocks of the cluster share the results.
  const int results = plan.row_groups * kValues;
  for (int result = rank + threadIdx.x * plan.cluster; result < results;
       result += kProductThreads * plan.cluster) {
    const int of_group = result / kValues, value = result % kValues;
    const int out_row = block_row + of_group * kWarpRows + value / kSets;
    const std::int64_t set = first_set + value % kSets;
    T sum = 0;
    for (unsigned block = 0; block < plan.cluster; ++block)
      for (int w = of_group; w < kProductWarps; w += plan.row_groups)
        sum += *in_block_of_cluster(&partial[w][value], block);
    if (out_row < p.length && set < p.sets) p.out[out_row * p.sets + set] = sum;
  }
  synchronise_cluster();  // the shared memory of a block must exist until all have read it
}

// out = matrix * averages^T, after the kernel that computes the averages.
template <class T>
void launch_row_product(const Launch& go, const ProductOperands<T>& p) {
  with_set_tile<T>(p.sets, [&](auto sets) {
    const auto launch_for = [&](auto length) {
      const RowProductPlan plan = row_product_plan<T, sets>(p.length, p.sets, length);
      Launch product = go;
      product.grid = {plan.cluster * plan.row_blocks * plan.set_tiles};
      product.block = {kProductThreads};
      product.shared_bytes = 0;
      launch_with({.dependent = true, .cluster = plan.cluster}, product,
                  average_matvec_row_product<T, length, sets>, p, plan);
    };
    if (p.aligned) return launch_for(std::integral_constant<int, kVectorLength<T>>{});
    if constexpr (sizeof(T) == sizeof(float))
      if (p.length % 2 == 0 && starts_at_vector(p.matrix, 8) && starts_at_vector(p.averages, 8))
        return launch_for(std::integral_constant<int, 2>{});
    launch_for(std::integral_constant<int, 1>{});
  });
}

#endif

}  // namespace ado::cuda
