// The read ceilings of the memory levels before DRAM: L1, shared memory and L2.
//
// L1 and shared memory return 128 bytes per cycle (64 on Turing), so a warp's load of 16 bytes per
// thread occupies the data path for 4 cycles. The schedulers issue 16 instructions in that time.
// The loop below needs about 4 instructions per load, so the data path is the limit.
#pragma once

#include "common/launch.cuh"
#include "common/vector.cuh"
#include "common/warp.cuh"
#include "core/array.hpp"
#include "core/variant.hpp"
#include "routines/ceilings.hpp"

namespace ado::cuda {

inline constexpr int kCacheThreads = 256;
inline constexpr int kCacheLoads = 4;      // in flight per thread
inline constexpr int kSweepsPerPass = 16;  // so that the time to fill shared memory is small

enum class Memory { kL1, kShared, kL2 };

// The working set of a block, 16 KiB. For L1, all blocks read the same set, so it fits in L1 (at
// least 28 KiB) for any number of resident blocks; only the first block on each multiprocessor
// misses. For L2, each block reads its own set. If blocks read the same lines at about the same
// time, requests are merged before L2: on an H200, the loads then return up to 14.7 TB/s, but L2
// serves only 8.6 TB/s.
inline constexpr int kSetVectors = kCacheThreads * kCacheLoads;
inline constexpr std::int64_t kSetBytes = std::int64_t{kSetVectors} * kVectorBytes;

#ifdef __CUDACC__

// Each block reads the working set in each sweep. A warp's load covers 512 neighbouring bytes: four
// full lines of L1, or all banks of shared memory four times. The first vector of a thread moves by
// one warp per sweep, because the compiler would load an unchanged address only once.
template <Memory kFrom>
__global__ void __launch_bounds__(kCacheThreads)
    read_repeatedly(const uint4* src, unsigned* sink, int sweeps) {
  const uint4* set = src;
  if constexpr (kFrom == Memory::kL2) set += std::int64_t{blockIdx.x} * kSetVectors;
  if constexpr (kFrom == Memory::kShared) {
    __shared__ uint4 tile[kSetVectors];
#pragma unroll
    for (int i = 0; i < kCacheLoads; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kCacheThreads;
      tile[at] = src[at];
    }
    __syncthreads();
    set = tile;
  }
  uint4 sum = {};
  unsigned first = threadIdx.x;
#pragma unroll 1
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    const uint4* from = set + first;
    uint4 v[kCacheLoads];
#pragma unroll
    for (int i = 0; i < kCacheLoads; ++i) {
      const uint4* at = from + i * kCacheThreads;
      v[i] = kFrom == Memory::kL2 ? __ldcg(at) : *at;  // .cg bypasses L1
    }
#pragma unroll
    for (int i = 0; i < kCacheLoads; ++i) {
      sum.x ^= v[i].x;
      sum.y ^= v[i].y;
      sum.z ^= v[i].z;
      sum.w ^= v[i].w;
    }
    first = (first + kWarpSize) % kCacheThreads;
  }
  // The condition is almost never true. The compiler cannot prove this, so it keeps the loads.
  if ((sum.x & sum.y & sum.z & sum.w) == 0xffffffffU) *sink = sum.x;
}

#endif  // __CUDACC__

// For L2, one block per working set. Otherwise one thread per 8 bytes of src, so that the caller
// chooses the number of blocks.
template <Memory kFrom>
Extent cache_grid(const Ceilings& p, Extent) {
  const std::int64_t bytes_per_block = kFrom == Memory::kL2 ? kSetBytes : 8 * kCacheThreads;
  return {.x = static_cast<unsigned>(p.src.bytes() / bytes_per_block)};
}

template <Memory kFrom>
constexpr Variant<Ceilings> cache_read_row(const char* name, const char* changes) {
  return {.name = name,
          .changes = changes,
          .device = Device::kCuda,
          .ceiling = true,
          .why_not =
              [](const Ceilings& p) {
                return p.src.bytes() >= kSetBytes ? nullptr : "src is smaller than 16 KiB";
              },
          .blocks = {{{kCacheThreads}}},
          .grid = cache_grid<kFrom>,
          .bytes =
              [](const Ceilings& p) {
                return static_cast<double>(cache_grid<kFrom>(p, {}).x) * kSetBytes *
                       kSweepsPerPass * static_cast<double>(p.passes);
              },
          .run = ADO_RUN([](const Ceilings& p, const Launch& go) {
            launch(go, read_repeatedly<kFrom>, p.src.as<const uint4>(), p.dst.as<unsigned>(),
                   static_cast<int>(p.passes) * kSweepsPerPass);
          })};
}

}  // namespace ado::cuda
