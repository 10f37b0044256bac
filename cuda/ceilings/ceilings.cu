// The ceilings of the GPU: bandwidth of each memory level, floating-point throughput.
#include "routines/ceilings.hpp"

#include "ceilings/cache_read.cuh"
#include "common/launch.cuh"
#include "common/read_ceiling.cuh"
#include "core/variant.hpp"

namespace ado::cuda {
namespace {

constexpr int kThreads = kReadThreads;

// Independent chains per thread. Together with the other warps, they hide the latency of the
// arithmetic.
constexpr int kChains = 8;
constexpr int kStepsPerPass = 64;

#ifdef __CUDACC__

// Each block writes one chunk.
__global__ void __launch_bounds__(kThreads) ceiling_write(uint4* __restrict__ dst, unsigned value) {
  uint4* to = dst + std::int64_t{blockIdx.x} * kThreads * kVectorsPerThread + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kVectorsPerThread; ++i) to[i * kThreads] = {value, value, value, value};
}

// Each thread computes kChains chains of fused multiply-adds or additions. The result is stored so
// that the compiler keeps them.
template <class Real, bool kFused>
__global__ void __launch_bounds__(kThreads)
    ceiling_flops(double* dst, int passes, Real factor, Real term) {
  Real chain[kChains];
#pragma unroll
  for (int c = 0; c < kChains; ++c) chain[c] = static_cast<Real>(threadIdx.x + c);
  for (int pass = 0; pass < passes; ++pass) {
#pragma unroll
    for (int step = 0; step < kStepsPerPass; ++step)
#pragma unroll
      for (int c = 0; c < kChains; ++c)
        chain[c] = kFused ? fma(chain[c], factor, term) : chain[c] + term;
  }
#pragma unroll
  for (int c = 1; c < kChains; ++c) chain[0] += chain[c];
  dst[std::int64_t{blockIdx.x} * kThreads + threadIdx.x] = chain[0];
}

#endif  // __CUDACC__

std::int64_t whole_chunks(const Array& a) { return a.bytes() / kChunkBytes; }

Extent block_per_chunk(const Ceilings& p, Extent) {
  return {.x = static_cast<unsigned>(whole_chunks(p.src))};
}

double bytes_read(const Ceilings& p) {
  return static_cast<double>(p.passes * whole_chunks(p.src) * kChunkBytes);
}
double bytes_written(const Ceilings& p) {
  return static_cast<double>(whole_chunks(p.dst) * kChunkBytes);
}

// One thread per element of the result.
Extent thread_per_element(const Ceilings& p, Extent) {
  return {.x = static_cast<unsigned>(p.dst.elements() / kThreads)};
}

template <bool kFused>
double flops_of(const Ceilings& p) {
  return static_cast<double>(p.dst.elements() / kThreads * kThreads) *
         static_cast<double>(p.passes) * kStepsPerPass * kChains * (kFused ? 2 : 1);
}

double no_bytes(const Ceilings&) { return 0; }

constexpr Blocks kBlocks = {{{kThreads}}};

template <class Real, bool kFused>
constexpr Variant<Ceilings> arithmetic(const char* name, const char* changes) {
  return {.name = name,
          .changes = changes,
          .device = Device::kCuda,
          .ceiling = true,
          .blocks = kBlocks,
          .grid = thread_per_element,
          .flops = flops_of<kFused>,
          .bytes = no_bytes,
          .run = ADO_RUN([](const Ceilings& p, const Launch& go) {
            launch(go, ceiling_flops<Real, kFused>, p.dst.as<double>(), static_cast<int>(p.passes),
                   static_cast<Real>(0.999), static_cast<Real>(0.001));
          })};
}

constexpr Variant<Ceilings> kVariants[] = {
    {.name = "cuda_copy",
     .changes = "Copies with cudaMemcpyAsync from device to device.",
     .device = Device::kCuda,
     .ceiling = true,
     .run = ADO_RUN([](const Ceilings& p, const Launch& go) { copy(go, p.dst.data, p.src); })},
    {.name = "cuda_read",
     .changes = "Only reads, with eight 16-byte loads in flight per thread.",
     .device = Device::kCuda,
     .ceiling = true,
     .blocks = kBlocks,
     .grid = block_per_chunk,
     .bytes = bytes_read,
     .run = ADO_RUN([](const Ceilings& p, const Launch& go) {
       launch(go, read_chunks<unsigned>, p.src.as<const uint4>(), p.src.bytes() / kVectorBytes,
              p.dst.as<unsigned>(), go.grid.x, static_cast<unsigned>(p.passes));
     })},
    {.name = "cuda_write",
     .changes = "Only writes, 16 bytes per store.",
     .device = Device::kCuda,
     .ceiling = true,
     .blocks = kBlocks,
     .grid = block_per_chunk,
     .bytes = bytes_written,
     .run = ADO_RUN([](const Ceilings& p, const Launch& go) {
       launch(go, ceiling_write, p.dst.as<uint4>(), 0x3f9d70a4U);
     })},
    cache_read_row<Memory::kL2>("cuda_read_l2",
                                "Reads 16 KiB per block that stay in L2, 16 bytes per thread and "
                                "load."),
    cache_read_row<Memory::kL1>("cuda_read_l1",
                                "Reads 16 KiB that stay in L1, 16 bytes per thread and load."),
    cache_read_row<Memory::kShared>(
        "cuda_read_shared",
        "Reads 16 KiB of shared memory, 16 bytes per thread and load, without bank conflicts."),
    arithmetic<double, true>("cuda_fma_fp64",
                             "Computes independent chains of fused multiply-adds in float64."),
    arithmetic<double, false>("cuda_add_fp64",
                              "Computes independent chains of additions in float64."),
    arithmetic<float, true>("cuda_fma_fp32",
                            "Computes independent chains of fused multiply-adds in float32."),
    arithmetic<float, false>("cuda_add_fp32",
                             "Computes independent chains of additions in float32."),
};

}  // namespace

Ladder<Ceilings> ceilings_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda
