// How blocks cover a problem: the folding of tall grids and its inverse.
#pragma once

#include "common/launch.cuh"

namespace ado::cuda {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// x by y blocks. A grid is at most 65535 tall, so what is taller is folded along z. Nor can it be
// deeper: with more than 65535^2 rows of blocks the launch fails.
constexpr Extent grid_of(std::int64_t x, std::int64_t y) {
  constexpr std::int64_t kTallest = 65535;
  const std::int64_t z = y > kTallest ? ceil_div(y, kTallest) : 1;
  return {static_cast<unsigned>(x), static_cast<unsigned>(ceil_div(y, z)),
          static_cast<unsigned>(z)};
}

#ifdef __CUDACC__

// How many blocks of so many threads a multiprocessor is to hold, for launch bounds: no more than
// it has room for threads.
constexpr int blocks_held(int blocks, [[maybe_unused]] int threads) {
#if defined(__CUDA_ARCH__)
  constexpr int kArch = __CUDA_ARCH__;
  constexpr bool kLarge = kArch == 800 || kArch == 900 || (kArch >= 1000 && kArch < 1100);
  constexpr int kMost = kArch < 800 ? 1024 : kLarge ? 2048 : 1536;
  return blocks * threads > kMost ? kMost / threads : blocks;
#else
  return blocks;
#endif
}

// The inverse of grid_of's folding.
__device__ inline std::int64_t block_x() { return blockIdx.x; }
__device__ inline std::int64_t block_y() {
  return static_cast<std::int64_t>(blockIdx.z) * gridDim.y + blockIdx.y;
}

// Of a thread among all that lie along x.
__device__ inline std::int64_t thread_x() { return block_x() * blockDim.x + threadIdx.x; }

#endif

}  // namespace ado::cuda
