// Gaussian blur with a tile in shared memory: each pixel is loaded from global memory once per
// block instead of 49 times.
//
//   <-3-> <---------- 32 ----------> <-3->      38 columns
//   +------------------------------------+  ^
//   |                halo                |  3
//   |     +------------------------+     |  v
//   |     |  tile of the block:    |     |  ^
//   |     |  32 x 4 pixels,        |     |  4   10 rows
//   |     |  one per thread        |     |  v
//   |     +------------------------+     |  ^
//   |                                    |  3
//   +------------------------------------+  v
//
// The 4 x 32 threads load the 10 x 38 pixels in 3 x 2 rounds. In the last round in each direction,
// some threads have no pixel left to load.
#pragma once

#include "gaussian_blur/weights.cuh"
#include "image/view.cuh"

namespace ado::cuda {
namespace {

constexpr int kSharedBlockRows = 4;

#ifdef __CUDACC__

// ---------------------------------------------------------------------------------------------
// shared: 2.5 ms for 16384 x 16384 pixels on an H200; `occupancy` takes 3.3 ms. L1 and shared
// memory are the same memory here, so loads do not get faster. Only address computations and border
// tests are saved.
//
// kReadOnly is for the variant read_only, which loads through the read-only data path. This path
// also uses L1, so only the compiler's order of instructions changes (also 2.5 ms).
template <bool kReadOnly>
__global__ void __launch_bounds__(kBlockCols* kSharedBlockRows) gaussian_blur_shared(Batch batch) {
  constexpr int kHaloRows = kSharedBlockRows + 2 * kRadius, kHaloCols = kBlockCols + 2 * kRadius;
  constexpr int kPitch = 64;  // bytes per row of the tile
  constexpr int kDown = (kHaloRows + kSharedBlockRows - 1) / kSharedBlockRows;
  constexpr int kAcross = (kHaloCols + kBlockCols - 1) / kBlockCols;
  __shared__ std::uint8_t tile[kHaloRows][kPitch];
  const int row = threadIdx.y, col = threadIdx.x;
  const ImageView view(batch);

  // Load the tile and its halo. All loads are issued before the first result is stored.
  const ImageView first = view.moved(-kRadius, -kRadius).moved(row, col);
  std::uint8_t loaded[kDown][kAcross];
#pragma unroll
  for (int i = 0; i < kDown; ++i)
#pragma unroll
    for (int j = 0; j < kAcross; ++j)
      if (row + i * kSharedBlockRows < kHaloRows && col + j * kBlockCols < kHaloCols)
        loaded[i][j] = first.pixel<kReadOnly>(i * kSharedBlockRows, j * kBlockCols);
#pragma unroll
  for (int i = 0; i < kDown; ++i)
#pragma unroll
    for (int j = 0; j < kAcross; ++j)
      if (row + i * kSharedBlockRows < kHaloRows && col + j * kBlockCols < kHaloCols)
        tile[row + i * kSharedBlockRows][col + j * kBlockCols] = loaded[i][j];
  __syncthreads();

  // Sum 49 products from shared memory.
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kTaps; ++i)
#pragma unroll
    for (int j = 0; j < kTaps; ++j) sum += weights.product[i][j] * tile[row + i][col + j];
  view.store(row, col, static_cast<std::uint8_t>(sum >> kShift));
}

#endif

}  // namespace
}  // namespace ado::cuda
