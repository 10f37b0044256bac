// Two launches: averages of all sets, then one matrix product.
//
// Averaging does not need one block per set. It uses one warp per row, for the rows of all sets.
// The products of all sets form one matrix product, which reads the matrix a few times instead of
// once per set.
#pragma once

#include "average_matvec/product_tile.cuh"
#include "average_matvec/set_per_block.cuh"

namespace ado::cuda {

template <class T>
using WideTile = ProductTile<T, 64, 16 * kVectorLength<T>, 256>;

#ifdef __CUDACC__

// One warp per row; cuBLAS computes the product. A grid-stride loop covers more rows than a grid
// has warps.
template <class T>
__global__ void __launch_bounds__(kAveragingThreads)
    average_matvec_average(AverageMatvecOperands<T> p, T* averages) {
  const int lane = threadIdx.x % kWarpSize;
  const std::int64_t rows = p.sets * p.length;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kAveragingWarps; first < rows;
       first += std::int64_t{gridDim.x} * kAveragingWarps) {
    const std::int64_t row = first + threadIdx.x / kWarpSize;
    if (row >= rows) return;
    const T sum =
        sum_over_lanes(sum_of_samples(p.vectors + row * p.samples, p.samples, lane, kWarpSize));
    if (lane == 0) averages[row] = sum / static_cast<T>(p.samples);
  }
}

// 16 bytes per load, eight loads in flight per lane, and a number of lanes per row that depends on
// the row length (row_averages.cuh).
template <int kLanes, class T>
__global__ void __launch_bounds__(kAveragingThreads, 4)
    average_matvec_wide_average(SampleRows<T> rows, T* averages) {
  __shared__ T warp_sums[kAveragingWarps];
  average_rows_of<kLanes>(rows, blockIdx.x, warp_sums,
                          [&](std::int64_t row, T average) { averages[row] = average; });
}

// One block per tile of the product (product_tile.cuh).
template <class Tile, class T>
__global__ void __launch_bounds__(kAveragingThreads, 2)
    average_matvec_product(ProductOperands<T> p) {
  extern __shared__ __align__(kVectorBytes) std::byte shared[];
  multiply_tile<Tile, false>(p, static_cast<int>(blockIdx.y) * Tile::kRows,
                             std::int64_t{blockIdx.x} * Tile::kSets, reinterpret_cast<T*>(shared));
}

#endif

}  // namespace ado::cuda
