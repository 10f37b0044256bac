// The read ceilings of the memories in a multiprocessor: L1 and shared memory.
//
// Both return 128 bytes per cycle (64 on Turing), so a warp's load of 16 bytes per thread occupies
// the data path for 4 cycles. The schedulers issue 16 instructions in that time. The loop below
// needs about 4 instructions per load, so the data path is the limit.
#pragma once

#include "common/launch.cuh"
#include "common/vector.cuh"
#include "common/warp.cuh"
#include "core/array.hpp"
#include "core/variant.hpp"
#include "routines/ceilings.hpp"

namespace ado::cuda {

inline constexpr int kNearestThreads = 256;
inline constexpr int kNearestLoads = 4;    // in flight per thread
inline constexpr int kSweepsPerPass = 16;  // so that filling shared memory takes little of the time

// The working set, 16 KiB. All blocks read the same one, so it fits in L1 (at least 28 KiB) for any
// number of resident blocks. Only the first block on each multiprocessor misses.
inline constexpr int kSetVectors = kNearestThreads * kNearestLoads;
inline constexpr std::int64_t kSetBytes = std::int64_t{kSetVectors} * kVectorBytes;

#ifdef __CUDACC__

// Each block reads the working set in each sweep. A warp's load covers 512 neighbouring bytes: four
// full lines of L1, or all banks of shared memory four times. The first vector of a thread moves by
// one warp per sweep, because the compiler would load an unchanged address only once.
template <bool kShared>
__global__ void __launch_bounds__(kNearestThreads)
    read_nearest(const uint4* src, unsigned* sink, int sweeps) {
  const uint4* set = src;
  if constexpr (kShared) {
    __shared__ uint4 tile[kSetVectors];
#pragma unroll
    for (int i = 0; i < kNearestLoads; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kNearestThreads;
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
    uint4 v[kNearestLoads];
#pragma unroll
    for (int i = 0; i < kNearestLoads; ++i) v[i] = from[i * kNearestThreads];
#pragma unroll
    for (int i = 0; i < kNearestLoads; ++i) {
      sum.x ^= v[i].x;
      sum.y ^= v[i].y;
      sum.z ^= v[i].z;
      sum.w ^= v[i].w;
    }
    first = (first + kWarpSize) % kNearestThreads;
  }
  // The condition is almost never true. The compiler does not know that and must keep the loads.
  if ((sum.x & sum.y & sum.z & sum.w) == 0xffffffffU) *sink = sum.x;
}

#endif  // __CUDACC__

// One thread per 8 bytes of src, so that the caller chooses the number of blocks.
inline Extent nearest_grid(const Ceilings& p, Extent) {
  return {.x = static_cast<unsigned>(p.src.bytes() / (8 * kNearestThreads))};
}

template <bool kShared>
constexpr Variant<Ceilings> read_nearest_row(const char* name, const char* changes) {
  return {.name = name,
          .changes = changes,
          .device = Device::kCuda,
          .ceiling = true,
          .why_not =
              [](const Ceilings& p) {
                return p.src.bytes() >= kSetBytes ? nullptr : "src is smaller than 16 KiB";
              },
          .blocks = {{{kNearestThreads}}},
          .grid = nearest_grid,
          .bytes =
              [](const Ceilings& p) {
                return static_cast<double>(nearest_grid(p, {}).x) * kSetBytes * kSweepsPerPass *
                       static_cast<double>(p.passes);
              },
          .run = ADO_RUN([](const Ceilings& p, const Launch& go) {
            launch(go, read_nearest<kShared>, p.src.as<const uint4>(), p.dst.as<unsigned>(),
                   static_cast<int>(p.passes) * kSweepsPerPass);
          })};
}

}  // namespace ado::cuda
