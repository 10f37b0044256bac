// The ceilings of the GPU: bandwidth of each memory level, floating-point throughput.
#include "routines/ceilings.hpp"

#include <algorithm>
#include <cmath>

#include "common/cublas.cuh"
#include "common/read_ceiling.cuh"

namespace ado::cuda {
namespace {

constexpr int kThreads = kReadThreads;
constexpr Blocks kBlocks = {{{kThreads}}};

double no_bytes(const Ceilings&) { return 0; }

std::int64_t whole_chunks(const Array& a) { return a.bytes() / kChunkBytes; }

Extent block_per_chunk(const Ceilings& p, Extent) {
  return {.x = static_cast<unsigned>(whole_chunks(p.src))};
}

// ---- cuda_copy ----------------------------------------------------------------------------------
constexpr Variant<Ceilings> kCudaCopy = {
    .name = "cuda_copy",
    .changes = "Copies with cudaMemcpyAsync from device to device.",
    .ceiling = true,
    .run = ADO_RUN([](const Ceilings& p, const Launch& go) { copy(go, p.dst.data, p.src); })};

// ---- cuda_read, cuda_write ----------------------------------------------------------------------
double bytes_read(const Ceilings& p) {
  return static_cast<double>(p.passes * whole_chunks(p.src) * kChunkBytes);
}
double bytes_written(const Ceilings& p) {
  return static_cast<double>(whole_chunks(p.dst) * kChunkBytes);
}

// ---- cuda_read ----------------------------------------------------------------------------------
constexpr Variant<Ceilings> kCudaRead = {
    .name = "cuda_read",
    .changes = "Only reads, with eight 16-byte loads in flight per thread.",
    .ceiling = true,
    .blocks = kBlocks,
    .grid = block_per_chunk,
    .bytes = bytes_read,
    .run = ADO_RUN([](const Ceilings& p, const Launch& go) {
      launch(go, read_chunks<unsigned>, p.src.as<const uint4>(), p.src.bytes() / kVectorBytes,
             p.dst.as<unsigned>(), go.grid.x, static_cast<unsigned>(p.passes));
    })};

// ---- cuda_write ---------------------------------------------------------------------------------
#ifdef __CUDACC__
// Each block writes one chunk.
__global__ void __launch_bounds__(kThreads) ceiling_write(uint4* __restrict__ dst, unsigned value) {
  uint4* to = dst + std::int64_t{blockIdx.x} * kThreads * kVectorsPerThread + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kVectorsPerThread; ++i) to[i * kThreads] = {value, value, value, value};
}
#endif

constexpr Variant<Ceilings> kCudaWrite = {.name = "cuda_write",
                                          .changes = "Only writes, 16 bytes per store.",
                                          .ceiling = true,
                                          .blocks = kBlocks,
                                          .grid = block_per_chunk,
                                          .bytes = bytes_written,
                                          .run = ADO_RUN([](const Ceilings& p, const Launch& go) {
                                            launch(go, ceiling_write, p.dst.as<uint4>(),
                                                   0x3f9d70a4U);
                                          })};

// ---- cuda_read_l2, cuda_read_l1, cuda_read_shared -----------------------------------------------
// The read ceilings of the memory levels before DRAM: L1, shared memory and L2.
//
// L1 and shared memory return 128 bytes per cycle (64 on Turing), so a warp's load of 16 bytes per
// thread occupies the data path for 4 cycles. The schedulers issue 16 instructions in that time.
// The loop below needs about 4 instructions per load, so the data path is the limit.
constexpr int kCacheThreads = 256;
constexpr int kCacheLoads = 4;      // in flight per thread
constexpr int kSweepsPerPass = 16;  // so that the time to fill shared memory is small

enum class Memory { kL1, kShared, kL2 };

// The working set of a block, 16 KiB. For L1, all blocks read the same set, so it fits in L1 (at
// least 28 KiB) for any number of resident blocks; only the first block on each multiprocessor
// misses. For L2, each block reads its own set. If blocks read the same lines at about the same
// time, requests are merged before L2: on an H200, the loads then return up to 14.7 TB/s, but L2
// serves only 8.6 TB/s.
constexpr int kSetVectors = kCacheThreads * kCacheLoads;
constexpr std::int64_t kSetBytes = std::int64_t{kSetVectors} * kVectorBytes;

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
#endif

// For L2, one block per working set. Otherwise one thread per 8 bytes of src, so that the caller
// chooses the number of blocks.
template <Memory kFrom>
Extent cache_grid(const Ceilings& p, Extent) {
  const std::int64_t bytes_per_block = kFrom == Memory::kL2 ? kSetBytes : 8 * kCacheThreads;
  return {.x = static_cast<unsigned>(p.src.bytes() / bytes_per_block)};
}

template <Memory kFrom>
constexpr Variant<Ceilings> cache_read_row(const char* name, Change changes) {
  return {.name = name,
          .changes = changes,
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

// ---- cuda_read_l2 -------------------------------------------------------------------------------
constexpr auto kCudaReadL2 =
    cache_read_row<Memory::kL2>("cuda_read_l2",
                                "Reads 16 KiB per block that stay in L2, 16 bytes per thread and "
                                "load.");

// ---- cuda_read_l1 -------------------------------------------------------------------------------
constexpr auto kCudaReadL1 = cache_read_row<Memory::kL1>(
    "cuda_read_l1", "Reads 16 KiB that stay in L1, 16 bytes per thread and load.");

// ---- cuda_read_shared ---------------------------------------------------------------------------
constexpr auto kCudaReadShared = cache_read_row<Memory::kShared>(
    "cuda_read_shared",
    "Reads 16 KiB of shared memory, 16 bytes per thread and load, without bank conflicts.");

// ---- cuda_fma_fp64, cuda_add_fp64, cuda_fma_fp32, cuda_add_fp32 ---------------------------------
// Independent chains per thread. Together with the other warps, they hide the latency of the
// arithmetic.
constexpr int kChains = 8;
constexpr int kStepsPerPass = 64;

#ifdef __CUDACC__
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
#endif

// One thread per element of the result.
Extent thread_per_element(const Ceilings& p, Extent) {
  return {.x = static_cast<unsigned>(p.dst.elements() / kThreads)};
}

template <bool kFused>
double flops_of(const Ceilings& p) {
  return static_cast<double>(p.dst.elements() / kThreads * kThreads) *
         static_cast<double>(p.passes) * kStepsPerPass * kChains * (kFused ? 2 : 1);
}

template <class Real, bool kFused>
constexpr Variant<Ceilings> arithmetic(const char* name, Change changes) {
  return {.name = name,
          .changes = changes,
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

// ---- cuda_fma_fp64 ------------------------------------------------------------------------------
constexpr auto kCudaFmaFp64 = arithmetic<double, true>(
    "cuda_fma_fp64", "Computes independent chains of fused multiply-adds in float64.");

// ---- cuda_add_fp64 ------------------------------------------------------------------------------
constexpr auto kCudaAddFp64 = arithmetic<double, false>(
    "cuda_add_fp64", "Computes independent chains of additions in float64.");

// ---- cuda_fma_fp32 ------------------------------------------------------------------------------
constexpr auto kCudaFmaFp32 = arithmetic<float, true>(
    "cuda_fma_fp32", "Computes independent chains of fused multiply-adds in float32.");

// ---- cuda_add_fp32 ------------------------------------------------------------------------------
constexpr auto kCudaAddFp32 = arithmetic<float, false>(
    "cuda_add_fp32", "Computes independent chains of additions in float32.");

// ---- cuda_mma_fp64, cuda_mma_tf32, cuda_mma_bf16, cuda_mma_fp16, cuda_mma_fp8, cuda_mma_int8 ----
using cublas::TensorType;

// The number of rows of the matrices that a tensor-core ceiling multiplies; src holds both
// operands, and dst the result.
template <TensorType kType>
std::int64_t matrix_size(const Ceilings& p) {
  constexpr std::int64_t kPerElement =
      std::max(2 * cublas::operand_bytes(kType), cublas::result_bytes(kType));
  return static_cast<std::int64_t>(std::sqrt(static_cast<double>(p.src.bytes() / kPerElement)));
}

// The products of two matrices on tensor cores.
template <TensorType kType>
constexpr Variant<Ceilings> tensor(const char* name, Change changes, int min_compute) {
  return {.name = name,
          .changes = changes,
          .min_compute = min_compute,
          .ceiling = true,
          .why_not =
              [](const Ceilings& p) {
                const std::int64_t size = matrix_size<kType>(p);
                return size == 0 || size % 16 != 0
                           ? "src must contain two square matrices with a multiple of 16 rows"
                           : cublas::why_missing();
              },
          .scratch_bytes = [](const Ceilings&) { return cublas::kTensorWorkspace; },
          .flops =
              [](const Ceilings& p) {
                const auto size = static_cast<double>(matrix_size<kType>(p));
                return 2 * size * size * size * static_cast<double>(p.passes);
              },
          .bytes = no_bytes,
          .run = ADO_RUN([](const Ceilings& p, const Launch& go) {
            const std::int64_t size = matrix_size<kType>(p);
            const std::byte* const right = p.src.data + size * size * cublas::operand_bytes(kType);
            for (std::int64_t pass = 0; pass < p.passes; ++pass)
              cublas::tensor_product(go, kType, size, p.src.data, right, p.dst.data);
          })};
}

// ---- cuda_mma_fp64 ------------------------------------------------------------------------------
constexpr auto kCudaMmaFp64 =
    tensor<TensorType::kFp64>("cuda_mma_fp64", "Multiplies matrices of float64 with cuBLAS.", 80);

// ---- cuda_mma_tf32 ------------------------------------------------------------------------------
constexpr auto kCudaMmaTf32 = tensor<TensorType::kTf32>(
    "cuda_mma_tf32", "Multiplies matrices of float32, rounded to TF32, with cuBLAS.", 80);

// ---- cuda_mma_bf16 ------------------------------------------------------------------------------
constexpr auto kCudaMmaBf16 =
    tensor<TensorType::kBf16>("cuda_mma_bf16", "Multiplies matrices of bfloat16 with cuBLAS.", 80);

// ---- cuda_mma_fp16 ------------------------------------------------------------------------------
constexpr auto kCudaMmaFp16 =
    tensor<TensorType::kFp16>("cuda_mma_fp16", "Multiplies matrices of float16 with cuBLAS.", 75);

// ---- cuda_mma_fp8 -------------------------------------------------------------------------------
constexpr auto kCudaMmaFp8 =
    tensor<TensorType::kFp8>("cuda_mma_fp8", "Multiplies matrices of FP8 (E4M3) with cuBLAS.", 89);

// ---- cuda_mma_int8 ------------------------------------------------------------------------------
constexpr auto kCudaMmaInt8 =
    tensor<TensorType::kInt8>("cuda_mma_int8", "Multiplies matrices of int8 with cuBLAS.", 75);

// -------------------------------------------------------------------------------------------------

constexpr Variant<Ceilings> kSteps[] = {kCudaCopy,    kCudaRead,       kCudaWrite,   kCudaReadL2,
                                        kCudaReadL1,  kCudaReadShared, kCudaFmaFp64, kCudaAddFp64,
                                        kCudaFmaFp32, kCudaAddFp32,    kCudaMmaFp64, kCudaMmaTf32,
                                        kCudaMmaBf16, kCudaMmaFp16,    kCudaMmaFp8,  kCudaMmaInt8};

}  // namespace

Ladder<Ceilings> ceilings_ladder() { return ladder_of(kSteps); }

}  // namespace ado::cuda
