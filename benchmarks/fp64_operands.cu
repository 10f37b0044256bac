// Throughput of FP64 instructions by the number of different registers that they read. It limits
// the last variants of gpp.
//
//   nvcc -O3 -std=c++20 -arch=native -o fp64_operands benchmarks/fp64_operands.cu &&
//   ./fp64_operands
//
// An FMA of three different registers takes longer, unless the previous instruction has left one of
// them in the operand cache. Instructions of other pipes do not overlap with FP64 for free: they
// also take time to read their operands.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

#define CHECK(call)                                                        \
  do {                                                                     \
    if (const cudaError_t status = (call); status != cudaSuccess) {        \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status)); \
      std::exit(1);                                                        \
    }                                                                      \
  } while (false)

namespace {

enum class Operands {
  kAdd,
  kMultiply,
  kMultiplyAndSelect,
  kTwo,
  kShared,
  kPairsShare,
  kThree,
  kThreeAndSelect
};

constexpr int kChains = 8, kUnroll = 8, kPasses = 4000;
constexpr int kThreads = 128, kBlocks = 4;  // blocks per multiprocessor

template <Operands kWhich>
__global__ void __launch_bounds__(kThreads) chains(const double* in, double* out) {
  const double* const own = in + threadIdx.x;
  double sum[kChains], c[kChains], d[kChains];
  for (int i = 0; i < kChains; ++i) {
    sum[i] = own[i];
    c[i] = own[kChains + i];
    d[i] = own[2 * kChains + i];
  }
  const double m = own[3 * kChains], n = own[3 * kChains + 1];
  unsigned bits[kChains];
  for (int i = 0; i < kChains; ++i) bits[i] = threadIdx.x + i;
  for (int pass = 0; pass < kPasses; ++pass) {
#pragma unroll
    for (int i = 0; i < kUnroll * kChains; ++i) {
      double& s = sum[i % kChains];
      const double x = c[i % kChains], y = d[i % kChains];
      if (kWhich == Operands::kAdd) s = s + x;
      if (kWhich == Operands::kMultiply || kWhich == Operands::kMultiplyAndSelect) s = s * x;
      if (kWhich == Operands::kTwo) s = fma(s, x, 1.0);
      if (kWhich == Operands::kShared) s = fma(x, m, s);
      if (kWhich == Operands::kPairsShare) s = fma(c[i % kChains / 2], i % 2 == 0 ? m : n, s);
      if (kWhich == Operands::kThree || kWhich == Operands::kThreeAndSelect) s = fma(x, y, s);
      if (kWhich == Operands::kMultiplyAndSelect || kWhich == Operands::kThreeAndSelect)
        asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; selp.b32 %0, %0, %1, p;}"
                     : "+r"(bits[i % kChains])
                     : "r"(bits[(i + 1) % kChains]), "r"(blockDim.x));
    }
  }
  double total = 0;
  for (int i = 0; i < kChains; ++i) total += sum[i] + bits[i];
  out[blockIdx.x * kThreads + threadIdx.x] = total;
}

template <Operands kWhich>
void measure(const char* name, int multiprocessors, const double* in, double* out) {
  cudaEvent_t start, stop;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&stop));
  float best = 1e9F;
  for (int repeat = 0; repeat < 5; ++repeat) {
    CHECK(cudaEventRecord(start));
    chains<kWhich><<<multiprocessors * kBlocks, kThreads>>>(in, out);
    CHECK(cudaEventRecord(stop));
    CHECK(cudaEventSynchronize(stop));
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
    best = std::min(best, milliseconds);
  }
  const double instructions =
      1.0 * multiprocessors * kBlocks * kThreads * kPasses * kUnroll * kChains;
  std::printf("%-44s %6.2f T FP64 instructions/s\n", name, instructions / best / 1e9);
}

}  // namespace

int main() {
  int multiprocessors = 0;
  CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  double *in = nullptr, *out = nullptr;
  CHECK(cudaMalloc(&in, sizeof(double) * (kThreads + 4 * kChains)));
  CHECK(cudaMemset(in, 0, sizeof(double) * (kThreads + 4 * kChains)));
  CHECK(cudaMalloc(&out, sizeof(double) * multiprocessors * kBlocks * kThreads));
  measure<Operands::kAdd>("DADD", multiprocessors, in, out);
  measure<Operands::kMultiply>("DMUL", multiprocessors, in, out);
  measure<Operands::kMultiplyAndSelect>("DMUL and SEL", multiprocessors, in, out);
  measure<Operands::kTwo>("DFMA, two registers and a constant", multiprocessors, in, out);
  measure<Operands::kShared>("DFMA, three registers, one shared by all", multiprocessors, in, out);
  measure<Operands::kPairsShare>("DFMA, three registers, pairs share one", multiprocessors, in,
                                 out);
  measure<Operands::kThree>("DFMA, three registers", multiprocessors, in, out);
  measure<Operands::kThreeAndSelect>("DFMA, three registers, and SEL", multiprocessors, in, out);
  return 0;
}
