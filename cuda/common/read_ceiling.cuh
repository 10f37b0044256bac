// Reading and nothing else: the ceiling of what reads far more than it writes.
#pragma once

#include "common/grid.cuh"
#include "common/launch.cuh"
#include "common/vector.cuh"
#include "core/array.hpp"
#include "core/variant.hpp"

namespace ado::cuda {

// One vector access a thread and step; kVectorsPerThread of them are in flight at once.
inline constexpr int kReadThreads = 256;
inline constexpr int kVectorsPerThread = 8;
inline constexpr std::int64_t kChunkBytes =
    std::int64_t{kReadThreads} * kVectorsPerThread * kVectorBytes;

#ifdef __CUDACC__

// Each block reads a chunk, past L1 (.cg), so that the working set alone decides between L2 and
// DRAM. Each pass reads another one, or the compiler could keep the first.
template <class Sink>
__global__ void __launch_bounds__(kReadThreads)
    read_chunks(const uint4* __restrict__ src, std::int64_t vectors, Sink* __restrict__ sink,
                unsigned chunks, unsigned passes) {
  uint4 sum = {};
  for (unsigned pass = 0; pass < passes; ++pass) {
    const std::int64_t first =
        std::int64_t{(blockIdx.x + pass) % chunks} * kReadThreads * kVectorsPerThread + threadIdx.x;
    uint4 v[kVectorsPerThread] = {};
    if (first + (kVectorsPerThread - 1) * kReadThreads < vectors) {
#pragma unroll
      for (int i = 0; i < kVectorsPerThread; ++i) v[i] = __ldcg(src + first + i * kReadThreads);
    } else {
      for (int i = 0; i < kVectorsPerThread; ++i)
        if (first + i * kReadThreads < vectors) v[i] = __ldcg(src + first + i * kReadThreads);
    }
#pragma unroll
    for (int i = 0; i < kVectorsPerThread; ++i) {
      sum.x ^= v[i].x;
      sum.y ^= v[i].y;
      sum.z ^= v[i].z;
      sum.w ^= v[i].w;
    }
  }
  // Practically never true, but the compiler cannot know, so it has to load.
  if ((sum.x & sum.y & sum.z & sum.w) == 0xffffffffU) *sink = static_cast<Sink>(sum.x);
}

#endif  // __CUDACC__

// The row of a ceiling: the bytes of `kOperand` read once. What is left over beyond whole vectors
// does not count.
template <class Routine, Array Routine::*kOperand>
constexpr Variant<Routine> read_row(const char* changes) {
  return {.name = "read",
          .changes = changes,
          .device = Device::kCuda,
          .ceiling = true,
          .why_not =
              [](const Routine& p) {
                return reinterpret_cast<std::uintptr_t>((p.*kOperand).data) % kVectorBytes != 0
                           ? "needs an operand that begins at a multiple of 16 bytes"
                           : nullptr;
              },
          .blocks = {{{kReadThreads}}},
          .grid =
              [](const Routine& p, Extent) {
                return Extent{static_cast<unsigned>(ceil_div((p.*kOperand).bytes(), kChunkBytes))};
              },
          .flops = [](const Routine&) { return 0.0; },
          .bytes = [](const Routine& p) { return static_cast<double>((p.*kOperand).bytes()); },
          .run = ADO_RUN([](const Routine& p, const Launch& go) {
            launch(go, read_chunks<unsigned char>, (p.*kOperand).template as<const uint4>(),
                   (p.*kOperand).bytes() / kVectorBytes, p.out.template as<unsigned char>(),
                   go.grid.x, 1U);
          })};
}

}  // namespace ado::cuda
