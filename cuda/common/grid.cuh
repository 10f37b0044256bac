// Grids and warps: folds the y dimension of tall grids into z, and computes the original block
// indices.
#pragma once

#include "common/launch.cuh"

namespace ado::cuda {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// A grid of x by y blocks. gridDim.y and .z are limited to 65535, so excess y is folded into z.
// With more than 65535^2 blocks along y, the launch fails.
constexpr Extent grid_of(std::int64_t x, std::int64_t y) {
  constexpr std::int64_t kMaxHeight = 65535;
  const std::int64_t z = y > kMaxHeight ? ceil_div(y, kMaxHeight) : 1;
  return {static_cast<unsigned>(x), static_cast<unsigned>(ceil_div(y, z)),
          static_cast<unsigned>(z)};
}

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kAllLanes = 0xffffffff;

#ifdef __CUDACC__

// The minimum number of resident blocks per multiprocessor, for launch bounds: `blocks` blocks of
// `threads` threads, or fewer if their threads exceed the limit of the multiprocessor.
constexpr int blocks_held(int blocks, [[maybe_unused]] int threads) {
#if defined(__CUDA_ARCH__)
  constexpr int kArch = __CUDA_ARCH__;
  constexpr bool kLarge = kArch == 800 || kArch == 900 || (kArch >= 1000 && kArch < 1100);
  constexpr int kMaxThreads = kArch < 800 ? 1024 : kLarge ? 2048 : 1536;
  return blocks * threads > kMaxThreads ? kMaxThreads / threads : blocks;
#else
  return blocks;
#endif
}

// Index of the calling block in the grid before grid_of folded it.
__device__ inline std::int64_t block_x() { return blockIdx.x; }
__device__ inline std::int64_t block_y() {
  return static_cast<std::int64_t>(blockIdx.z) * gridDim.y + blockIdx.y;
}

// Global x index of the calling thread.
__device__ inline std::int64_t thread_x() { return block_x() * blockDim.x + threadIdx.x; }

// Butterfly reduction: returns in every lane the sum over its group of kLanes neighbouring lanes.
template <int kLanes = kWarpSize, class T>
__device__ T sum_over_lanes(T x) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    x += __shfl_xor_sync(kAllLanes, x, distance);
  return x;
}

#endif

}  // namespace ado::cuda
