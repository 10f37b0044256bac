// wide_average: like average_then_gemm, with wide loads and an own product in tiles.
#pragma once

#include "average_matvec/engine/product_tile.cuh"

namespace ado::cuda {

template <class T>
using WideTile = ProductTile<T, 64, 16 * kVectorLength<T>, 256>;

#ifdef __CUDACC__

// 16 bytes per load, eight loads in flight per lane, and a number of lanes per row that depends on
// the row length (row_averages.cuh).
template <int kLanes, class T>
__global__ void __launch_bounds__(kAveragingThreads, kAveragingBlocks)
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
