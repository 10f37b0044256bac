// The read ceiling: a kernel that only reads, for routines that read far more than they write.
#pragma once

#include "common/grid.cuh"
#include "common/vector.cuh"

namespace ado::cuda {

// ---- read, cuda_read ----------------------------------------------------------------------------
// Each thread has kVectorsPerThread loads of one vector in flight.
inline constexpr int kReadThreads = 256;
inline constexpr int kVectorsPerThread = 8;
inline constexpr std::int64_t kChunkBytes =
    std::int64_t{kReadThreads} * kVectorsPerThread * kVectorBytes;

#ifdef __CUDACC__

// Each block reads one chunk per pass. Loads bypass L1 (.cg), so that only the size of the working
// set determines whether L2 or DRAM is read. Each pass reads a different chunk, because the
// compiler could reuse the values of the same chunk.
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
  // The condition is almost never true. The compiler does not know that and must keep the loads.
  if ((sum.x & sum.y & sum.z & sum.w) == 0xffffffffU) *sink = static_cast<Sink>(sum.x);
}

#endif  // __CUDACC__

// The variant `read`: reads the bytes of `kOperand` once. A tail shorter than one vector is
// ignored.
template <class Routine, Array Routine::*kOperand>
constexpr Variant<Routine> read_row(Change changes) {
  return {.name = "read",
          .changes = changes,
          .ceiling = true,
          .why_not =
              [](const Routine& p) {
                return starts_at_vector((p.*kOperand).data)
                           ? nullptr
                           : "the operand is not aligned to 16 bytes";
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
