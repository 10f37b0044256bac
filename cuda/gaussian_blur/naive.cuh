// Gaussian blur, first variants: one thread per pixel and 49 loads from global memory.
//
// naive, coalesced and occupancy run the same kernel in different blocks; launch_bounds limits its
// registers.
#pragma once

#include "gaussian_blur/weights.cuh"
#include "image/view.cuh"

namespace ado::cuda {
namespace {

// Launch bounds of the variant launch_bounds: threads per block, and blocks that must fit on a
// multiprocessor.
constexpr int kBoundedThreads = 128;
constexpr int kBoundedBlocks = 10;

#ifdef __CUDACC__

// ---------------------------------------------------------------------------------------------
// naive uses blocks of 8x8 threads. A warp then loads bytes from four rows, and each load takes
// several passes through L1, which is the limiter: 16384 x 16384 pixels take 6.7 ms on an H200. In
// `coalesced`, blocks have 32 columns, so a warp loads from one row (3.3 ms). The larger blocks of
// `occupancy` gain nothing: a multiprocessor holds up to 32 blocks, and 32 blocks of 64 threads
// already reach its maximum number of threads.
__global__ void gaussian_blur_naive(Batch batch) {
  const ImageView view = ImageView(batch).moved(threadIdx.y, threadIdx.x);
  if (!view.contains(0, 0)) return;
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kTaps; ++i)
#pragma unroll
    for (int j = 0; j < kTaps; ++j)
      sum += weights.product[i][j] * view.pixel(i - kRadius, j - kRadius);
  view.store(0, 0, static_cast<std::uint8_t>(sum >> kShift));
}

// The kernel of naive with launch bounds. On Kepler, the bounds reduced the registers per thread
// from 51. Here, the compiler needs 30 without bounds. With bounds for ten blocks, it uses 45 for
// the same instructions, so that 55 % of a multiprocessor's warps are resident instead of 93 % (1.7
// % slower).
__global__ void __launch_bounds__(kBoundedThreads, blocks_held(kBoundedBlocks, kBoundedThreads))
    gaussian_blur_launch_bounds(Batch batch) {
  const ImageView view = ImageView(batch).moved(threadIdx.y, threadIdx.x);
  if (!view.contains(0, 0)) return;
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kTaps; ++i)
#pragma unroll
    for (int j = 0; j < kTaps; ++j)
      sum += weights.product[i][j] * view.pixel(i - kRadius, j - kRadius);
  view.store(0, 0, static_cast<std::uint8_t>(sum >> kShift));
}

#endif

}  // namespace
}  // namespace ado::cuda
